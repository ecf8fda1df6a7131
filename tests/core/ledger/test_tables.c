// SPDX-License-Identifier: Apache-2.0
/* Page tables: the driver takes them for reservations of addresses and mappings there, and the slice is charged. */
#include "ledger/tables.h"
#include "slices.h"

#define DEVICE 0xd0
#define SPACE 0x77
#define OTHER_SPACE 0x78
#define GIB (1024 * MIB)
#define SMALL (NVOS32_ATTR_PAGE_SIZE_4KB << NVOS32_ATTR_PAGE_SIZE_SHIFT)
#define HUGE (NVOS32_ATTR_PAGE_SIZE_HUGE << NVOS32_ATTR_PAGE_SIZE_SHIFT)
#define ROOT 65536ull /* what a space is charged that has nothing */
#define OF_64_GIB 134766592ull /* tables of 64 GiB of 4 KiB pages, and directories */

static struct bench *with_space(const char *driver, struct caller *caller)
{
	struct bench *bench = started(driver, caller);

	bench->driver_page = 4096;
	CHECK_EQ(bench_space(bench, caller, FIRST, DEVICE, SPACE, 0), NV_OK);
	return bench;
}

static u64 charged(struct bench *bench, const struct caller *caller)
{
	bench_invariants(bench->core.state);
	return bench_used(bench, 0, caller->slot);
}

static struct address_ask addresses(u32 object, u64 size, u32 attr)
{
	return (struct address_ask){ FIRST, DEVICE, object, SPACE, size, attr, 0 };
}

/* The figures of gvaspaceReserveMempool(); 550.163.01 took 15,091,236,864 bytes for the first. */
TEST(tables_are_as_large_as_the_driver_makes_them)
{
	CHECK_EQ(core_tables_set_aside(7ull << 40, CORE_TABLES_SMALL), 15091245056ull);
	CHECK_EQ(core_tables_set_aside(64 * GIB, CORE_TABLES_SMALL), OF_64_GIB);
	CHECK_EQ(core_tables_set_aside(64 * GIB, CORE_TABLES_HUGE), OF_64_GIB);
	CHECK(core_tables_set_aside(64 * GIB, CORE_TABLES_SMALL_AND_BIG) > OF_64_GIB);
	CHECK_EQ(core_tables_set_aside(0, CORE_TABLES_SMALL), 0);
	CHECK_EQ(core_tables_set_aside(1, CORE_TABLES_SMALL), 6 * CORE_TABLE);
	CHECK(core_tables_set_aside(~0ull, CORE_TABLES_SMALL_AND_BIG) > 1ull << 55);
	CHECK_EQ(core_tables_of(1, CORE_TABLES_SMALL), 6);
	CHECK(core_tables_of(64 * GIB, CORE_TABLES_HUGE) < 200);
}

TEST_ON_EACH(
	a_reservation_beyond_the_slice_is_refused, with_space(version, &caller), "515.43.04", "550.163.01", "595.45.04")
{
	struct address_ask ask = addresses(0x10, 7ull << 40, SMALL);

	CHECK_EQ(bench_addresses(bench, &caller, &ask), NV_ERR_NO_MEMORY);
	CHECK_EQ(bench->call.no_room, CGPU_NO_ROOM_LEFT);
	CHECK_EQ(bench_heap_addresses(bench, &caller, &ask), NV_ERR_NO_MEMORY);
	ask.space = 0;
	CHECK_EQ(bench_addresses(bench, &caller, &ask), NV_ERR_NO_MEMORY);
	CHECK_EQ(charged(bench, &caller), ROOT);
	/* The driver is not asked about what costs nothing: it judges that alone. */
	ask.flags = NVOS32_ALLOC_FLAGS_LAZY;
	CHECK_EQ(bench_addresses(bench, &caller, &ask), NV_OK);
	CHECK_EQ(charged(bench, &caller), ROOT);
	ask.object++;
	ask.flags |= NVOS32_ALLOC_FLAGS_SPARSE;
	CHECK_EQ(bench_addresses(bench, &caller, &ask), NV_OK);
	CHECK(charged(bench, &caller) <= 2 * ROOT);
}

