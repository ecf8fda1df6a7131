// SPDX-License-Identifier: Apache-2.0
/*
 * A slice's memory is the driver's pages where a transport counts them; and the transport is told limits when they
 * change.
 */
#include "slices.h"

#define MARGIN (16 * MIB)
#define EACH (96 * MIB)

/* Counters of the transport: one container's pages of GPU 0, and the limits that it was told last. */
static struct cgpu_pages counted;
static u64 limit_of_slice, limit_of_others;
static u64 taken_before; /* pages that are given out while the next limit is on its way */
static u32 ended;

static int pages(void *ctx, u32 gpu, u64 generation, u64 *bytes)
{
	CHECK_EQ(((struct bench *)ctx)->locked, 1);
	*bytes = gpu == 0 && generation == counted.generation ? counted.bytes : 0;
	return 1;
}

static int pages_next(void *ctx, u32 gpu, u32 *cursor, struct cgpu_pages *found)
{
	CHECK_EQ(((struct bench *)ctx)->locked, 1);
	if (gpu || (*cursor)++)
		return -ENOENT;
	*found = counted;
	return 0;
}

static void pages_limit(void *ctx, u32 gpu, u64 generation, u64 bytes, const char *id)
{
	CHECK_EQ(((struct bench *)ctx)->locked, 1);
	if (gpu == 0 && generation == 0)
		limit_of_others = bytes;
	if (gpu || generation != counted.generation)
		return;
	limit_of_slice = bytes;
	ended = id == NULL;
	counted.bytes += taken_before;
	taken_before = 0;
}

static struct bench *counting(struct caller *caller)
{
	struct bench *bench = sliced("580.142", caller);

	counted = (struct cgpu_pages){ .generation = caller->generation, .id = "a" };
	bench->ops.pages = pages;
	bench->ops.pages_next = pages_next;
	bench->ops.pages_limit = pages_limit;
	bench->core.state->settings.page_margin = MARGIN;
	bench->core.state->settings.context_memory = EACH;
	bench_cuda_start(bench, caller, FIRST);
	return bench;
}

TEST_ON(pages_are_what_a_slice_has, counting(&caller))
{
	CHECK(bench_is(bench, "engine", "cgpud 0.1.0 pages=counted\n"));
	cgpu_witness_set(&bench->core, "a-word-longer-than-there-is-room-for");
	CHECK(bench_is(bench, "engine", "cgpud 0.1.0 pages=counted witness=a-word-longer-t\n"));
	cgpu_witness_set(&bench->core, "");
	CHECK_EQ(take(bench, &caller, 1, 5 * MIB), NV_OK);
	counted.bytes = 8 * MIB;
	CHECK(bench_is(bench, "0/a/meminfo", "Free: 6328156160\nPID: 100 Mem: 5242880\n"));
	CHECK_EQ(bench_write(bench, "0/a/memsize", "8388607"), -EBUSY);
	CHECK_EQ(take(bench, &caller, 2, SLICE - 8 * MIB + 1), NV_ERR_NO_MEMORY);
	CHECK_EQ(take(bench, &caller, 2, SLICE - 8 * MIB), NV_OK);
	/* The container's pages are given back, also with charges left. */
	counted.bytes = 0;
	CHECK_EQ(take(bench, &caller, 3, SLICE), NV_OK);
}

/* The driver's pool has page tables that other containers have had counted as theirs. */
TEST_ON(tables_of_a_shared_pool_are_in_the_slice, counting(&caller))
{
	struct address_ask ask = { FIRST, 0xd0, 0, 0, 64ull << 30,
		NVOS32_ATTR_PAGE_SIZE_4KB << NVOS32_ATTR_PAGE_SIZE_SHIFT, NVOS32_ALLOC_FLAGS_VIRTUAL };
	long status = NV_OK;
	u32 n;

	for (n = 0; n < 100 && status == NV_OK; n++) {
		ask.object = 0x5000 + n;
		status = bench_addresses(bench, &caller, &ask);
	}
	CHECK_EQ(status, NV_ERR_NO_MEMORY);
	/* Tables for so many addresses are a 512th of them, and some directories. */
	CHECK_EQ(n - 1, SLICE / (128 * MIB));
	CHECK_EQ(bench->call.no_room, CGPU_NO_ROOM_LEFT);
}

