// SPDX-License-Identifier: Apache-2.0
/* A new client with a handle that records have already. */
#include "bench.h"

#define SLICE "1073741824"
#define REUSED 0xc1

struct root {
	struct cgpu_call call;
	u8 top[64];
};

static struct caller second;

static struct bench *two(struct caller *first)
{
	struct bench *bench = bench_new("580.142");

	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:" SLICE), 0);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=2 gpu=0:" SLICE), 0);
	*first = bench_caller(bench, "a", 100);
	second = bench_caller(bench, "b", 200);
	bench_cuda_start(bench, first, REUSED);
	return bench;
}

static long take(struct bench *bench, const struct caller *caller, u32 object)
{
	return bench_take(bench, caller, REUSED, object, MIB);
}

static enum cgpu_verdict root_judge(struct bench *bench, const struct caller *caller, u32 nr, struct root *root)
{
	const struct nv_abi *abi = bench->core.abi;
	int older = nr == NV_ESC_RM_ALLOC_OBJECT;

	memset(root, 0, sizeof(*root));
	root->call.slot = caller->slot;
	root->call.generation = caller->generation;
	root->call.tgid = caller->tgid;
	root->call.device = CGPU_DEVICE_CTL;
	root->call.file = 1000 + (u64)caller->tgid;
	root->call.nr = nr;
	root->call.bytes = older ? abi->NVOS05_PARAMETERS.bytes : abi->NVOS64_PARAMETERS.bytes;
	root->call.top = root->top;
	put32(root->top, older ? abi->NVOS05_PARAMETERS.hClass : abi->NVOS64_PARAMETERS.hClass, NV01_ROOT_CLIENT);
	return cgpu_call_begin(&bench->core, &root->call);
}

static void root_begin(struct bench *bench, const struct caller *caller, u32 nr, struct root *root)
{
	CHECK_EQ(root_judge(bench, caller, nr, root), CGPU_CONTINUE);
}

/* 1: the client has to be freed. */
static int root_settle(struct bench *bench, struct root *root, u32 handle, u32 status, int result)
{
	const struct nv_abi *abi = bench->core.abi;
	int older = root->call.nr == NV_ESC_RM_ALLOC_OBJECT, undo;

	put32(root->top, older ? abi->NVOS05_PARAMETERS.hObjectNew : abi->NVOS64_PARAMETERS.hObjectNew, handle);
	put32(root->top, older ? abi->NVOS05_PARAMETERS.status : abi->NVOS64_PARAMETERS.status, status);
	undo = cgpu_call_end(&bench->core, &root->call, result);
	bench_invariants(bench->core.state);
	return undo;
}

static void root_end(struct bench *bench, struct root *root, u32 handle, u32 status, int result)
{
	CHECK_EQ(root_settle(bench, root, handle, status, result), 0);
}

static void make_client(struct bench *bench, const struct caller *caller, u32 handle)
{
	struct root root;

	root_begin(bench, caller, NV_ESC_RM_ALLOC, &root);
	root_end(bench, &root, handle, NV_OK, 0);
}

TEST_ON(a_handle_given_out_anew_ends_the_claim_on_it, two(&caller))
{
	struct root root;

	CHECK_EQ(take(bench, &caller, 1), NV_OK);
	CHECK_EQ(bench_device(bench, &second, REUSED, 0xd0, 0), NV_ERR_INSUFFICIENT_PERMISSIONS);
	make_client(bench, &second, REUSED);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
	bench_cuda_start(bench, &second, REUSED);
	CHECK_EQ(take(bench, &second, 1), NV_OK);
	CHECK_EQ(bench_used(bench, 0, second.slot), MIB);
	/* The same in the older form, and with the container's own record. */
	root_begin(bench, &second, NV_ESC_RM_ALLOC_OBJECT, &root);
	root_end(bench, &root, REUSED, NV_OK, 0);
	CHECK_EQ(bench_used(bench, 0, second.slot), 0);
}

TEST_ON(a_removed_containers_record_ends_too, two(&caller))
{
	CHECK_EQ(take(bench, &caller, 1), NV_OK);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), MIB);
	make_client(bench, &second, REUSED);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 0);
}

TEST_ON(other_handles_and_failures_end_nothing, two(&caller))
{
	struct root root;

	CHECK_EQ(take(bench, &caller, 1), NV_OK);
	make_client(bench, &second, REUSED + 1);
	root_begin(bench, &second, NV_ESC_RM_ALLOC, &root);
	root_end(bench, &root, REUSED, NV_ERR_INSUFFICIENT_RESOURCES, 0);
	root_begin(bench, &second, NV_ESC_RM_ALLOC, &root);
	root_end(bench, &root, REUSED, NV_OK, -EINVAL);
	CHECK_EQ(bench_used(bench, 0, caller.slot), MIB);
	/* Once only. */
	root_end(bench, &root, REUSED, NV_OK, 0);
	CHECK_EQ(bench_used(bench, 0, caller.slot), MIB);
}

