// SPDX-License-Identifier: Apache-2.0
/* Memory of the host, which the ledger has, charged to no container. */
#include "slices.h"

#define PINNED 0x99 /* of the caller's own pages: not in the ledger */

static u32 kind_of(struct bench *bench, const struct caller *caller, u32 client, u32 handle)
{
	struct cgpu_state *state = bench->core.state;
	u32 object = core_object_find(state, core_client_find(state, caller->slot, client), handle);

	return object == CORE_NONE ? 0 : state->object[object].kind;
}

TEST_ON(it_is_charged_to_nobody, with_files(&caller))
{
	struct memory_ask ask = { .client = FIRST,
		.parent = 0xd0,
		.object = 2,
		.size = MIB,
		.attr = NVOS32_ATTR_LOCATION_PCI << NVOS32_ATTR_LOCATION_SHIFT };

	CHECK_EQ(take(bench, &caller, 9, 6000 * MIB), NV_OK);
	CHECK_EQ(bench_host(bench, &caller, FIRST, 0xd0, 1), NV_OK);
	CHECK_EQ(bench->verdict, CGPU_EXECUTE);
	CHECK_EQ(bench_heap(bench, &caller, &ask), NV_OK);
	CHECK_EQ(bench->verdict, CGPU_EXECUTE);
	/* Memory of no device. */
	CHECK_EQ(bench_host(bench, &caller, FIRST, FIRST, 3), NV_OK);
	CHECK_EQ(bench_host(bench, &caller, FIRST, 0x77, 4), CONTINUED);
	bench_invariants(bench->core.state);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	bench_invariants(bench->core.state);
	CHECK_EQ(kind_of(bench, &caller, FIRST, 1), CORE_OBJECT_HOST);
	CHECK_EQ(kind_of(bench, &caller, FIRST, 2), CORE_OBJECT_HOST);
	CHECK_EQ(kind_of(bench, &caller, FIRST, 3), CORE_OBJECT_HOST);
	CHECK_EQ(kind_of(bench, &caller, FIRST, 4), 0);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 6000 * MIB);
	/* The records end with their device, and a failed call leaves none. */
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, 0xd0), NV_OK);
	CHECK_EQ(bench->core.state->objects, 1);
	bench->driver_status = NV_ERR_INSUFFICIENT_RESOURCES;
	CHECK_EQ(bench_host(bench, &caller, FIRST, FIRST, 5), NV_ERR_INSUFFICIENT_RESOURCES);
	CHECK_EQ(bench->core.state->objects, 1);
}

TEST_ON(its_kind_goes_with_every_reference, with_files(&caller))
{
	struct caller second = caller;
	struct cgpu_reference_request request = named(&caller, 5);
	struct cgpu_reference held;

	second.tgid = 101;
	second.file = 3;
	bench_cuda_start(bench, &second, SECOND);
	CHECK_EQ(bench_host(bench, &caller, FIRST, 0xd0, 1), NV_OK);
	CHECK_EQ(bench_dup(bench, &caller, FIRST, 0xd0, 2, FIRST, 1), NV_OK);
	CHECK_EQ(bench_export(bench, &caller, FIRST, 2), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, FIRST), NV_OK);
	CHECK_EQ(bench_import(bench, &second, SECOND, 0xd0, 5), NV_OK);
	CHECK_EQ(kind_of(bench, &second, SECOND, 5), CORE_OBJECT_HOST);
	CHECK_EQ(bench_surface(bench, &second, SECOND, 5, 0), NV_OK);
	request.tgid = 101;
	request.client = SECOND;
	CHECK_EQ(cgpu_reference_begin(&bench->core, &request, &held), 0);
	CHECK_EQ(held.serial, 0);
	/* Out again by another file, from a duplicate. */
	CHECK_EQ(bench_dup(bench, &second, SECOND, 0xd0, 6, SECOND, 5), NV_OK);
	bench->target = FILE_OF_EXPORT + 1;
	CHECK_EQ(bench_export(bench, &second, SECOND, 6), NV_OK);
	bench_invariants(bench->core.state);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
	cgpu_file_closed(&bench->core, FILE_OF_EXPORT);
	cgpu_file_closed(&bench->core, FILE_OF_EXPORT + 1);
	cgpu_file_closed(&bench->core, 3);
	CHECK_EQ(bench->core.state->clients, 0);
}

