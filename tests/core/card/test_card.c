// SPDX-License-Identifier: Apache-2.0
/* What the core makes of a driver's answers about a card: written here, by the control. */
#include "cgpu_card.h"
#include "stats.h"
#include "rounds.h"

static struct {
	u8 params[1 << 16], ring[1 << 16];
	u32 asked, fails; /* controls so far; how many of the first fail */
	int error;
} card;

static int control(struct cgpu_card_client *client, u32 command, u32 bytes)
{
	const struct nv_abi *abi = client->abi;
	const struct nv_layout_NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS *samples =
		&abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS;
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_V2_PARAMS *memory = &abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS;

	CHECK(bytes <= client->room);
	if (card.asked++ < card.fails)
		return card.error;
	if (command == NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2) {
		CHECK_EQ(bytes, samples->bytes);
		CHECK_EQ(client->params[samples->type], NV2080_CTRL_GPUMON_SAMPLE_TYPE_PERFMON_UTIL);
		CHECK_EQ(get32(client->params, samples->bufSize), bytes - samples->samples);
		memcpy(client->params + samples->samples, card.ring, bytes - samples->samples);
	} else if (command == NV2080_CTRL_CMD_FB_GET_INFO_V2) {
		u32 data = memory->fbInfoList + abi->NV2080_CTRL_FB_INFO.data;

		put32(client->params, data, 4096);
		put32(client->params, data + abi->NV2080_CTRL_FB_INFO.bytes, 1024);
	} else {
		CHECK_EQ(command, NV2080_CTRL_CMD_GPU_GET_GID_INFO);
		memset(client->params + abi->NV2080_CTRL_GPU_GET_GID_INFO_PARAMS.data, 'G', 64);
		client->params[abi->NV2080_CTRL_GPU_GET_GID_INFO_PARAMS.data] = '\n';
		card.fails = ~0u;
	}
	return 0;
}

static struct cgpu_card_client asked(const char *version)
{
	memset(&card, 0, sizeof(card));
	return (struct cgpu_card_client){
		.abi = cgpu_abi_find(version), .params = card.params, .room = sizeof(card.params), .control = control
	};
}

/* The place in the ring says nothing of the order. */
static void say(const struct cgpu_card_client *client, u32 place, u64 ms, u32 process, u32 busy)
{
	const struct nv_abi *abi = client->abi;
	u8 *sample = card.ring + (size_t)place * abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE.bytes;
	u32 gr = abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE.gr;

	put64(sample, abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE.base_timeStamp, ms * MS);
	put32(sample, gr + abi->NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE.procId, process);
	put32(sample, gr + abi->NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE.util, busy);
}

static void used(struct bench *bench, u64 first, u64 second, u64 third)
{
	CHECK_STAT("0/c1/stat", "usage", first * MS);
	CHECK_STAT("0/c2/stat", "usage", second * MS);
	CHECK_STAT("0/c3/stat", "usage", third * MS);
}

TEST_ON(time_is_busyness_between_two_samples, two_busy(4, ":1", ":1"))
{
	struct cgpu_card_client client = asked("580.142");
	struct cgpu_sampling sampling = { 0 };

	busy(bench, 3, ":1", 1);
	apply(bench);
	/* Time before the first reading is nobody's, whether it was counted or not. */
	say(&client, 4, 900, 1001, 10000);
	say(&client, 5, 1000, 1001, 10000);
	CHECK_EQ(cgpu_card_sample(&client, &bench->core, 0, &sampling), 0);
	used(bench, 0, 0, 0);
	/* Later ones in earlier places, two processes in one sample, no process, and more than all. */
	say(&client, 7, 1100, 1001, 5000);
	say(&client, 0, 1200, 1001, 10000);
	say(&client, 1, 1200, 1002, 2500);
	say(&client, 2, 1300, NV2080_GPUMON_PID_INVALID, 10000);
	say(&client, 3, 1400, 1003, 4000000000u);
	CHECK_EQ(cgpu_card_sample(&client, &bench->core, 0, &sampling), 0);
	used(bench, 150, 25, 100);
	CHECK_EQ(sampling.after, CGPU_SAMPLES_NS);
	/* No new sample, no time used. */
	CHECK_EQ(cgpu_card_sample(&client, &bench->core, 0, &sampling), 0);
	used(bench, 150, 25, 100);
	/* Samples are missing between: it counts for a second at most. */
	say(&client, 4, 9000, 1001, 10000);
	CHECK_EQ(cgpu_card_sample(&client, &bench->core, 0, &sampling), 0);
	used(bench, 1150, 25, 100);
	/* A card that was started anew has another time. */
	memset(card.ring, 0, sizeof(card.ring));
	say(&client, 0, 10, 1001, 10000);
	CHECK_EQ(cgpu_card_sample(&client, &bench->core, 0, &sampling), 0);
	say(&client, 1, 20, 1001, 10000);
	CHECK_EQ(cgpu_card_sample(&client, &bench->core, 0, &sampling), 0);
	used(bench, 1160, 25, 100);
}

