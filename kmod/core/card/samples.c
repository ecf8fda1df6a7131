// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Time that each process was at work on a card, by the driver's own samples (ctrl2080perf.h): a ring that says for
 * which process the graphics engine was busy, and that covers ten seconds. Its places are in any order.
 */
#include "card/begin.h"

#define WHOLE 10000u /* util is in hundredths of a percent */

static u32 places_of(const struct cgpu_card_client *card)
{
	const struct nv_layout_NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS *at =
		&card->abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS;

	return (u32)(at->bytes - at->samples) / card->abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE.bytes;
}

static const u8 *sample_at(const struct cgpu_card_client *card, u32 place)
{
	return card->params + card->abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS.samples +
		(size_t)place * card->abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE.bytes;
}

/* Nanoseconds of the driver's clock. */
static u64 time_at(const struct cgpu_card_client *card, u32 place)
{
	return get64(sample_at(card, place), card->abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE.base_timeStamp);
}

/* The newest sample's time that is before another time, and not before a third. */
static u64 newest_before(const struct cgpu_card_client *card, u64 end, u64 since)
{
	u64 newest = since, time;
	u32 i;

	for (i = 0; i < places_of(card); i++) {
		time = time_at(card, i);
		if (time < end && time > newest)
			newest = time;
	}
	return newest;
}

/* No sample was lost while the ring still has one that was counted before. */
static enum cgpu_samples_kind kind_of(const struct cgpu_card_client *card, u64 since)
{
	u32 i;

	if (since == 0)
		return CGPU_SAMPLES_PART;
	for (i = 0; i < places_of(card); i++) {
		if (time_at(card, i) <= since)
			return CGPU_SAMPLES_WHOLE;
	}
	return CGPU_SAMPLES_LOST;
}

/* A sample says which process had the engine for which part of the time since the sample before. */
static void count_sample(const struct cgpu_card_client *card, struct cgpu_core *core, u32 gpu, const u8 *sample, u64 ns)
{
	const struct nv_layout_NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE *at =
		&card->abi->NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE;
	const u8 *engine = sample + card->abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE.gr;
	s32 tgid = (s32)get32(engine, at->procId);
	u32 util = get32(engine, at->util);

	/* The time of a pause in the sampling belongs to no process. */
	if (ns > CGPU_SAMPLES_NS)
		ns = CGPU_SAMPLES_NS;
	/* Without a process it is NV2080_GPUMON_PID_INVALID, which is -1. */
	if (tgid > 0)
		cgpu_ran(core, gpu, tgid, ns * (util < WHOLE ? util : WHOLE) / WHOLE);
}

/* Several samples may be of one time: one for each process. */
static void count_since(const struct cgpu_card_client *card, struct cgpu_core *core, u32 gpu, u64 since)
{
	u64 time;
	u32 i;

	for (i = 0; i < places_of(card); i++) {
		time = time_at(card, i);
		if (time > since)
			count_sample(card, core, gpu, sample_at(card, i), time - newest_before(card, time, since));
	}
}

int cgpu_card_sample(struct cgpu_card_client *card, struct cgpu_core *core, u32 gpu, struct cgpu_sampling *sampling)
{
	const struct nv_layout_NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS *at =
		&card->abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS;
	u64 newest, since;
	int err;

	/* A driver that is known by a row alone may lack them. */
	if (at->bytes == 0)
		return -EOPNOTSUPP;
	err = core_card_begin(card, at->bytes);
	if (err)
		return err;
	card->params[at->type] = NV2080_CTRL_GPUMON_SAMPLE_TYPE_PERFMON_UTIL;
	put32(card->params, at->bufSize, (u32)at->bytes - at->samples);
	err = card->control(card, NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2, at->bytes);
	if (err)
		return err;
	newest = newest_before(card, ~0ull, 0);
	/* A card that was started anew may count from another time. */
	since = sampling->since <= newest ? sampling->since : 0;
	cgpu_samples_begin(core, gpu, cgpu_sampling_add(sampling, kind_of(card, since), core->ops->clock(core->ctx)));
	/* Samples from before the first reading may have been counted already. */
	if (since)
		count_since(card, core, gpu, since);
	sampling->since = newest;
	return 0;
}