/* Another container that has the descriptor can be quicker than the one whose client it is. */
TEST_ON(a_call_that_succeeded_meanwhile_stays_charged, two(&caller))
{
	struct root root;

	root_begin(bench, &second, NV_ESC_RM_ALLOC, &root);
	CHECK_EQ(take(bench, &caller, 1), NV_OK);
	root_end(bench, &root, REUSED, NV_OK, 0);
	CHECK_EQ(bench_used(bench, 0, caller.slot), MIB);
}

static void at_execute(struct bench *bench)
{
	bench->at_execute = NULL;
	make_client(bench, &second, REUSED);
}

/* Whether it was made on the old client or on the new one is not known. */
TEST_ON(a_call_that_is_under_way_is_taken_back, two(&caller))
{
	CHECK_EQ(take(bench, &caller, 1), NV_OK);
	bench->at_execute = at_execute;
	CHECK_EQ(take(bench, &caller, 2), NV_ERR_NO_MEMORY);
	CHECK_EQ(bench->undone, 1);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
	CHECK_EQ(bench->core.state->clients, 1);
	cgpu_file_closed(&bench->core, 1000 + (u64)second.tgid);
	CHECK_EQ(bench->core.state->clients, 0);
}

TEST_ON(what_the_engine_holds_is_no_client, two(&caller))
{
	struct cgpu_reference_request request = {
		.slot = caller.slot, .generation = caller.generation, .tgid = 100, .client = REUSED, .handle = 1
	};
	struct cgpu_reference held;

	CHECK_EQ(take(bench, &caller, 1), NV_OK);
	CHECK_EQ(cgpu_reference_begin(&bench->core, &request, &held), 0);
	CHECK_EQ(cgpu_reference_confirm(&bench->core, &held), 0);
	CHECK_EQ(bench_rm_free(bench, &caller, REUSED, REUSED), NV_OK);
	make_client(bench, &second, CORE_PIN_BASE | 100);
	CHECK_EQ(bench_used(bench, 0, caller.slot), MIB);
}

static u32 status_of(struct bench *bench, const struct root *root)
{
	return get32(root->top, bench->core.abi->NVOS64_PARAMETERS.status);
}

/* The client that the undo of a call frees. */
static u32 freed_by_undo(struct bench *bench, struct root *root)
{
	const struct nv_layout_NVOS00_PARAMETERS *at = &bench->core.abi->NVOS00_PARAMETERS;
	struct cgpu_call undo = { 0 };
	u8 top[64] = { 0 };

	undo.top = top;
	CHECK(cgpu_call_undo(&bench->core, &root->call, &undo));
	CHECK_EQ(cgpu_call_begin(&bench->core, &undo), CGPU_EXECUTE);
	CHECK_EQ(cgpu_call_end(&bench->core, &undo, 0), 0);
	CHECK_EQ(get32(top, at->hRoot), get32(top, at->hObjectOld));
	return get32(top, at->hObjectOld);
}

/* Clients without objects count too: the driver has memory and handles for each. */
TEST_ON(clients_are_bounded, two(&caller))
{
	struct root root, late;
	u32 i;

	for (i = 1; i < CORE_ORPHANED_CLIENTS - 1; i++)
		make_client(bench, &caller, REUSED + i);
	/* Two calls under way for the last place: the driver has made both when the second one ends. */
	root_begin(bench, &caller, NV_ESC_RM_ALLOC, &root);
	root_begin(bench, &caller, NV_ESC_RM_ALLOC, &late);
	root_end(bench, &root, REUSED + i, NV_OK, 0);
	CHECK_EQ(root_settle(bench, &late, REUSED + i + 1, NV_OK, 0), 1);
	CHECK_EQ(status_of(bench, &late), NV_ERR_NO_MEMORY);
	CHECK_EQ(freed_by_undo(bench, &late), REUSED + i + 1);
	CHECK_EQ(root_judge(bench, &caller, NV_ESC_RM_ALLOC, &root), CGPU_ANSWER);
	CHECK_EQ(status_of(bench, &root), NV_ERR_INSUFFICIENT_RESOURCES);
	/* The other container has its own. */
	make_client(bench, &second, 0xd1);
	/* A place is free again with its client, all with the file. */
	CHECK_EQ(bench_rm_free(bench, &caller, REUSED + i, REUSED + i), NV_OK);
	make_client(bench, &caller, REUSED + i);
	cgpu_file_closed(&bench->core, 1000 + (u64)caller.tgid);
	make_client(bench, &caller, REUSED + i);
}

TEST_ON(a_client_on_a_file_without_an_end_is_freed, two(&caller))
{
	struct root root;

	root_begin(bench, &caller, NV_ESC_RM_ALLOC, &root);
	root.call.file = 0;
	CHECK_EQ(root_settle(bench, &root, REUSED + 1, NV_OK, 0), 1);
}

TEST_ON(clients_are_not_bounded_without_enforcement, two(&caller))
{
	u32 i;

	bench->core.state->settings.enforce = 0;
	for (i = 1; i < CORE_ORPHANED_CLIENTS + 2; i++)
		make_client(bench, &caller, REUSED + i);
	CHECK_EQ(bench->core.state->container[caller.slot].clients, CORE_ORPHANED_CLIENTS);
}
