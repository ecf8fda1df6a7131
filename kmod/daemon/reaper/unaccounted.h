/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver says of the cards, from which the core works out unaccounted memory. */
#ifndef CGPUD_UNACCOUNTED_H
#define CGPUD_UNACCOUNTED_H

struct cgpud;

/* Ask about each card, and tell the core. */
void unaccounted_sample(struct cgpud *d);

#endif
