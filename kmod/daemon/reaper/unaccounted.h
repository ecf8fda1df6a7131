/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver says of the cards, for the core's reconciler. */
#ifndef CGPUD_DRIFT_H
#define CGPUD_DRIFT_H

struct cgpud;

/* Ask about each card, and tell the core. */
void drift_look(struct cgpud *d);

#endif
