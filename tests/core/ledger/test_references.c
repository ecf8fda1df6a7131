// SPDX-License-Identifier: Apache-2.0
/* References: memory that UVM keeps and files that are closed, as an engine inside the kernel sees them; and open files. */
#include "slices.h"

static int reference(struct bench *bench, const struct caller *caller, u32 object, struct cgpu_reference *held)
{
	struct cgpu_reference_request request = named(caller, object);

	return cgpu_reference_begin(&bench->core, &request, held);
}

static void keep(struct bench *bench, const struct caller *caller, u32 object, struct cgpu_reference *held)
{
	CHECK_EQ(reference(bench, caller, object, held), 0);
	CHECK_EQ(cgpu_reference_confirm(&bench->core, held), 0);
}

TEST_ON(a_hold_that_did_not_come_to_be_leaves_nothing, with_files(&caller))
{
	u32 clients = bench->core.state->clients;
	struct cgpu_reference held;

	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	CHECK_EQ(reference(bench, &caller, 1, &held), 0);
	cgpu_reference_drop(&bench->core, &held);
	CHECK_EQ(bench->core.state->clients, clients);
	CHECK_EQ(cgpu_reference_confirm(&bench->core, &held), -ENOENT);
	/* Memory that is not charged has no record. */
	CHECK_EQ(reference(bench, &caller, 77, &held), 0);
	CHECK_EQ(held.serial, 0);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, 1), NV_OK);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
}

TEST_ON(what_is_held_for_a_removed_container_is_promised_to_nobody, with_files(&caller))
{
	struct cgpu_reference held, under_way;

	CHECK_EQ(take(bench, &caller, 1, 4096 * MIB), NV_OK);
	keep(bench, &caller, 1, &held);
	CHECK_EQ(reference(bench, &caller, 1, &under_way), 0);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(cgpu_reference_confirm(&bench->core, &under_way), -ENOENT);
	cgpu_reference_drop(&bench->core, &under_way);
	CHECK_EQ(reference(bench, &caller, 1, &under_way), -ENODEV);
	/* Its own file is closed. */
	cgpu_file_closed(&bench->core, 1);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 4096 * MIB);
	bench_invariants(bench->core.state);
	cgpu_reference_drop(&bench->core, &held);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 0);
	CHECK_EQ(bench->core.state->clients, 0);
}

static struct caller on_file(struct caller caller, u64 file)
{
	caller.file = file;
	return caller;
}

TEST_ON(closing_an_old_file_ends_nothing_of_a_new_client, with_files(&caller))
{
	struct caller first = on_file(caller, 1), second = on_file(caller, 2);

	CHECK_EQ(take(bench, &first, 1, MIB), NV_OK);
	/* The client was freed in a way that was not seen, and its handle given out again on another file. */
	bench_cuda_start(bench, &second, FIRST);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
	CHECK_EQ(take(bench, &second, 2, 2 * MIB), NV_OK);
	cgpu_file_closed(&bench->core, 1);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 2 * MIB);
	bench_invariants(bench->core.state);
	CHECK_EQ(bench_rm_free(bench, &second, FIRST, 2), NV_OK);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
	cgpu_file_closed(&bench->core, 2);
	CHECK_EQ(bench->core.state->clients, 0);
}

TEST_ON(nobody_names_a_client_of_the_engine, with_files(&caller))
{
	u32 pin = 0xf0000000u | 100;
	struct cgpu_reference held;

	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	keep(bench, &caller, 1, &held);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, 1), NV_OK);
	CHECK_EQ(bench_device(bench, &caller, pin, 0xd0, 0), NV_ERR_INVALID_CLIENT);
	CHECK_EQ(bench_rm_free(bench, &caller, pin, pin), NV_ERR_INVALID_CLIENT);
	CHECK_EQ(bench_dup(bench, &caller, FIRST, 0xd0, 2, pin, held.object + 1), NV_ERR_INVALID_CLIENT);
	CHECK_EQ(bench_used(bench, 0, caller.slot), MIB);
}

TEST_ON(a_file_that_is_not_known_changes_nothing, with_files(&caller))
{
	struct caller linked = on_file(caller, 0);

	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	CHECK_EQ(take(bench, &linked, 2, MIB), NV_OK);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 2 * MIB);
	cgpu_file_closed(&bench->core, 1);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
}

static int charge(struct bench *bench, const struct caller *caller, u32 gpu, u64 bytes, struct cgpu_reference *held)
{
	struct cgpu_reference_request request = {
		.slot = caller->slot, .generation = caller->generation, .tgid = 100, .gpu = gpu, .bytes = bytes
	};

	return cgpu_reference_charge(&bench->core, &request, held);
}

