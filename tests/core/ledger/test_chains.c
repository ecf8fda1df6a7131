// SPDX-License-Identifier: Apache-2.0
/* Chains that a container could make long: by handles it chooses, duplicates, clients, files. */
#include "bench.h"
#include "lib/hash.h"

#define MANY 131072u
#define KEY 0x0123456789abcdefull
#define CLIENT 0xc1

static u64 seed = 0x2545f4914f6cdd1dull;

static struct bench *sliced(struct caller *caller)
{
	struct bench *bench = bench_new("580.142");

	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:12884901888"), 0);
	*caller = bench_caller(bench, "a", 100);
	caller->file = 1;
	bench_cuda_start(bench, caller, CLIENT);
	return bench;
}

static long take(struct bench *bench, const struct caller *caller, u32 client, u32 object)
{
	return bench_take(bench, caller, client, object, 65536);
}

/* The fullest bucket when MANY handles, these far apart, fall into it. */
static u32 longest(u64 key, u32 stride)
{
	static u32 count[CORE_OBJECT_BUCKETS];
	u32 most = 0, i, bucket;

	memset(count, 0, sizeof(count));
	for (i = 0; i < MANY; i++) {
		bucket = core_hash(key, 0, i * stride) % CORE_OBJECT_BUCKETS;
		if (++count[bucket] > most)
			most = count[bucket];
	}
	return most;
}

TEST(regular_handles_make_no_long_chain)
{
	u32 shift, key;

	for (key = 0; key < 3; key++) {
		for (shift = 0; shift < 15; shift += 2) {
			CHECK(longest(KEY * key, 1u << shift) < 16);
			CHECK(longest(KEY * key, 0x9e3779b1u << shift) < 16);
		}
	}
}

TEST(handles_that_meet_under_one_key_part_under_another)
{
	static u32 count[CORE_OBJECT_BUCKETS];
	u32 handle, met = 0, apart = 0;

	for (handle = 1; met < 50; handle++) {
		if (core_hash(KEY, 5, handle) % CORE_OBJECT_BUCKETS != 7)
			continue;
		met++;
		apart += count[core_hash(KEY + 1, 5, handle) % CORE_OBJECT_BUCKETS]++ == 0;
	}
	CHECK(apart > 45);
}

/* SipHash-1-3 of one word, worked out apart from this. */
TEST(the_hash_is_the_published_one)
{
	CHECK_EQ(core_hash(0, 0, 0), 0x150c532cu);
	CHECK_EQ(core_hash(KEY, 0x11223344, 0x55667788), 0xff8619e0u);
}

TEST_ON(the_key_stays_with_the_state, sliced(&caller))
{
	struct cgpu_state *fresh = calloc(1, cgpu_state_bytes());
	u64 key = bench->core.state->key;

	CHECK(fresh && key != 0);
	CHECK_EQ(take(bench, &caller, CLIENT, 1), NV_OK);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK_EQ(bench->core.state->key, key);
	bench_invariants(bench->core.state);
	CHECK_EQ(cgpu_state_convert(fresh, bench->core.state), 0);
	CHECK_EQ(fresh->key, key);
	bench_invariants(fresh);
	free(fresh);
}

/* Clients of a few processes on a few files come and go. */
TEST_ON(files_and_processes_are_kept_apart, sliced(&caller))
{
	u32 round, client;

	for (round = 0; round < 400; round++) {
		client = 0x100 + bench_chance(&seed, 40);
		caller.tgid = 100 + (s32)(client % 3);
		caller.file = bench_chance(&seed, 4);
		if (bench_chance(&seed, 3) == 0)
			bench_rm_free(bench, &caller, client, client);
		else if (bench_device(bench, &caller, client, 0xd0, 0) == NV_OK)
			CHECK_EQ(take(bench, &caller, client, 1), NV_OK);
		if (bench_chance(&seed, 50) == 0)
			cgpu_file_closed(&bench->core, 1 + bench_chance(&seed, 3));
		if (round % 20 == 0)
			bench_invariants(bench->core.state);
	}
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	bench_invariants(bench->core.state);
	for (client = 0x100; client < 0x100 + 40; client++)
		bench_rm_free(bench, &caller, client, client);
	cgpu_file_closed(&bench->core, 1);
	CHECK_EQ(bench->core.state->clients, 0);
}

TEST_ON(a_client_moves_to_the_file_of_its_last_call, sliced(&caller))
{
	CHECK_EQ(take(bench, &caller, CLIENT, 1), NV_OK);
	caller.file = 2;
	CHECK_EQ(take(bench, &caller, CLIENT, 2), NV_OK);
	bench_invariants(bench->core.state);
	cgpu_file_closed(&bench->core, 1);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 2 * 65536);
	cgpu_file_closed(&bench->core, 2);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
}

/* Each process once, in the order of its first client, whichever of its clients come in between. */
TEST_ON(every_process_is_listed_once, sliced(&caller))
{
	struct cgpu_process_charge charge;
	u32 cursor = 0, found = 0, i;
	s32 tgid;

	for (i = 0; i < 60; i++) {
		caller.tgid = i % 2 ? 100 : 1000 + (s32)i;
		CHECK_EQ(bench_device(bench, &caller, 0x1000 + i, 0xd0, 0), NV_OK);
		CHECK_EQ(take(bench, &caller, 0x1000 + i, 1), NV_OK);
	}
	while (cgpu_process_next(&bench->core, caller.slot, &cursor, &charge) == 0) {
		CHECK_EQ(charge.bytes, found ? 65536 : 30 * 65536);
		CHECK_EQ(charge.tgid, found ? 1000 + 2 * ((s32)found - 1) : 100);
		found++;
	}
	CHECK_EQ(found, 31);
	for (cursor = 0, found = 0; cgpu_process_known(&bench->core, caller.slot, &cursor, &tgid) == 0; found++)
		CHECK_EQ(tgid, found ? 1000 + 2 * ((s32)found - 1) : 100);
	CHECK_EQ(found, 31);
}