TEST_ON(where_all_are_new_some_may_be_lost, two_busy(4, ":1", ":1"))
{
	struct cgpu_card_client client = asked("580.142");
	const struct nv_layout_NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS *at =
		&client.abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS;
	u32 places = (u32)(at->bytes - at->samples) / client.abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE.bytes, i;
	struct cgpu_sampling sampling = { .since = 1 };

	for (i = 0; i < places; i++)
		say(&client, i, 1000 + places - i, 1001, 10000);
	CHECK_EQ(cgpu_card_sample(&client, &bench->core, 0, &sampling), 0);
	CHECK(sampling.after < CGPU_SAMPLES_NS);
	CHECK_EQ(sampling.since, (1000 + places) * MS);
	sampling = (struct cgpu_sampling){ .since = sampling.since };
	say(&client, 0, 1000 + places + 1, 1001, 10000);
	CHECK_EQ(cgpu_card_sample(&client, &bench->core, 0, &sampling), 0);
	CHECK_EQ(sampling.after, CGPU_SAMPLES_NS);
}

TEST_ON(a_driver_that_says_nothing_changes_nothing, two_busy(4, ":1", ":1"))
{
	struct cgpu_card_client client = asked("580.142");
	struct cgpu_sampling sampling = { .since = 7 };
	struct nv_abi without = *client.abi;

	card.fails = 1;
	card.error = -EIO;
	CHECK_EQ(cgpu_card_sample(&client, &bench->core, 0, &sampling), -EIO);
	client.room = 100;
	CHECK_EQ(cgpu_card_sample(&client, &bench->core, 0, &sampling), -EPROTO);
	memset(&without.NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS, 0,
		sizeof(without.NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS));
	client.abi = &without;
	CHECK_EQ(cgpu_card_sample(&client, &bench->core, 0, &sampling), -EOPNOTSUPP);
	CHECK_EQ(sampling.since, 7);
	CHECK_EQ(card.asked, 1);
}

/* With MIG the driver refuses the question for both; a lost card is asked no second time. */
TEST(memory_is_known_where_the_free_part_is_hidden)
{
	struct cgpu_card_client client = asked("580.142");
	u64 total, unused;

	CHECK_EQ(cgpu_card_memory(&client, &total, &unused), 0);
	CHECK(total == 4 * MIB && unused == MIB);
	client = asked("580.142");
	card.fails = 1;
	card.error = -EIO;
	CHECK_EQ(cgpu_card_memory(&client, &total, &unused), 0);
	CHECK(total == 4 * MIB && unused == 0 && card.asked == 2);
	client = asked("580.142");
	card.fails = 1;
	card.error = -ENXIO;
	CHECK_EQ(cgpu_card_memory(&client, &total, &unused), -ENXIO);
	CHECK_EQ(card.asked, 1);
}

TEST(names_are_texts_that_end)
{
	struct cgpu_card_client client = asked("580.142");
	struct cgpu_gpu_facts facts = { 0 };

	card.error = -EIO;
	CHECK_EQ(cgpu_card_names(&client, &facts), -EIO);
	CHECK_EQ(strlen(facts.uuid), 63);
	CHECK(facts.uuid[0] == '?' && facts.uuid[1] == 'G');
}

/* A batch that the driver's list does not hold is not cut. */
TEST(orders_that_do_not_fit_are_none)
{
	struct cgpu_channel_batch batch = { .disable = 1, .count = 2, .client = { 5, 6 }, .channel = { 7, 8 } };
	struct cgpu_timeslice slice = { .us = 1952 };
	const struct nv_abi *abi = asked("580.142").abi;
	const struct nv_layout_NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS *at =
		&abi->NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS;

	CHECK_EQ(cgpu_card_channels(abi, &batch, card.params, 100), 0);
	CHECK_EQ(cgpu_card_channels(abi, &batch, card.params, 1024), at->bytes);
	CHECK(card.params[at->bDisable] == 1 && get32(card.params, at->numChannels) == 2);
	CHECK(get32(card.params, at->hClientList + 4) == 6 && get32(card.params, at->hChannelList + 4) == 8);
	batch.count = CGPU_CHANNEL_BATCH + 1;
	CHECK_EQ(cgpu_card_channels(abi, &batch, card.params, 1024), 0);
	CHECK_EQ(cgpu_card_timeslice(abi, &slice, card.params, 4), 0);
	CHECK_EQ(cgpu_card_timeslice(abi, &slice, card.params, 1024), abi->NVA06C_CTRL_TIMESLICE_PARAMS.bytes);
	CHECK_EQ(get64(card.params, abi->NVA06C_CTRL_TIMESLICE_PARAMS.timesliceUs), 1952);
	CHECK_EQ(cgpu_card_page(abi, 9, card.params, 4), 0);
	CHECK_EQ(cgpu_card_page(abi, 9, card.params, 1024), abi->NV_MEMORY_ALLOCATION_PARAMS.bytes);
	CHECK_EQ(get64(card.params, abi->NV_MEMORY_ALLOCATION_PARAMS.size), 65536);
}
