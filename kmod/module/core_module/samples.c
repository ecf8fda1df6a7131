// SPDX-License-Identifier: GPL-2.0-only
/*
 * Time that each process was at work on a card, by the driver's own samples (ctrl2080perf.h): a ring that says for
 * which process the graphics engine was busy, and that covers ten seconds.
 */
#include <linux/mm.h>

#include "core_module/rm_client.h"
#include "core_module/cards.h"

#define WHOLE 10000u /* util is in hundredths of a percent */

struct ring {
	const struct nv_abi *abi;
	const u8 *samples;
	u32 length, first; /* the oldest */
	u64 since; /* time of the last one that was counted */
};

static const u8 *ring_at(const struct ring *ring, u32 index)
{
	u32 place = (ring->first + index) % ring->length;

	return ring->samples + (size_t)place * ring->abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE.bytes;
}

static u64 ring_time(const struct ring *ring, u32 index)
{
	return get64(ring_at(ring, index), ring->abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE.base_timeStamp);
}

/* Count the time since the sample before. This one says which process had the engine for which part of it. */
static void ring_count(const struct ring *ring, struct cgpu_core *core, u32 gpu, u32 index, u64 ns)
{
	const struct nv_layout_NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE *at =
		&ring->abi->NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE;
	const u8 *engine = ring_at(ring, index) + ring->abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE.gr;
	s32 tgid = (s32)get32(engine, at->procId);
	u32 util = min(get32(engine, at->util), WHOLE);

	/* The time of a pause in the sampling belongs to no process. */
	ns = min(ns, (u64)CGPU_SAMPLES_NS);
	/* Without a process it is NV2080_GPUMON_PID_INVALID, which is -1. */
	if (tgid > 0)
		cgpu_ran(core, gpu, tgid, ns / WHOLE * util);
}

/* Several samples may be of one time: one for each process. */
static void ring_take(struct ring *ring, struct cgpu_core *core, u32 gpu)
{
	u64 before = ring->since, at = ring->since, time;
	u32 i;

	for (i = 0; i < ring->length; i++) {
		time = ring_time(ring, i);
		if (time == 0 || time <= ring->since)
			continue;
		if (time != at) {
			before = at;
			at = time;
		}
		/* The length of the very first sample is not known. */
		if (before && time > before)
			ring_count(ring, core, gpu, i, time - before);
	}
	ring->since = at;
}

static u64 ring_newest(const struct ring *ring)
{
	u64 newest = 0;
	u32 i;

	for (i = 0; i < ring->length; i++)
		newest = max(newest, ring_time(ring, i));
	return newest;
}

/* No sample was lost while the ring still has one that was counted before. */
static enum cgpu_samples_kind ring_look(const struct ring *ring)
{
	u32 i;

	if (ring->since == 0)
		return CGPU_SAMPLES_PART;
	for (i = 0; i < ring->length; i++) {
		if (ring_time(ring, i) <= ring->since)
			return CGPU_SAMPLES_WHOLE;
	}
	return CGPU_SAMPLES_LOST;
}

static int samples_ask(struct rm_client *own, const struct cgpu_km_card *card, struct ring *ring)
{
	const struct nv_layout_NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS *at =
		&own->abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS;
	struct cgpu_gpu_facts facts = { .gpu_id = card->gpu_id };
	int err = rm_client_attach(own, &facts);

	if (err)
		return err;
	memset(own->params, 0, own->room);
	own->params[at->type] = NV2080_CTRL_GPUMON_SAMPLE_TYPE_PERFMON_UTIL;
	put32(own->params, at->bufSize, at->bytes - at->samples);
	err = rm_client_control(
		own, RM_CLIENT_SUBDEVICE, NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2, at->bytes);
	ring->abi = own->abi;
	ring->samples = own->params + at->samples;
	ring->length = (u32)(at->bytes - at->samples) / own->abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE.bytes;
	ring->first = get32(own->params, at->tracker) % ring->length;
	return err;
}

int card_samples(struct cgpu_core *core, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card, u32 gpu,
	struct cgpu_sampling *looks)
{
	u32 bytes = core->abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS.bytes;
	struct ring ring = {};
	struct rm_client *own;
	int err;

	/* Before 525 the list went by a pointer. */
	if (bytes == 0)
		return -EOPNOTSUPP;
	own = rm_client_start(core->abi, rm, max(bytes, RM_CLIENT_ROOM));
	if (!own)
		return -ENOMEM;
	err = samples_ask(own, card, &ring);
	if (err == 0) {
		/* A card that was started anew may count from another time. */
		ring.since = looks->since <= ring_newest(&ring) ? looks->since : 0;
		cgpu_samples_begin(core, gpu, cgpu_sampling_add(looks, ring_look(&ring), core->ops->clock(core->ctx)));
		ring_take(&ring, core, gpu);
		looks->since = ring.since;
	}
	rm_client_end(own);
	return err;
}
