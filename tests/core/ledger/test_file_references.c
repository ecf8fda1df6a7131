// SPDX-License-Identifier: Apache-2.0
/* Memory that open files keep, as a transport tells it that sees only calls. */
#include "bench.h"

#define SLICE "6336544768"
#define FIRST 0xc1

static struct bench *sliced(struct caller *caller)
{
	struct bench *bench = bench_new("580.142");

	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:" SLICE), 0);
	*caller = bench_caller(bench, "a", 100);
	bench_cuda_start(bench, caller, FIRST);
	return bench;
}

static long take(struct bench *bench, const struct caller *caller, u32 object, u64 size)
{
	return bench_take(bench, caller, FIRST, object, size, 2u << 23);
}

static struct cgpu_reference_request named(const struct caller *caller, u32 object)
{
	return (struct cgpu_reference_request){
		.slot = caller->slot, .generation = caller->generation, .tgid = 100, .client = FIRST, .handle = object
	};
}

static void reference(
	struct bench *bench, const struct caller *caller, u32 file, u32 object, struct cgpu_reference *held)
{
	struct cgpu_reference_request request = named(caller, object);

	CHECK_EQ(cgpu_reference_on_file(&bench->core, &request, file, held), 0);
	CHECK_EQ(cgpu_reference_confirm(&bench->core, held), 0);
}

TEST(a_charge_stays_until_the_file_lets_go)
{
	struct cgpu_reference first, second;
	struct caller caller;
	struct bench *bench = sliced(&caller);

	CHECK_EQ(take(bench, &caller, 1, 1024 * MIB), NV_OK);
	CHECK_EQ(take(bench, &caller, 2, 2048 * MIB), NV_OK);
	reference(bench, &caller, 0, 1, &first);
	reference(bench, &caller, CGPU_MAX_CLIENTS - 1, 2, &second);
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
	bench_invariants(bench->core.state);
	bench_free(bench);
}

TEST(it_is_neither_the_process_nor_its_managed_memory)
{
	struct cgpu_managed managed = { .tgid = 100, .bytes = 64 * MIB };
	struct caller caller;
	struct bench *bench = sliced(&caller);
	struct cgpu_reference held;
	u32 cursor = 0, client;
	struct cgpu_managed found;

	managed.slot = caller.slot;
	managed.generation = caller.generation;
	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	reference(bench, &caller, 7, 1, &held);
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
	bench_invariants(bench->core.state);
	bench_free(bench);
}

TEST(a_file_keeps_what_its_container_has)
{
	struct caller caller, other;
	struct bench *bench = sliced(&caller);
	struct cgpu_reference_request request = named(&caller, 1);
	struct cgpu_reference held, same;

	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	CHECK_EQ(take(bench, &caller, 2, MIB), NV_OK);
	CHECK_EQ(cgpu_reference_on_file(&bench->core, &request, CGPU_MAX_CLIENTS, &held), -EINVAL);
	reference(bench, &caller, 7, 1, &held);
	CHECK_EQ(cgpu_reference_names(&bench->core, &held, &request), 1);
	request.handle = 2;
	CHECK_EQ(cgpu_reference_names(&bench->core, &held, &request), 0);
	request.handle = 3;
	CHECK_EQ(cgpu_reference_names(&bench->core, &held, &request), 0);
	/* Of nothing that is charged. */
	CHECK_EQ(cgpu_reference_on_file(&bench->core, &request, 7, &same), 0);
	CHECK_EQ(same.serial, 0);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=2 gpu=0:1048576"), 0);
	other = bench_caller(bench, "b", 200);
	request = named(&other, 1);
	CHECK_EQ(cgpu_reference_on_file(&bench->core, &request, 8, &same), -EPERM);
	bench_free(bench);
}

TEST(it_outlives_the_container_and_the_engine)
{
	struct caller caller;
	struct bench *bench = sliced(&caller);
	struct cgpu_reference held;

	CHECK_EQ(take(bench, &caller, 1, 4096 * MIB), NV_OK);
	reference(bench, &caller, 7, 1, &held);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, FIRST), NV_OK);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 4096 * MIB);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 4096 * MIB);
	bench_invariants(bench->core.state);
	cgpu_reference_file_ended(&bench->core, 7);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 0);
	bench_invariants(bench->core.state);
	bench_free(bench);
}
