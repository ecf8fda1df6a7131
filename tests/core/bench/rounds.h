/* SPDX-License-Identifier: Apache-2.0 */
/* Busy containers on a card whose scheduling controls are noted, and a transport that makes them. For one test program each. */
#ifndef CGPU_TEST_TURNS_BENCH_H
#define CGPU_TEST_TURNS_BENCH_H

#include "bench.h"

#define MS 1000000ull
#define SLICE (2 * MS)
#define DEVICE 0xd0
#define GROUP KEPLER_CHANNEL_GROUP_A
#define CHANNEL AMPERE_CHANNEL_GPFIFO_A
#define GR NV2080_ENGINE_TYPE_GR0

/* The driver: which channels are stopped, by handle, and the time slice of each group. */
static struct {
	u32 status; /* of the scheduling controls */
	u32 stopped[4096], us[4096];
	u32 calls, batches, most;
	u64 takes; /* ns that stopping a channel of container 2 takes */
} driver;

static __attribute__((unused)) long make(
	struct bench *bench, const struct caller *caller, u32 client, u32 parent, u32 object, u32 class)
{
	struct channel_ask ask = { client, parent, object, class, GR, 0 };

	return bench_channel(bench, caller, &ask);
}

/* A container with a client, one group and its channels; handles by its number. */
static __attribute__((unused)) struct caller busy(struct bench *bench, u32 number, const char *tail, u32 channels)
{
	struct caller caller;
	char line[160], id[8];
	u32 n;

	snprintf(id, sizeof(id), "c%u", number);
	snprintf(line, sizeof(line), "create id=%s pid=%u gpu=0:268435456%s", id, number, tail);
	CHECK_EQ(bench_ctl(bench, line), 0);
	caller = bench_caller(bench, id, (s32)(1000 + number));
	bench_cuda_start(bench, &caller, 0xc000 + number);
	CHECK_EQ(make(bench, &caller, 0xc000 + number, DEVICE, 100 * number, GROUP), NV_OK);
	for (n = 1; n <= channels; n++) {
		CHECK_EQ(make(bench, &caller, 0xc000 + number, 100 * number, 100 * number + n, CHANNEL), NV_OK);
		CHECK_EQ(bench->call.round, 1);
	}
	bench_invariants(bench->core.state);
	return caller;
}

/* Do all of a transport's work, in its order. Returns when to come back. */
static __attribute__((unused)) u64 apply(struct bench *bench)
{
	struct cgpu_timeslice slice;
	struct cgpu_channel_batch batch;
	struct cgpu_round turn;
	u32 n, cursor = 0, opened = 0;

	bench->turned = 0;
	CHECK_EQ(cgpu_round(&bench->core, 0, &turn), 0);
	CHECK_EQ(turn.now, bench->now);
	while (cgpu_channels_next(&bench->core, 0, &batch) == 0) {
		CHECK(batch.count >= 1 && batch.count <= CGPU_CHANNEL_BATCH);
		driver.batches++;
		driver.most = batch.count > driver.most ? batch.count : driver.most;
		/* No channel starts before all that must stop have stopped. */
		CHECK(!(batch.disable && opened));
		opened |= !batch.disable;
		for (n = 0; n < batch.count && driver.status == NV_OK; n++)
			driver.stopped[batch.channel[n]] = batch.disable;
		if (batch.disable && batch.channel[0] / 100 == 2)
			bench->now += driver.takes;
		cgpu_channels_done(&bench->core, &batch, driver.status);
	}
	while (cgpu_timeslices_next(&bench->core, 0, 0, &cursor, &slice) == 0) {
		driver.calls++;
		driver.us[slice.group] = slice.us;
		cgpu_timeslices_done(&bench->core, &slice, NV_OK);
	}
	CHECK_EQ(cgpu_round(&bench->core, 0, &turn), 0);
	CHECK_EQ(turn.channels && driver.status == NV_OK && driver.takes == 0, 0);
	CHECK_EQ(turn.timeslices && driver.status == NV_OK, 0);
	return turn.until;
}

/* ns in so long that the first channel of each container may run. */
static __attribute__((unused)) void run(struct bench *bench, u64 ns, u64 ran[16])
{
	u64 end = bench->now + ns, until;
	u32 n;

	memset(ran, 0, 16 * sizeof(*ran));
	while (bench->now < end) {
		until = apply(bench);
		if (until > end)
			until = end;
		for (n = 0; n < 16; n++)
			ran[n] += driver.stopped[100 * n + 1] ? 0 : until - bench->now;
		bench->now = until;
	}
}

static __attribute__((unused)) struct bench *fresh(u32 policy)
{
	struct bench *bench = bench_new("580.142");
	char number[2] = { (char)('0' + policy), 0 };

	memset(&driver, 0, sizeof(driver));
	bench->now = 77 * MS;
	CHECK_EQ(bench_write(bench, "0/policy", number), 0);
	bench->turned = 0;
	return bench;
}

static __attribute__((unused)) struct caller tenant[3]; /* by the container's number */

/* Containers 1 and 2 with a channel each; the rest of a container's grant after its size is given. */
static __attribute__((unused)) struct bench *two_busy(u32 policy, const char *first, const char *second)
{
	struct bench *bench = fresh(policy);

	tenant[1] = busy(bench, 1, first, 1);
	tenant[2] = busy(bench, 2, second, 1);
	return bench;
}

static __attribute__((unused)) u64 usage(struct bench *bench, const char *path)
{
	char text[64];

	CHECK(bench_read(bench, path, text, sizeof(text)) > 0);
	return strtoull(text, NULL, 10);
}

static __attribute__((unused)) long schedule(struct bench *bench, const struct caller *caller, u32 n, u8 enable)
{
	const struct nv_layout_NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS *at =
		&bench->core.abi->NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS;

	bench->segment[0][at->bEnable] = enable;
	return bench_control(bench, caller, 0xc000 + n, 100 * n, NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, at->bytes);
}

#endif
