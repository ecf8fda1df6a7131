// SPDX-License-Identifier: Apache-2.0
/* Charges: for what, how much, to whom and until when. */
#include "slices.h"

#define PAGE_4K (NVOS32_ATTR_PAGE_SIZE_4KB << NVOS32_ATTR_PAGE_SIZE_SHIFT)
#define PAGE_HUGE (NVOS32_ATTR_PAGE_SIZE_HUGE << NVOS32_ATTR_PAGE_SIZE_SHIFT)

TEST_ON(sizes_round_as_in_the_driver, started("580.142", &caller))
{
	static const struct {
		u64 size;
		u32 attr, flags;
		u64 alignment, charged;
	} rows[] = {
		{ 1, 0, 0, 0, 65536 },
		{ 65537, 0, 0, 0, 131072 },
		{ 2 * MIB - 1, 0, 0, 0, 2 * MIB },
		{ 2 * MIB, 0, 0, 0, 2 * MIB },
		{ 2 * MIB + 1, 0, 0, 0, 4 * MIB },
		{ 3 * MIB, PAGE_BIG, 0, 0, 3 * MIB },
		{ 1, PAGE_4K, 0, 0, 65536 },
		{ 1, PAGE_HUGE, 0, 0, 2 * MIB },
		{ 1, 0, NVOS32_ALLOC_FLAGS_ALIGNMENT_FORCE, 16 * MIB, 65536 },
		{ 1, 0, NVOS32_ALLOC_FLAGS_ALIGNMENT_FORCE | NVOS32_ALLOC_FLAGS_FIXED_ADDRESS_ALLOCATE, 16 * MIB,
			16 * MIB },
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct memory_ask ask = { .client = 0xc1, .parent = 0xd1, .object = 5, .size = rows[i].size };

		ask.attr = rows[i].attr;
		ask.flags = rows[i].flags;
		ask.alignment = rows[i].alignment;
		CHECK_EQ(bench_vidmem(bench, &caller, i & 1, &ask), NV_OK);
		CHECK_EQ(bench_used(bench, 0, caller.slot), rows[i].charged);
		CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 5), NV_OK);
		CHECK_EQ(bench_heap(bench, &caller, &ask), NV_OK);
		CHECK_EQ(bench_used(bench, 0, caller.slot), rows[i].charged);
		CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 5), NV_OK);
		CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
	}
}

TEST_ON_EACH(each_function_of_the_heap_is_charged, sliced(version, &caller), "515.43.04", "535.43.02", "580.142",
	"615.71.09")
{
	static const u32 functions[] = { NVOS32_FUNCTION_ALLOC_SIZE, NVOS32_FUNCTION_ALLOC_SIZE_RANGE,
		NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT };
	size_t i;

	for (i = 0; i < 3; i++) {
		struct memory_ask ask = { .client = 0xc1, .parent = 0xd0, .object = 5, .function = functions[i] };

		bench_cuda_start(bench, &caller, 0xc1);
		ask.size = SLICE + MIB;
		CHECK_EQ(bench_heap(bench, &caller, &ask), NV_ERR_NO_MEMORY);
		ask.size = 65 * 65536;
		CHECK_EQ(bench_heap(bench, &caller, &ask), NV_OK);
		CHECK_EQ(bench_used(bench, 0, caller.slot), 6 * MIB);
		/* The driver takes more than was asked for. */
		bench->driver_size = 100 * MIB;
		ask.object = 6;
		CHECK_EQ(bench_heap(bench, &caller, &ask), NV_OK);
		CHECK_EQ(bench_used(bench, 0, caller.slot), 106 * MIB);
		ask.object = 7;
		ask.flags = NVOS32_ALLOC_FLAGS_VIRTUAL | NVOS32_ALLOC_FLAGS_LAZY;
		CHECK_EQ(bench_heap(bench, &caller, &ask), NV_OK);
		CHECK_EQ(bench_used(bench, 0, caller.slot), 106 * MIB);
		CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 0xc1), NV_OK);
		bench->driver_size = 0;
	}
}

/* Memory of another socket is none of the card's; a version that does not know it gives memory of the card. */
TEST(memory_of_other_sockets)
{
	static const struct {
		const char *version;
		u64 charged;
	} rows[] = { { "515.43.04", MIB }, { "535.288.01", MIB }, { "545.29.06", MIB }, { "550.40.07", 0 },
		{ "580.142", 0 }, { "590.48.01", 0 }, { "595.45.04", MIB }, { "615.71.09", MIB } };
	struct memory_ask ask = { .client = 0xc1,
		.parent = 0xd0,
		.object = 5,
		.size = MIB,
		.attr2 = NVOS32_ATTR2_USE_EGM_TRUE << NVOS32_ATTR2_USE_EGM_SHIFT };
	struct caller caller;
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct bench *bench = sliced(rows[i].version, &caller);

		bench_cuda_start(bench, &caller, 0xc1);
		CHECK_EQ(bench_heap(bench, &caller, &ask), NV_OK);
		CHECK_EQ(bench_class(bench, &caller, NV_MEMORY_EXTENDED_USER), NV_OK);
		CHECK_EQ(bench_used(bench, 0, caller.slot), rows[i].charged);
		bench_free(bench);
	}
}