TEST_ON(a_list_may_have_both, with_files(&caller))
{
	struct list_ask list = { .client = FIRST, .parent = 0xd0, .count = 2, .object = { 1, 2 } };
	struct list_ask unknown = { .client = FIRST, .parent = 0xd0, .count = 2, .object = { 1, PINNED } };
	struct list_ask in = { .client = FIRST, .parent = 0xd0, .count = 2, .object = { 0x71, 0x72 } };

	CHECK_EQ(bench_host(bench, &caller, FIRST, 0xd0, 1), NV_OK);
	CHECK_EQ(take(bench, &caller, 2, MIB), NV_OK);
	CHECK_EQ(bench_export_list(bench, &caller, &unknown), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(bench_export_list(bench, &caller, &list), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, 1), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, 2), NV_OK);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK_EQ(bench_import_list(bench, &caller, &in), NV_OK);
	CHECK_EQ(kind_of(bench, &caller, FIRST, 0x71), CORE_OBJECT_HOST);
	CHECK_EQ(kind_of(bench, &caller, FIRST, 0x72), CORE_OBJECT_MEMORY);
	bench_invariants(bench->core.state);
	cgpu_file_closed(&bench->core, FILE_OF_EXPORT);
	CHECK_EQ(bench_used(bench, 0, caller.slot), MIB);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, 0x72), NV_OK);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
}

/* A place of a file, or a handle, has what was put there last. */
TEST_ON(the_card_cannot_go_for_the_host, with_files(&caller))
{
	struct list_ask list = { .client = FIRST, .parent = 0xd0, .count = 1, .object = { 1 } };

	CHECK_EQ(bench_host(bench, &caller, FIRST, 0xd0, 1), NV_OK);
	CHECK_EQ(take(bench, &caller, 2, MIB), NV_OK);
	CHECK_EQ(bench_export_list(bench, &caller, &list), NV_OK);
	list.object[0] = 2;
	CHECK_EQ(bench_export_list(bench, &caller, &list), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, 2), NV_OK);
	list.object[0] = 0x71;
	CHECK_EQ(bench_import_list(bench, &caller, &list), NV_OK);
	CHECK_EQ(kind_of(bench, &caller, FIRST, 0x71), CORE_OBJECT_MEMORY);
	cgpu_file_closed(&bench->core, FILE_OF_EXPORT);
	CHECK_EQ(bench_used(bench, 0, caller.slot), MIB);
	/* The driver gives out a handle that the ledger still has as the host's. */
	CHECK_EQ(take(bench, &caller, 1, 2 * MIB), NV_OK);
	CHECK_EQ(kind_of(bench, &caller, FIRST, 1), CORE_OBJECT_MEMORY);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 3 * MIB);
}

static void recover_it(struct bench *bench)
{
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
}

TEST_ON(what_is_under_way_is_known_after_a_recovery, with_files(&caller))
{
	bench->at_execute = recover_it;
	CHECK_EQ(bench_host(bench, &caller, FIRST, 0xd0, 1), NV_OK);
	CHECK_EQ(bench_export(bench, &caller, FIRST, 1), NV_OK);
	CHECK_EQ(bench_import(bench, &caller, FIRST, 0xd0, 2), NV_OK);
	CHECK_EQ(kind_of(bench, &caller, FIRST, 2), CORE_OBJECT_HOST);
}

TEST_ON(a_full_table_costs_the_export_only, with_files(&caller))
{
	struct list_ask list = { .client = FIRST, .parent = 0xd0, .count = 512 };
	u32 i;

	CHECK_EQ(bench_host(bench, &caller, FIRST, 0xd0, 1), NV_OK);
	for (i = 0; i < 512; i++)
		list.object[i] = 1;
	for (i = 0; i < CGPU_MAX_OBJECTS / 512 - 1; i++) {
		bench->target = 100 + i;
		CHECK_EQ(bench_export_list(bench, &caller, &list), NV_OK);
	}
	for (i = 0x1000; bench->core.state->objects < CGPU_MAX_OBJECTS; i++)
		CHECK_EQ(bench_host(bench, &caller, FIRST, 0xd0, i), NV_OK);
	CHECK_EQ(bench_host(bench, &caller, FIRST, 0xd0, i), NV_OK);
	CHECK_EQ(bench->verdict, CGPU_EXECUTE);
	CHECK_EQ(kind_of(bench, &caller, FIRST, i), 0);
	CHECK_EQ(bench_export(bench, &caller, FIRST, i), NV_ERR_NOT_SUPPORTED);
}
