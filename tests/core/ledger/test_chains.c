// SPDX-License-Identifier: Apache-2.0
/* Chains that a container could make long: by handles it chooses, duplicates, clients, files. */
#include "lib/hash.h"
#include "slices.h"

#define MANY 131072u
#define KEY 0x0123456789abcdefull
#define BYTES 65536 /* of each piece of memory */

static u64 seed = 0x2545f4914f6cdd1dull;

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

TEST_ON(the_key_stays_with_the_state, with_files(&caller))
{
	struct cgpu_state *fresh = calloc(1, cgpu_state_bytes());
	u64 key = bench->core.state->key;

	CHECK(fresh && key != 0);
	CHECK_EQ(take(bench, &caller, 1, BYTES), NV_OK);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK_EQ(bench->core.state->key, key);
	bench_invariants(bench->core.state);
	CHECK_EQ(cgpu_state_convert(fresh, bench->core.state), 0);
	CHECK_EQ(fresh->key, key);
	bench_invariants(fresh);
	free(fresh);
}

/* Clients of a few processes on a few files come and go. */
TEST_ON(files_and_processes_are_kept_apart, with_files(&caller))
{
	u32 round, client;

	for (round = 0; round < 400; round++) {
		client = 0x100 + bench_chance(&seed, 40);
		caller.tgid = 100 + (s32)(client % 3);
		caller.file = bench_chance(&seed, 4);
		if (bench_chance(&seed, 3) == 0)
			bench_rm_free(bench, &caller, client, client);
		else if (bench_device(bench, &caller, client, 0xd0, 0) == NV_OK)
			CHECK_EQ(bench_take(bench, &caller, client, 1, BYTES), NV_OK);
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

TEST_ON(a_client_moves_to_the_file_of_its_last_call, with_files(&caller))
{
	CHECK_EQ(take(bench, &caller, 1, BYTES), NV_OK);
	caller.file = 2;
	CHECK_EQ(take(bench, &caller, 2, BYTES), NV_OK);
	bench_invariants(bench->core.state);
	cgpu_file_closed(&bench->core, 1);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 2 * BYTES);
	cgpu_file_closed(&bench->core, 2);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
}

/* Each process once, in the order of its first client, whichever of its clients come in between. */
TEST_ON(every_process_is_listed_once, with_files(&caller))
{
	struct cgpu_process_charge charge;
	u32 cursor = 0, found = 0, i;
	s32 tgid;

	for (i = 0; i < 60; i++) {
		caller.tgid = i % 2 ? 100 : 1000 + (s32)i;
		CHECK_EQ(bench_device(bench, &caller, 0x1000 + i, 0xd0, 0), NV_OK);
		CHECK_EQ(bench_take(bench, &caller, 0x1000 + i, 1, BYTES), NV_OK);
	}
	while (cgpu_process_next(&bench->core, caller.slot, &cursor, &charge) == 0) {
		CHECK_EQ(charge.bytes, found ? BYTES : 30 * BYTES);
		CHECK_EQ(charge.tgid, found ? 1000 + 2 * ((s32)found - 1) : 100);
		found++;
	}
	CHECK_EQ(found, 31);
	for (cursor = 0, found = 0; cgpu_process_known(&bench->core, caller.slot, &cursor, &tgid) == 0; found++)
		CHECK_EQ(tgid, found ? 1000 + 2 * ((s32)found - 1) : 100);
	CHECK_EQ(found, 31);
}
