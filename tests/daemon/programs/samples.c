// SPDX-License-Identifier: Apache-2.0
/*
 * GPU time by cgpud from the driver's samples of utilisation. Linked with --wrap for the driver itself: its answers are
 * written here, sample by sample.
 */
#include <stdlib.h>

#include "bench.h"
#include "engine.h"
#include "rm.h"

#define MS 1000000ull
#define VERSION "580.142"

static struct {
	int status;
	u8 ring[65536];
} card;

int __wrap_rm_control(int fd, const struct nv_abi *abi, u32 client, u32 object, u32 cmd, u8 *params, u32 bytes);

int __wrap_rm_control(int fd, const struct nv_abi *abi, u32 client, u32 object, u32 cmd, u8 *params, u32 bytes)
{
	const struct nv_layout_NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS *l =
		&abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS;

	CHECK_EQ(cmd, NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2);
	CHECK_EQ(bytes, l->bytes);
	CHECK_EQ(params[l->type], NV2080_CTRL_GPUMON_SAMPLE_TYPE_PERFMON_UTIL);
	CHECK_EQ(get32(params, l->bufSize), bytes - l->samples);
	memcpy(params + l->samples, card.ring, bytes - l->samples);
	return card.status;
}

/* The place in the ring says nothing of the order. */
static void say(u32 place, u64 at, u32 process, u32 busy)
{
	const struct nv_abi *abi = cgpu_abi_find(VERSION);
	u8 *sample = card.ring + (size_t)place * abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE.bytes;
	u32 gr = abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE.gr;

	put64(sample, abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE.base_timeStamp, at);
	put32(sample, gr + abi->NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE.procId, process);
	put32(sample, gr + abi->NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE.util, busy);
}

static struct cgpud *engine(const char *version)
{
	struct cgpud *d = calloc(1, sizeof(*d));

	CHECK(d);
	d->core.abi = cgpu_abi_find(version);
	return d;
}

static u64 of(const struct process_use *use, int count, s32 tgid)
{
	int i;

	for (i = 0; i < count; i++)
		if (use[i].tgid == tgid)
			return use[i].ns;
	return 0;
}

TEST(time_is_busyness_between_two_samples)
{
	struct sched_client sc = { .fd = 0 };
	struct cgpud *d = engine(VERSION);
	struct process_use use[SAMPLED_PROCESSES];
	enum cgpu_samples_kind look;
	int n;

	/* Time before the first look is nobody's. */
	say(5, 1000 * MS, 10, 10000);
	CHECK_EQ(sched_client_sample(d, &sc, use, &look), 0);
	CHECK_EQ(look, CGPU_SAMPLES_PART);
	/* Later ones in earlier places, two processes in one sample, no process, and more than all. */
	say(7, 1100 * MS, 10, 5000);
	say(0, 1200 * MS, 10, 10000);
	say(1, 1200 * MS, 20, 2500);
	say(2, 1300 * MS, NV2080_GPUMON_PID_INVALID, 10000);
	say(3, 1400 * MS, 30, 4000000000u);
	n = sched_client_sample(d, &sc, use, &look);
	CHECK_EQ(n, 3);
	CHECK_EQ(look, CGPU_SAMPLES_WHOLE);
	CHECK_EQ(of(use, n, 10), 150 * MS);
	CHECK_EQ(of(use, n, 20), 25 * MS);
	CHECK_EQ(of(use, n, 30), 100 * MS);
	/* No new sample, no time used. */
	CHECK_EQ(sched_client_sample(d, &sc, use, &look), 0);
	/* Samples are missing between: it counts for a second at most. */
	say(4, 9000 * MS, 10, 10000);
	n = sched_client_sample(d, &sc, use, &look);
	CHECK_EQ(of(use, n, 10), 1000 * MS);
	free(sc.samples);
	free(d);
}

TEST(more_samples_than_places_are_bounded)
{
	const struct nv_abi *abi = cgpu_abi_find(VERSION);
	struct sched_client sc = { .fd = 0, .sampling = { .since = 1 } };
	struct cgpud *d = engine(VERSION);
	struct process_use use[SAMPLED_PROCESSES];
	enum cgpu_samples_kind look;
	u32 i,
		places = (abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS.bytes -
				 abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS.samples) /
		abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE.bytes;

	CHECK(places < SAMPLED_PROCESSES);
	for (i = 0; i < places; i++)
		say(i, (1000 + places - i) * MS, 100 + i, 10000);
	CHECK_EQ(sched_client_sample(d, &sc, use, &look), places);
	/* There may have been more. */
	CHECK_EQ(look, CGPU_SAMPLES_LOST);
	say(0, (1000 + places + 1) * MS, 100, 10000);
	CHECK_EQ(sched_client_sample(d, &sc, use, &look), 1);
	CHECK_EQ(look, CGPU_SAMPLES_WHOLE);
	free(sc.samples);
	free(d);
}

TEST(a_driver_without_them_is_asked_once)
{
	struct sched_client sc = { .fd = 0 };
	struct cgpud *d = engine(VERSION);
	struct process_use use[SAMPLED_PROCESSES];
	enum cgpu_samples_kind look;

	card.status = NV_ERR_GENERIC;
	CHECK(sched_client_sample(d, &sc, use, &look) < 0);
	CHECK_EQ(sc.no_samples, 0);
	card.status = NV_ERR_NOT_SUPPORTED;
	CHECK(sched_client_sample(d, &sc, use, &look) < 0);
	CHECK_EQ(sc.no_samples, 1);
	card.status = NV_OK;
	CHECK(sched_client_sample(d, &sc, use, &look) < 0);
	free(sc.samples);
	free(d);
}
