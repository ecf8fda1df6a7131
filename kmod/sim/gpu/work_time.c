// SPDX-License-Identifier: Apache-2.0
/* The simulated card's time. */
#include "work_inside.h"

uint64_t work_now(const struct work *work)
{
	return work->now;
}

uint64_t work_next(const struct work *work)
{
	uint64_t next = commands_next(work), at;
	uint32_t index;

	for (index = 0; index < work->setup.engines; index++) {
		at = engine_next(work, &work->engine[index]);
		if (at < next)
			next = at;
	}
	return next;
}

/* Engines settle one after the other; what one's end gives another one to do at the same time is done too. */
void work_settle(struct work *work)
{
	uint32_t index;

	work->kicked = true;
	if (work->inside)
		return;
	work->inside = true;
	while (work->kicked) {
		work->kicked = false;
		commands_apply(work);
		for (index = 0; index < work->setup.engines; index++)
			engine_settle(work, &work->engine[index]);
	}
	work->inside = false;
}

static void step(struct work *work, uint64_t to)
{
	uint32_t index;

	for (index = 0; index < work->setup.engines; index++)
		engine_spend(work, &work->engine[index], to - work->now);
	work->now = to;
	work_settle(work);
}

void work_advance(struct work *work, uint64_t until)
{
	uint64_t next;

	if (work->inside || until == WORK_NEVER)
		return;
	while ((next = work_next(work)) <= until)
		step(work, next);
	if (work->now < until)
		step(work, until);
}