/* The driver fills its pool before it looks at the call, and keeps that. */
TEST_ON(a_refused_reservation_stays_charged_until_its_space_ends, with_space("550.163.01", &caller))
{
	struct address_ask ask = addresses(0x10, 64 * GIB, HUGE);

	bench->driver_status = NV_ERR_INVALID_ARGUMENT;
	CHECK_EQ(bench_addresses(bench, &caller, &ask), NV_ERR_INVALID_ARGUMENT);
	bench->driver_status = NV_OK;
	CHECK_EQ(charged(bench, &caller), core_round_up(OF_64_GIB + 4 * CORE_TABLE, 65536));
	/* Free entries of the pool are used again. */
	CHECK_EQ(bench_addresses(bench, &caller, &ask), NV_OK);
	ask.object++;
	CHECK_EQ(bench_heap_addresses(bench, &caller, &ask), NV_OK);
	CHECK(charged(bench, &caller) < OF_64_GIB + 2 * MIB);
	ask = addresses(0x12, MIB, HUGE);
	CHECK_EQ(bench_addresses(bench, &caller, &ask), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, 0x10), NV_OK);
	CHECK(charged(bench, &caller) > OF_64_GIB);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, SPACE), NV_OK);
	CHECK_EQ(charged(bench, &caller), 0);
	CHECK_EQ(core_object_find(bench->core.state, core_client_find(bench->core.state, caller.slot, FIRST), 0x11),
		CORE_NONE);
}

/* CUDA's spaces, of which UVM has the page tables: the driver takes none. */
TEST_ON(a_space_of_somebody_elses_tables_costs_nothing, with_space("550.163.01", &caller))
{
	struct address_ask ask = addresses(0x10, 7ull << 40, SMALL);

	CHECK_EQ(bench_space(
			 bench, &caller, FIRST, DEVICE, OTHER_SPACE, NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED),
		NV_OK);
	ask.space = OTHER_SPACE;
	CHECK_EQ(bench_addresses(bench, &caller, &ask), NV_OK);
	CHECK_EQ(charged(bench, &caller), ROOT);
}

/* While the driver works another thread puts a space with tables in the place of one without. */
static void exchange_space(struct bench *bench)
{
	struct cgpu_state *state = bench->core.state;
	u32 client = core_client_find(state, 0, FIRST), space = core_object_find(state, client, OTHER_SPACE);

	bench->at_execute = NULL;
	core_lock(&bench->core);
	core_object_drop(state, space);
	space = core_object_begin(state, client, CORE_OBJECT_VA_SPACE, 0);
	CHECK(core_memory_begin(state, space, 0, ROOT) != CORE_NONE);
	core_object_confirm(state, space, OTHER_SPACE, core_object_find(state, client, DEVICE));
	core_unlock(&bench->core);
}

TEST_ON(a_space_that_is_exchanged_meanwhile_pays, with_space("550.163.01", &caller))
{
	struct address_ask ask = addresses(0x10, 64 * GIB, SMALL);

	CHECK_EQ(bench_space(
			 bench, &caller, FIRST, DEVICE, OTHER_SPACE, NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED),
		NV_OK);
	ask.space = OTHER_SPACE;
	bench->at_execute = exchange_space;
	CHECK_EQ(bench_addresses(bench, &caller, &ask), NV_OK);
	CHECK(charged(bench, &caller) > OF_64_GIB);
}

TEST_ON(page_tables_survive_a_new_engine, with_space("550.163.01", &caller))
{
	struct address_ask ask = addresses(0x10, 64 * GIB, SMALL);
	struct map_ask map = { FIRST, DEVICE, 0x20, 5, 8 * MIB, 0x100000 };
	u64 before;

	CHECK_EQ(bench_addresses(bench, &caller, &ask), NV_OK);
	ask.object = 0x20;
	CHECK_EQ(bench_range(bench, &caller, &ask), NV_OK);
	CHECK_EQ(take(bench, &caller, 5, 8 * MIB), NV_OK);
	CHECK_EQ(bench_map(bench, &caller, &map), NV_OK);
	before = charged(bench, &caller);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK_EQ(charged(bench, &caller), before);
	CHECK_EQ(bench_unmap(bench, &caller, &map), NV_OK);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK(cgpu_gpu_orphaned(&bench->core, 0) > OF_64_GIB);
	bench_orphans_gone(bench);
	CHECK_EQ(bench->core.state->objects, 0);
}

/*
 * Mappings.
 */

static struct bench *with_range(struct caller *caller)
{
	struct bench *bench = with_space("550.163.01", caller);
	struct address_ask ask = addresses(0x20, 0, 0);

	CHECK_EQ(bench_range(bench, caller, &ask), NV_OK);
	CHECK_EQ(bench_host(bench, caller, FIRST, DEVICE, 5), NV_OK);
	return bench;
}

/* The driver fills its pool by the length, before it finds that the memory is shorter. */
TEST_ON(a_mapping_beyond_the_slice_is_refused, with_range(&caller))
{
	struct map_ask map = { FIRST, DEVICE, 0x20, 5, 7ull << 40, 0 };

	CHECK_EQ(bench_map(bench, &caller, &map), NV_ERR_NO_MEMORY);
	CHECK_EQ(charged(bench, &caller), ROOT);
	map.length = 64 * GIB;
	bench->driver_status = NV_ERR_INVALID_LIMIT;
	CHECK_EQ(bench_map(bench, &caller, &map), NV_ERR_INVALID_LIMIT);
	CHECK(charged(bench, &caller) > OF_64_GIB);
}