/* Height and pitch, as the driver multiplies them. */
TEST_ON(a_negative_pitch_is_large, started("580.142", &caller))
{
	const struct nv_layout_NVOS32_PARAMETERS *at;
	struct memory_ask ask = { .client = 0xc1,
		.parent = 0xd0,
		.object = 5,
		.size = MIB,
		.function = NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT };

	CHECK_EQ(bench_heap(bench, &caller, &ask), NV_OK);
	at = &bench->core.abi->NVOS32_PARAMETERS;
	put32(bench->top, at->data_AllocTiledPitchHeight_hMemory, 6);
	put32(bench->top, at->data_AllocTiledPitchHeight_height, 1);
	put32(bench->top, at->data_AllocTiledPitchHeight_pitch, ~0u);
	CHECK_EQ(bench_call(bench, &caller, NV_ESC_RM_VID_HEAP_CONTROL, at->bytes), NV_ERR_NO_MEMORY);
	CHECK_EQ(bench_used(bench, 0, caller.slot), MIB);
}

TEST_ON(huge_sizes_do_not_wrap, started("580.142", &caller))
{
	struct memory_ask ask = { .client = 0xc1, .parent = 0xd0, .object = 5 };

	for (ask.size = ~0ull; ask.size > SLICE; ask.size /= 2) {
		CHECK_EQ(bench_vidmem(bench, &caller, 1, &ask), NV_ERR_NO_MEMORY);
		CHECK_EQ(bench_heap(bench, &caller, &ask), NV_ERR_NO_MEMORY);
	}
	ask.size = 1;
	ask.attr = PAGE_HUGE;
	ask.attr2 = NVOS32_ATTR2_PAGE_SIZE_HUGE_256GB << NVOS32_ATTR2_PAGE_SIZE_HUGE_SHIFT;
	CHECK_EQ(bench_vidmem(bench, &caller, 1, &ask), NV_ERR_NO_MEMORY);
	ask.attr2 = 0;
	ask.flags = NVOS32_ALLOC_FLAGS_ALIGNMENT_HINT | NVOS32_ALLOC_FLAGS_FIXED_ADDRESS_ALLOCATE;
	ask.alignment = 1ull << 63;
	CHECK_EQ(bench_vidmem(bench, &caller, 1, &ask), NV_ERR_NO_MEMORY);
	ask.alignment = (1ull << 40) + 1;
	CHECK_EQ(bench_vidmem(bench, &caller, 1, &ask), NV_ERR_INVALID_ARGUMENT);
}

TEST_ON(charges_follow_the_drivers_answer, started("580.142", &caller))
{
	bench->driver_size = 3 * 65536;
	CHECK_EQ(take(bench, &caller, 1, 65536), NV_OK);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 3 * 65536);
	bench->driver_size = SLICE;
	CHECK_EQ(take(bench, &caller, 2, 65536), NV_ERR_NO_MEMORY);
	CHECK_EQ(bench->undone, 1);
	CHECK_EQ(bench->call.no_room, 1);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 3 * 65536);
}

TEST_ON(failed_calls_charge_nothing, sliced("580.142", &caller))
{
	bench->driver_status = NV_ERR_INVALID_CLIENT;
	CHECK_EQ(bench_device(bench, &caller, 0xc1, 0xd0, 0), NV_ERR_INVALID_CLIENT);
	CHECK_EQ(bench->core.state->clients, 0);
	bench->driver_status = NV_OK;
	bench_cuda_start(bench, &caller, 0xc1);
	bench->driver_status = NV_ERR_INSUFFICIENT_RESOURCES;
	CHECK_EQ(take(bench, &caller, 1, MIB), NV_ERR_INSUFFICIENT_RESOURCES);
	bench->driver_status = NV_OK;
	bench->driver_result = -EIO;
	CHECK_EQ(take(bench, &caller, 1, MIB), -EIO);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 0xd0), -EIO);
	bench->driver_result = 0;
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
}

TEST_ON(memory_that_comes_too_late_is_taken_back, started("580.142", &caller))
{
	bench->at_execute = end_container;
	CHECK_EQ(take(bench, &caller, 1, MIB), NV_ERR_NO_MEMORY);
	CHECK_EQ(bench->undone, 1);
	CHECK_EQ(bench->core.state->objects, 0);
}

static void second_thread(struct bench *bench)
{
	struct cgpu_call first = bench->call;
	struct caller caller = { .slot = first.slot, .generation = first.generation, .tgid = first.tgid };
	struct memory_ask ask = { .client = 0xc1, .parent = 0xd0, .object = 9, .size = 4000 * MIB };
	u8 top[256], params[256];

	memcpy(top, bench->top, sizeof(top));
	memcpy(params, bench->segment[0], sizeof(params));
	bench->at_execute = NULL;
	CHECK_EQ(bench_vidmem(bench, &caller, 1, &ask), NV_ERR_NO_MEMORY);
	bench->call = first;
	memcpy(bench->top, top, sizeof(top));
	memcpy(bench->segment[0], params, sizeof(params));
}

TEST_ON(two_calls_at_once_cannot_share_the_last_of_a_slice, started("580.142", &caller))
{
	bench->at_execute = second_thread;
	CHECK_EQ(take(bench, &caller, 1, 4000 * MIB), NV_OK);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 4000 * MIB);
}
