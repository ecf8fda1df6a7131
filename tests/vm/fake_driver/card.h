/* SPDX-License-Identifier: GPL-2.0 */
#ifndef FAKE_CARD_H
#define FAKE_CARD_H

int card_create(void);
void card_destroy(void);

#endif