TEST_ON(what_the_driver_takes_by_itself_is_charged, with_files(&caller))
{
	struct cgpu_reference first, second;

	CHECK_EQ(cgpu_container_gpus(&bench->core, caller.slot, caller.generation), 1);
	CHECK_EQ(cgpu_container_gpus(&bench->core, caller.slot, caller.generation + 1), 0);
	CHECK_EQ(charge(bench, &caller, 1, MIB, &first), -ENOENT);
	CHECK_EQ(charge(bench, &caller, 0, 4096 * MIB, &first), 0);
	CHECK_EQ(cgpu_reference_confirm(&bench->core, &first), -ENOENT);
	CHECK_EQ(charge(bench, &caller, 0, 2048 * MIB, &second), -ENOMEM);
	CHECK_EQ(second.serial, 0);
	CHECK_EQ(take(bench, &caller, 1, 2048 * MIB), NV_ERR_NO_MEMORY);
	CHECK(bench_is(bench, "0/a/meminfo", "Free: 2041577472\nPID: 100 Mem: 4294967296\n"));
	bench_invariants(bench->core.state);
	cgpu_reference_shrink(&bench->core, &first, 1024 * MIB);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 3072 * MIB);
	CHECK_EQ(take(bench, &caller, 1, 2048 * MIB), NV_OK);
	cgpu_reference_shrink(&bench->core, &first, 4096 * MIB);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 2048 * MIB);
	cgpu_reference_shrink(&bench->core, &first, MIB);
	bench_invariants(bench->core.state);
	cgpu_reference_drop(&bench->core, &first);
	cgpu_reference_shrink(&bench->core, &first, MIB);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, 1), NV_OK);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
}

TEST_ON(what_the_driver_took_outlives_the_container, with_files(&caller))
{
	struct cgpu_reference held;

	CHECK_EQ(charge(bench, &caller, 0, 4096 * MIB, &held), 0);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 4096 * MIB);
	cgpu_reference_shrink(&bench->core, &held, 1024 * MIB);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 3072 * MIB);
	CHECK_EQ(charge(bench, &caller, 0, MIB, &held), -ENODEV);
	cgpu_file_closed(&bench->core, 1);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 3072 * MIB);
}

TEST_ON(nothing_is_too_much_where_nothing_is_enforced, with_files(&caller))
{
	struct cgpu_reference held;

	bench_settings(bench, 0, 0);
	CHECK_EQ(charge(bench, &caller, 0, 8192 * MIB, &held), 0);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 8192 * MIB);
	cgpu_reference_drop(&bench->core, &held);
}

/* Memory that open files keep, as a transport tells it that sees only calls. */
static void reference_on_file(
	struct bench *bench, const struct caller *caller, u32 file, u32 object, struct cgpu_reference *held)
{
	struct cgpu_reference_request request = named(caller, object);

	CHECK_EQ(cgpu_reference_on_file(&bench->core, &request, file, held), 0);
	CHECK_EQ(cgpu_reference_confirm(&bench->core, held), 0);
}

TEST_ON(a_charge_stays_until_the_file_lets_go, started("580.142", &caller))
{
	struct cgpu_reference first, second;

	CHECK_EQ(take(bench, &caller, 1, 1024 * MIB), NV_OK);
	CHECK_EQ(take(bench, &caller, 2, 2048 * MIB), NV_OK);
	reference_on_file(bench, &caller, 0, 1, &first);
	reference_on_file(bench, &caller, CGPU_MAX_CLIENTS - 1, 2, &second);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, FIRST), NV_OK);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 3072 * MIB);
	bench_invariants(bench->core.state);
	cgpu_reference_drop(&bench->core, &first);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 2048 * MIB);
	cgpu_reference_file_ended(&bench->core, 0);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 2048 * MIB);
	cgpu_reference_file_ended(&bench->core, CGPU_MAX_CLIENTS - 1);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
	CHECK_EQ(bench->core.state->clients, 0);
}

TEST_ON(it_is_neither_the_process_nor_its_managed_memory, started("580.142", &caller))
{
	struct cgpu_managed managed = {
		.slot = caller.slot, .generation = caller.generation, .tgid = 100, .bytes = 64 * MIB
	};
	struct cgpu_reference held;
	u32 cursor = 0, client;
	struct cgpu_managed found;

	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	reference_on_file(bench, &caller, 7, 1, &held);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, FIRST), NV_OK);
	CHECK_EQ(cgpu_managed_next(&bench->core, caller.slot, &cursor, &found), -ENOENT);
	CHECK_EQ(cgpu_managed_set(&bench->core, &managed), 0);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 65 * MIB);
	cgpu_managed_ended(&bench->core, &managed);
	CHECK_EQ(bench_used(bench, 0, caller.slot), MIB);
	/* No client that the driver could be asked for. */
	cursor = 0;
	CHECK_EQ(cgpu_client_next(&bench->core, 100, &cursor, &client), -ENOENT);
	CHECK_EQ(bench_used(bench, 0, caller.slot), MIB);
}

TEST_ON(a_file_keeps_what_its_container_has, started("580.142", &caller))
{
	struct cgpu_reference_request request = named(&caller, 1);
	struct caller other = neighbour(bench);
	struct cgpu_reference held, same;

	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	CHECK_EQ(take(bench, &caller, 2, MIB), NV_OK);
	CHECK_EQ(cgpu_reference_on_file(&bench->core, &request, CGPU_MAX_CLIENTS, &held), -EINVAL);
	reference_on_file(bench, &caller, 7, 1, &held);
	CHECK_EQ(cgpu_reference_names(&bench->core, &held, &request), 1);
	request.handle = 2;
	CHECK_EQ(cgpu_reference_names(&bench->core, &held, &request), 0);
	request.handle = 3;
	CHECK_EQ(cgpu_reference_names(&bench->core, &held, &request), 0);
	/* Memory that is not charged. */
	CHECK_EQ(cgpu_reference_on_file(&bench->core, &request, 7, &same), 0);
	CHECK_EQ(same.serial, 0);
	request = named(&other, 1);
	CHECK_EQ(cgpu_reference_on_file(&bench->core, &request, 8, &same), -EPERM);
}