TEST_ON(mappings_are_credited_when_they_end, with_range(&caller))
{
	struct map_ask map = { FIRST, DEVICE, 0x20, 5, 64 * GIB, 64 * GIB };
	u32 round;

	for (round = 0; round < 50; round++) {
		CHECK_EQ(bench_map(bench, &caller, &map), NV_OK);
		CHECK_EQ(bench_unmap(bench, &caller, &map), NV_OK);
	}
	CHECK(charged(bench, &caller) < OF_64_GIB + MIB);
	for (round = 0; round < 3; round++, map.address += map.length)
		CHECK_EQ(bench_map(bench, &caller, &map), NV_OK);
	CHECK(charged(bench, &caller) > 3 * OF_64_GIB);
	/* With the memory all of its mappings end. */
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, 5), NV_OK);
	CHECK_EQ(bench_host(bench, &caller, FIRST, DEVICE, 5), NV_OK);
	for (round = 0; round < 3; round++, map.address += map.length)
		CHECK_EQ(bench_map(bench, &caller, &map), NV_OK);
	CHECK(charged(bench, &caller) < 3 * OF_64_GIB + MIB);
	/* And with the addresses. */
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, 0x20), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, SPACE), NV_OK);
	CHECK_EQ(charged(bench, &caller), 0);
}

static u32 longest_chain(const struct cgpu_state *state)
{
	u32 bucket, at, length, most = 0;

	for (bucket = 0; bucket < CORE_OBJECT_BUCKETS; bucket++) {
		length = 0;
		for (at = state->object_hash[bucket]; at != CORE_NONE; at = state->object[at].next)
			length++;
		most = length > most ? length : most;
	}
	return most;
}

TEST_ON(addresses_with_halves_that_cancel_each_other_make_no_long_chain, with_range(&caller))
{
	struct map_ask map = { FIRST, DEVICE, 0x20, 5, 4096, 0 };
	u64 n;

	for (n = 1; n <= 32; n++) {
		map.address = n << 44 | n << 12;
		CHECK_EQ(bench_map(bench, &caller, &map), NV_OK);
	}
	CHECK(longest_chain(bench->core.state) < 8);
}

TEST_ON(a_reservation_with_all_of_its_tables_is_mapped_for_nothing, with_range(&caller))
{
	struct address_ask ask = addresses(0x10, 64 * GIB, SMALL);
	struct map_ask map = { FIRST, DEVICE, 0x10, 5, GIB, 0 };
	u64 before;

	CHECK_EQ(bench_addresses(bench, &caller, &ask), NV_OK);
	CHECK_EQ(bench_map(bench, &caller, &map), NV_OK);
	before = charged(bench, &caller);
	for (map.address = GIB; map.address < 32 * GIB; map.address += GIB)
		CHECK_EQ(bench_map(bench, &caller, &map), NV_OK);
	CHECK_EQ(charged(bench, &caller), before);
}

TEST_ON(a_mapping_names_addresses_of_its_own_device, with_range(&caller))
{
	struct map_ask map = { FIRST, 0xd8, 0x20, 5, MIB, 0 };

	CHECK_EQ(bench_map(bench, &caller, &map), NV_ERR_INVALID_DEVICE);
	CHECK_EQ(bench_device(bench, &caller, FIRST, 0xd8, 0), NV_OK);
	CHECK_EQ(bench_map(bench, &caller, &map), NV_ERR_INVALID_DEVICE);
	map.device = 0xd1;
	CHECK_EQ(bench_map(bench, &caller, &map), NV_OK);
	map.dma = 5;
	CHECK_EQ(bench_map(bench, &caller, &map), NV_ERR_OBJECT_NOT_FOUND);
}

/* A context DMA of the old kind is a range in the space of its device, which the ledger does not see made. */
TEST_ON(a_mapping_in_what_has_no_record_is_the_devices, with_range(&caller))
{
	struct map_ask map = { FIRST, DEVICE, 0x99, 5, 64 * GIB, 0 };
	u64 before;

	CHECK_EQ(bench_map(bench, &caller, &map), NV_OK);
	before = charged(bench, &caller);
	CHECK(before > OF_64_GIB);
	CHECK_EQ(bench_unmap(bench, &caller, &map), NV_OK);
	CHECK_EQ(bench_map(bench, &caller, &map), NV_OK);
	CHECK_EQ(charged(bench, &caller), before);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, DEVICE), NV_OK);
	CHECK_EQ(charged(bench, &caller), 0);
}
