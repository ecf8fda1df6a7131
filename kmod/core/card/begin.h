/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef CGPU_CARD_BEGIN_H
#define CGPU_CARD_BEGIN_H

#include "cgpu_card.h"
#include "fields.h"

/* Have the parameters of a control be zero. 0 or -EPROTO. */
static inline int core_card_begin(struct cgpu_card_client *card, u32 bytes)
{
	if (bytes > card->room)
		return -EPROTO;
	memset(card->params, 0, bytes);
	return 0;
}

#endif
