// SPDX-License-Identifier: Apache-2.0
/* Memory that is exported on open files, and imported from them. */
#include "slices.h"

TEST_ON(what_fails_leaves_nothing, with_files(&caller))
{
	struct list_ask list = { .client = FIRST, .parent = 0xd0, .count = 2, .object = { 1, 2 } };
	u32 clients, objects;

	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	CHECK_EQ(take(bench, &caller, 2, MIB), NV_OK);
	clients = bench->core.state->clients;
	objects = bench->core.state->objects;
	bench->driver_status = NV_ERR_STATE_IN_USE;
	CHECK_EQ(bench_export(bench, &caller, FIRST, 1), NV_ERR_STATE_IN_USE);
	CHECK_EQ(bench_export_list(bench, &caller, &list), NV_ERR_STATE_IN_USE);
	bench->driver_status = NV_OK;
	bench->driver_result = -EIO;
	CHECK_EQ(bench_export_list(bench, &caller, &list), -EIO);
	CHECK_EQ(bench->core.state->clients, clients);
	CHECK_EQ(bench->core.state->objects, objects);
	bench->driver_result = 0;
	CHECK_EQ(bench_export_list(bench, &caller, &list), NV_OK);
	bench->driver_status = NV_ERR_INSERT_DUPLICATE_NAME;
	CHECK_EQ(bench_import(bench, &caller, FIRST, 0xd0, 1), NV_ERR_INSERT_DUPLICATE_NAME);
	CHECK_EQ(bench_import(bench, &caller, SECOND, SECOND, 1), NV_ERR_INSERT_DUPLICATE_NAME);
	/* An import is a duplicate, whose parent the driver must be known to have. */
	CHECK_EQ(bench_import(bench, &caller, SECOND, 0xd0, 1), NV_ERR_OBJECT_NOT_FOUND);
	CHECK_EQ(bench->verdict, CGPU_ANSWER);
	bench->question_status = NV_ERR_OBJECT_NOT_FOUND;
	CHECK_EQ(bench_import(bench, &caller, FIRST, 0xd0, 1), NV_ERR_OBJECT_NOT_FOUND);
	CHECK_EQ(bench->verdict, CGPU_EXECUTE);
	bench->question_status = NV_OK;
	CHECK_EQ(bench_import_list(bench, &caller, &list), NV_ERR_INSERT_DUPLICATE_NAME);
	CHECK_EQ(bench->core.state->clients, clients + 1);
	CHECK_EQ(bench->core.state->objects, objects + 2);
}

TEST_ON(a_list_replaces_what_was_at_its_places, with_files(&caller))
{
	struct list_ask all = { .client = FIRST, .parent = 0xd0, .count = 3, .object = { 1, 2, 3 } };
	struct list_ask change = { .client = FIRST, .parent = 0xd0, .index = 1, .count = 2, .object = { 0, 4 } };
	struct list_ask in = { .client = FIRST, .parent = 0xd0, .count = 1, .object = { 0x71 } };
	u32 i;

	for (i = 1; i <= 4; i++)
		CHECK_EQ(take(bench, &caller, i, i * MIB), NV_OK);
	CHECK_EQ(bench_export_list(bench, &caller, &all), NV_OK);
	CHECK_EQ(bench_export_list(bench, &caller, &change), NV_OK);
	for (i = 1; i <= 4; i++)
		CHECK_EQ(bench_rm_free(bench, &caller, FIRST, i), NV_OK);
	/* The first and the last. */
	CHECK_EQ(bench_used(bench, 0, caller.slot), 5 * MIB);
	in.count = 3;
	CHECK_EQ(bench_import_list(bench, &caller, &in), NV_ERR_INSUFFICIENT_PERMISSIONS);
	in.count = 1;
	in.index = 2;
	CHECK_EQ(bench_import_list(bench, &caller, &in), NV_OK);
	bench_invariants(bench->core.state);
	change.index = 0;
	change.object[1] = 0;
	CHECK_EQ(bench_export_list(bench, &caller, &change), NV_OK);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 4 * MIB);
	change.index = 2;
	CHECK_EQ(bench_export_list(bench, &caller, &change), NV_OK);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 4 * MIB);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, 0x71), NV_OK);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
	/* The file has no records left. */
	CHECK_EQ(bench->core.state->clients, 1);
}

TEST_ON(lists_end_where_the_drivers_do, with_files(&caller))
{
	struct list_ask list = { .client = FIRST, .parent = 0xd0, .count = 512 };
	u32 i;

	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	for (i = 0; i < 512; i++)
		list.object[i] = 1;
	CHECK_EQ(bench_export_list(bench, &caller, &list), NV_OK);
	bench_invariants(bench->core.state);
	list.count = 513;
	CHECK_EQ(bench_export_list(bench, &caller, &list), NV_ERR_INVALID_PARAMETER);
	list.count = 129;
	CHECK_EQ(bench_import_list(bench, &caller, &list), NV_ERR_INVALID_PARAMETER);
	for (i = 0; i < 128; i++)
		list.object[i] = 0x1000 + i;
	list.count = 128;
	list.index = 384;
	CHECK_EQ(bench_import_list(bench, &caller, &list), NV_OK);
	list.index = 385;
	CHECK_EQ(bench_import_list(bench, &caller, &list), NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_EQ(bench_used(bench, 0, caller.slot), MIB);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, FIRST), NV_OK);
	CHECK_EQ(bench_used(bench, 0, caller.slot), MIB);
	cgpu_file_closed(&bench->core, FILE_OF_EXPORT);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
}

