// SPDX-License-Identifier: Apache-2.0
/* Exports and imports when containers are removed, states recovered, tables full. */
#include "exports.h"

TEST(what_a_removed_container_has_exported_is_promised_to_nobody)
{
	struct caller caller;
	struct bench *bench = sliced(&caller);

	CHECK_EQ(take(bench, &caller, 1, 6000 * MIB), NV_OK);
	CHECK_EQ(bench_export(bench, &caller, FIRST, 1), NV_OK);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	cgpu_file_closed(&bench->core, 1);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 6000 * MIB);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=1 gpu=0:12884901888"), -ENOMEM);
	cgpu_file_closed(&bench->core, FILE_OF_EXPORT);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 0);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=1 gpu=0:12884901888"), 0);
	CHECK_EQ(bench->core.state->clients, 0);
	bench_free(bench);
}

static void remove_it(struct bench *bench)
{
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
}

TEST(an_export_under_way_outlives_the_removal)
{
	struct caller caller;
	struct bench *bench = sliced(&caller);

	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	bench->at_execute = remove_it;
	CHECK_EQ(bench_export(bench, &caller, FIRST, 1), NV_OK);
	bench->at_execute = NULL;
	cgpu_file_closed(&bench->core, 1);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), MIB);
	bench_invariants(bench->core.state);
	cgpu_file_closed(&bench->core, FILE_OF_EXPORT);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 0);
	bench_free(bench);
}

TEST(an_export_that_fails_after_the_removal_leaves_nothing)
{
	struct caller caller;
	struct bench *bench = sliced(&caller);

	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	bench->at_execute = remove_it;
	bench->driver_status = NV_ERR_STATE_IN_USE;
	CHECK_EQ(bench_export(bench, &caller, FIRST, 1), NV_ERR_STATE_IN_USE);
	cgpu_file_closed(&bench->core, 1);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 0);
	CHECK_EQ(bench->core.state->clients, 0);
	bench_free(bench);
}

TEST(an_import_under_way_is_taken_back_at_the_removal)
{
	struct list_ask list = { .client = FIRST, .parent = 0xd0, .count = 3, .object = { 1, 1, 1 } };
	struct caller caller;
	struct bench *bench = sliced(&caller);

	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	CHECK_EQ(bench_export_list(bench, &caller, &list), NV_OK);
	list.object[0] = 0x71;
	list.object[1] = 0x72;
	list.object[2] = 0x73;
	bench->at_execute = remove_it;
	CHECK_EQ(bench_import_list(bench, &caller, &list), NV_ERR_NO_MEMORY);
	CHECK_EQ(bench->undone, 3);
	cgpu_file_closed(&bench->core, 1);
	cgpu_file_closed(&bench->core, FILE_OF_EXPORT);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 0);
	bench_free(bench);
}

TEST(records_of_exports_are_recovered)
{
	struct list_ask list = { .client = FIRST, .parent = 0xd0, .count = 2, .object = { 1, 2 } };
	struct caller caller;
	struct bench *bench = sliced(&caller);

	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	CHECK_EQ(take(bench, &caller, 2, 2 * MIB), NV_OK);
	CHECK_EQ(bench_export_list(bench, &caller, &list), NV_OK);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	bench_invariants(bench->core.state);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, FIRST), NV_OK);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 3 * MIB);
	cgpu_file_closed(&bench->core, FILE_OF_EXPORT);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
	bench_free(bench);
}

TEST(files_can_be_listed)
{
	struct caller caller;
	struct bench *bench = sliced(&caller);
	u32 cursor = 0;
	u64 file = 0;

	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	CHECK_EQ(cgpu_file_next(&bench->core, &cursor, &file), 0);
	CHECK_EQ(file, 1);
	CHECK_EQ(cgpu_file_next(&bench->core, &cursor, &file), -ENOENT);
	CHECK_EQ(bench_export(bench, &caller, FIRST, 1), NV_OK);
	cgpu_file_closed(&bench->core, 1);
	cursor = 0;
	CHECK_EQ(cgpu_file_next(&bench->core, &cursor, &file), 0);
	CHECK_EQ(file, FILE_OF_EXPORT);
	CHECK_EQ(cgpu_file_next(&bench->core, &cursor, &file), -ENOENT);
	bench_free(bench);
}

TEST(what_was_exported_on_lost_files_stays_charged)
{
	struct caller caller;
	struct bench *bench = sliced(&caller);
	u32 cursor = 0;
	u64 file;

	CHECK_EQ(take(bench, &caller, 1, 6000 * MIB), NV_OK);
	CHECK_EQ(bench_export(bench, &caller, FIRST, 1), NV_OK);
	cgpu_file_closed(&bench->core, 1);
	CHECK_EQ(cgpu_files_lost(&bench->core), 1);
	CHECK_EQ(cgpu_files_lost(&bench->core), 0);
	CHECK_EQ(cgpu_file_next(&bench->core, &cursor, &file), -ENOENT);
	cgpu_file_closed(&bench->core, FILE_OF_EXPORT);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 6000 * MIB);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	bench_invariants(bench->core.state);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 6000 * MIB);
	bench_free(bench);
}

TEST(a_full_table_refuses_the_whole_list)
{
	struct list_ask list = { .client = FIRST, .parent = 0xd0, .count = 512 };
	struct caller caller;
	struct bench *bench = sliced(&caller);
	u32 i;

	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	for (i = 0; i < 512; i++)
		list.object[i] = 1;
	for (i = 0; i < CGPU_MAX_OBJECTS / 512 - 1; i++) {
		bench->target = 100 + i;
		CHECK_EQ(bench_export_list(bench, &caller, &list), NV_OK);
	}
	bench->target = 99;
	CHECK_EQ(bench_export_list(bench, &caller, &list), NV_ERR_INSUFFICIENT_RESOURCES);
	CHECK_EQ(bench->core.state->clients, CGPU_MAX_OBJECTS / 512);
	CHECK_EQ(bench_used(bench, 0, caller.slot), MIB);
	bench_free(bench);
}

TEST(the_drivers_own_client_is_nobodys)
{
	struct cgpu_reference_request request = { .tgid = 100, .client = 0xc1d00042, .handle = 1 };
	struct caller caller;
	struct bench *bench = sliced(&caller);
	struct cgpu_reference held;

	request.slot = caller.slot;
	request.generation = caller.generation;
	CHECK_EQ(cgpu_reference_begin(&bench->core, &request, &held), -EPERM);
	CHECK_EQ(bench_dup(bench, &caller, FIRST, 0xd0, 2, request.client, 1), NV_ERR_INSUFFICIENT_PERMISSIONS);
	bench_settings(bench, 0, 0);
	CHECK_EQ(cgpu_reference_begin(&bench->core, &request, &held), 0);
	bench_free(bench);
}
