// SPDX-License-Identifier: Apache-2.0
/* What only the cards' own headers tell; the core's names and theirs are kept apart by files. */
#include "engines.h"

uint32_t chain_pending(struct sim *sim, uint32_t card);

uint32_t chain_pending(struct sim *sim, uint32_t card)
{
	const struct work *work = sim->cards[card].engines ? sim->cards[card].engines->work : NULL;

	return work ? work_pending(work) : 0;
}