TEST_ON(only_what_is_charged_is_exported, with_files(&caller))
{
	struct list_ask list = { .client = FIRST, .parent = 0xd0, .count = 2, .object = { 1, 0x99 } };

	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	CHECK_EQ(bench_export(bench, &caller, FIRST, 0x99), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(bench_export(bench, &caller, FIRST, 0xd0), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(bench_export(bench, &caller, FIRST, 0), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(bench_export_list(bench, &caller, &list), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(bench_export(bench, &caller, SECOND, 1), NV_ERR_INSUFFICIENT_PERMISSIONS);
	bench->target = 0;
	CHECK_EQ(bench_export(bench, &caller, FIRST, 1), NV_ERR_INVALID_PARAMETER);
	CHECK_EQ(bench_import(bench, &caller, FIRST, 0xd0, 1), NV_ERR_INVALID_PARAMETER);
	bench->target = FILE_OF_EXPORT;
	CHECK_EQ(bench_import(bench, &caller, FIRST, 0xd0, 1), NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_EQ(bench->verdict, CGPU_ANSWER);
	/* A daemon cannot see the end of a file. */
	bench->keeps_descriptors = 1;
	CHECK_EQ(bench_export(bench, &caller, FIRST, 1), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(bench_import(bench, &caller, FIRST, 0xd0, 2), NV_ERR_NOT_SUPPORTED);
}

TEST_ON(only_calls_that_change_something_are_put_in_order, with_files(&caller))
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &bench->core.abi->NVOS54_PARAMETERS;

	CHECK_EQ(cgpu_call_changes(bench->core.abi, &bench->call), 1);
	CHECK_EQ(bench_export(bench, &caller, FIRST, 0x99), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(cgpu_call_changes(bench->core.abi, &bench->call), 1);
	bench->call.bytes--;
	CHECK_EQ(cgpu_call_changes(bench->core.abi, &bench->call), 0);
	bench->call.bytes++;
	put32(bench->top, at->cmd, NV2080_CTRL_CMD_FB_GET_INFO_V2);
	CHECK_EQ(cgpu_call_changes(bench->core.abi, &bench->call), 0);
}

TEST_ON(exports_stay_in_their_container, with_files(&caller))
{
	struct list_ask nothing = { .client = SECOND, .parent = 0xd0, .count = 1 };
	struct memory_ask ask = { .client = SECOND, .parent = 0xd0, .object = 1, .size = MIB };
	struct caller other = neighbour(bench);

	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	CHECK_EQ(bench_vidmem(bench, &other, 1, &ask), NV_OK);
	CHECK_EQ(bench_export(bench, &caller, FIRST, 1), NV_OK);
	CHECK_EQ(bench_import(bench, &other, SECOND, 0xd0, 2), NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_EQ(bench_export(bench, &other, SECOND, 1), NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_EQ(bench_export_list(bench, &other, &nothing), NV_ERR_INSUFFICIENT_PERMISSIONS);
	/* Nor after its end. */
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(bench_import(bench, &other, SECOND, 0xd0, 2), NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_EQ(bench_export(bench, &other, SECOND, 1), NV_ERR_INSUFFICIENT_PERMISSIONS);
	cgpu_file_closed(&bench->core, FILE_OF_EXPORT);
	CHECK_EQ(bench_export(bench, &other, SECOND, 1), NV_OK);
}

/* When containers are removed, states recovered, tables full. */

TEST_ON(what_a_removed_container_has_exported_is_promised_to_nobody, with_files(&caller))
{
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
}

TEST_ON(an_import_under_way_is_taken_back_at_the_removal, with_files(&caller))
{
	struct list_ask list = { .client = FIRST, .parent = 0xd0, .count = 3, .object = { 1, 1, 1 } };

	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	CHECK_EQ(bench_export_list(bench, &caller, &list), NV_OK);
	list.object[0] = 0x71;
	list.object[1] = 0x72;
	list.object[2] = 0x73;
	bench->at_execute = end_container;
	CHECK_EQ(bench_import_list(bench, &caller, &list), NV_ERR_NO_MEMORY);
	CHECK_EQ(bench->undone, 3);
	cgpu_file_closed(&bench->core, 1);
	cgpu_file_closed(&bench->core, FILE_OF_EXPORT);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 0);
}

TEST_ON(files_can_be_listed, with_files(&caller))
{
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
}

TEST_ON(what_was_exported_on_lost_files_stays_charged, with_files(&caller))
{
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
}

TEST_ON(the_drivers_own_client_is_nobodys, with_files(&caller))
{
	struct cgpu_reference_request request = named(&caller, 1);
	struct cgpu_reference held;

	request.client = 0xc1d00042;
	CHECK_EQ(cgpu_reference_begin(&bench->core, &request, &held), -EPERM);
	CHECK_EQ(bench_dup(bench, &caller, FIRST, 0xd0, 2, request.client, 1), NV_ERR_INSUFFICIENT_PERMISSIONS);
	bench_settings(bench, 0, 0);
	CHECK_EQ(cgpu_reference_begin(&bench->core, &request, &held), 0);
}
