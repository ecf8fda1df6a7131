// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Timeslices of channel groups, for the policies that leave the time to the card. */
#include "sched/deficit.h"

/*
 * A runlist entry has a slice of (TIMEOUT << SCALE) units of 1024 ns (NVIDIA/open-gpu-doc, manuals/ampere/ga100/
 * dev_ram.ref.txt, "Runlist TSG Entry Type"). The driver takes such a unit for a microsecond: its own default, 128 << 3,
 * it calls 1024 us (src/nvidia/src/kernel/gpu/fifo/arch/volta/kernel_fifo_gv100.c:46).
 */
#define UNIT_NS 1024u
#define TIMEOUT_MAX 255u
#define SCALE_MAX 15u
/* Below this many units of a group a switch between groups costs too much, and so does rounding. */
#define GROUP_UNITS 256u
/* One pass over the runlist is stretched for that, to no more than this. */
#define PASS_NS 100000000ull

/* Round to what the hardware has, for times that it can have; a group that is one of many never gets more than its part. */
static void quantise(u64 ns, int down, struct cgpu_sched_timeslice *slice)
{
	u64 units = (down ? ns : ns + UNIT_NS / 2) / UNIT_NS;
	u32 scale = 0;

	while (scale < SCALE_MAX && units >> scale > TIMEOUT_MAX)
		scale++;
	if (scale && !down) {
		units += 1ull << (scale - 1);
		if (scale < SCALE_MAX && units >> scale > TIMEOUT_MAX)
			scale++;
	}
	units >>= scale;
	if (units == 0)
		units = 1;
	slice->us = units << scale;
	slice->ns = slice->us * UNIT_NS;
}

void cgpu_sched_quantise(u64 ns, struct cgpu_sched_timeslice *slice)
{
	const u64 most = (u64)TIMEOUT_MAX << SCALE_MAX;

	quantise(ns < most * UNIT_NS ? ns : most * UNIT_NS, 0, slice);
}

static u64 divide_up(u64 value, u64 by)
{
	return (value + by - 1) / by;
}

/* Number of times that each slot's slice is taken, so that the parts of the most divided one are not too small. */
static u64 stretch(const struct cgpu_sched *sched, const u32 *groups)
{
	u64 wanted = 1, needed = 1, pass = 0, most;
	u32 n;

	for (n = 0; n < CGPU_SCHED_SLOTS; n++) {
		u64 part = core_sched_units(sched, n) * sched->settings.slice;

		if (groups[n] == 0 || part == 0)
			continue;
		pass += part;
		if (divide_up((u64)groups[n] * GROUP_UNITS * UNIT_NS, part) > wanted)
			wanted = divide_up((u64)groups[n] * GROUP_UNITS * UNIT_NS, part);
		/* Less than a unit there is not: more groups would be more time. */
		if (divide_up((u64)groups[n] * UNIT_NS, part) > needed)
			needed = divide_up((u64)groups[n] * UNIT_NS, part);
	}
	most = pass && pass < PASS_NS ? PASS_NS / pass : 1;
	if (wanted > most)
		wanted = most;
	return wanted > needed ? wanted : needed;
}

int cgpu_sched_timeslices(
	const struct cgpu_sched *sched, const u32 *groups, struct cgpu_sched_timeslice slices[CGPU_SCHED_SLOTS])
{
	u64 times;
	u32 n;

	for (n = 0; n < CGPU_SCHED_SLOTS; n++) {
		if (groups[n] > CGPU_SCHED_GROUPS_MAX)
			return -EINVAL;
	}
	memset(slices, 0, CGPU_SCHED_SLOTS * sizeof(*slices));
	if (core_sched_takes_rounds(sched) || core_sched_policy_of(sched)->undivided)
		return 0;
	times = stretch(sched, groups);
	for (n = 0; n < CGPU_SCHED_SLOTS; n++) {
		u64 part = core_sched_units(sched, n) * sched->settings.slice * times;

		if (groups[n] && part)
			quantise(part / groups[n], groups[n] > 1, &slices[n]);
	}
	return 0;
}
