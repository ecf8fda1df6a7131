// SPDX-License-Identifier: Apache-2.0
/* A whole case, from its begin to its end. */
#include "inside.h"

/* When the next container comes or goes. */
static uint64_t next_member(const struct shares_case *what, const bool *was_here, const struct shares *shares)
{
	uint64_t next = WORK_NEVER;
	uint32_t slot;

	for (slot = 0; slot < what->containers; slot++) {
		const struct shares_container *of = &what->container[slot];
		uint64_t at = shares->member[slot].here ? of->leave : was_here[slot] ? WORK_NEVER : of->join;

		if (at < next)
			next = at;
	}
	return next;
}

static int move_members(const struct shares_case *what, bool *was_here, struct shares *shares)
{
	uint64_t now = work_now(shares->work);
	uint32_t slot;

	for (slot = 0; slot < what->containers; slot++) {
		const struct shares_container *of = &what->container[slot];

		if (shares->member[slot].here && of->leave <= now) {
			shares_leave(shares, slot);
		} else if (!was_here[slot] && of->join <= now) {
			was_here[slot] = true;
			if (shares_join(shares, slot, of))
				return -1;
		}
	}
	return 0;
}

static int run(const struct shares_case *what, struct shares *shares, uint64_t *samples)
{
	bool was_here[SHARES_CONTAINERS] = { false };
	uint64_t sampled = 0, now = 0, next;
	uint32_t slot;

	while (!move_members(what, was_here, shares)) {
		if (samples && what->sample && now >= (sampled + 1) * what->sample) {
			for (slot = 0; slot < what->containers; slot++)
				samples[sampled * what->containers + slot] = shares_used(shares, slot);
			sampled++;
		}
		if (now >= what->duration)
			return 0;
		next = next_member(what, was_here, shares);
		if (next > what->duration)
			next = what->duration;
		if (samples && what->sample && next > (sampled + 1) * what->sample)
			next = (sampled + 1) * what->sample;
		shares_advance(shares, next);
		now = work_now(shares->work);
	}
	return -1;
}

int shares_run(const struct shares_case *what, struct shares_result *result, uint64_t *samples)
{
	struct work_engine_figures engine;
	struct shares *shares;
	uint32_t slot;
	int status;

	memset(result, 0, sizeof(*result));
	shares = what->containers <= SHARES_CONTAINERS ? shares_open(&what->setup) : NULL;
	if (!shares)
		return -1;
	status = run(what, shares, samples);
	*result = shares->result;
	for (slot = 0; slot < what->containers; slot++)
		shares_figures(shares, slot, &result->container[slot]);
	work_engine_figures(shares->work, 0, &engine);
	result->busy = engine.busy;
	result->switching = engine.switching;
	result->idle = engine.idle;
	shares_close(shares);
	return status;
}