TEST_ON(contexts_are_not_estimated_where_pages_count, counting(&caller))
{
	struct channel_ask ask = { FIRST, 0xd0, 0x10, KEPLER_CHANNEL_GROUP_A, NV2080_ENGINE_TYPE_GR0, 0 };

	CHECK_EQ(bench_channel(bench, &caller, &ask), NV_OK);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
}

TEST_ON(limits_are_told_when_they_change, counting(&caller))
{
	struct cgpu_reference_request request = { caller.slot, caller.generation, 100, .bytes = 64 * MIB };
	struct cgpu_reference managed;

	CHECK_EQ(bench_write(bench, "0/a/memsize", "1073741824"), 0);
	CHECK_EQ(limit_of_slice, 1024 * MIB + MARGIN);
	CHECK_EQ(limit_of_others, 0);
	CHECK_EQ(cgpu_reference_charge(&bench->core, &request, &managed), 0);
	CHECK_EQ(limit_of_slice, 960 * MIB + MARGIN);
	counted.bytes = 900 * MIB;
	request.bytes = 61 * MIB;
	CHECK_EQ(cgpu_reference_charge(&bench->core, &request, &(struct cgpu_reference){ 0 }), -ENOMEM);
	cgpu_reference_shrink(&bench->core, &managed, 32 * MIB);
	CHECK_EQ(limit_of_slice, 992 * MIB + MARGIN);
	cgpu_reference_drop(&bench->core, &managed);
	CHECK_EQ(limit_of_slice, 1024 * MIB + MARGIN);
	bench_settings(bench, 0, 0);
	CHECK_EQ(limit_of_slice, ~0ull);
	CHECK_EQ(limit_of_others, ~0ull);
}

TEST_ON(a_charge_gives_way_to_pages_that_came_first, counting(&caller))
{
	struct cgpu_reference_request request = { caller.slot, caller.generation, 100, .bytes = 64 * MIB };
	struct cgpu_reference managed;

	taken_before = SLICE - 32 * MIB;
	CHECK_EQ(cgpu_reference_charge(&bench->core, &request, &managed), -ENOMEM);
	CHECK_EQ(limit_of_slice, SLICE + MARGIN);
	request.bytes = 32 * MIB;
	CHECK_EQ(cgpu_reference_charge(&bench->core, &request, &managed), 0);
}

/* The last look at them was made when the client was. */
TEST_ON(page_tables_are_judged_by_the_count_of_now, counting(&caller))
{
	struct address_ask ask = { FIRST, 0xd0, 0x10, 0, 65536 * MIB, 0, 0 };

	counted.bytes = SLICE;
	CHECK_EQ(bench_addresses(bench, &caller, &ask), NV_ERR_NO_MEMORY);
	CHECK_EQ(bench->verdict, CGPU_ANSWER);
	counted.bytes = 0;
	CHECK_EQ(bench_addresses(bench, &caller, &ask), NV_OK);
}

TEST_ON(what_a_removed_container_left_is_promised_to_nobody, counting(&caller))
{
	counted.bytes = 3 * MIB;
	CHECK(bench_is(bench, "0/left", ""));
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(ended, 1);
	CHECK_EQ(limit_of_slice, 0);
	CHECK(bench_is(bench, "0/left", "a 3145728\n"));
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 3 * MIB);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=2 gpu=0:15842934784"), -ENOMEM);
	counted.bytes = 0;
	CHECK(bench_is(bench, "0/left", ""));
	CHECK_EQ(bench_ctl(bench, "create id=b pid=2 gpu=0:15842934784"), 0);
}

TEST_ON(what_several_left_has_one_line, counting(&caller))
{
	counted = (struct cgpu_pages){ .bytes = 5 * MIB };
	CHECK(bench_is(bench, "0/left", "- 5242880\n"));
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 5 * MIB);
	CHECK_EQ(bench_write(bench, "0/a/memsize", "1073741824"), 0);
	CHECK_EQ(limit_of_others, 0);
}

TEST_ON(whoever_has_a_limit_and_is_not_registered_was_removed, counting(&caller))
{
	counted.generation += 100;
	CHECK_EQ(bench_write(bench, "0/a/memsize", "1073741824"), 0);
	CHECK_EQ(ended, 1);
}
