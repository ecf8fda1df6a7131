/* SPDX-License-Identifier: GPL-2.0 */
#ifndef STANDIN_CARD_H
#define STANDIN_CARD_H

int card_create(void);
void card_destroy(void);

#endif
