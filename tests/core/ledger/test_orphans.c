// SPDX-License-Identifier: Apache-2.0
/* Clients whose container is gone, and clients that two containers name. */
#include "slices.h"

TEST_ON(what_a_removed_container_holds_is_not_promised_again, started("580.142", &caller))
{
	CHECK_EQ(bench_take(bench, &caller, 0xc1, 1, 6000 * MIB), NV_OK);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 6000 * MIB);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 1), 0);
	/* 9109 MiB are left of 15109. */
	CHECK_EQ(bench_ctl(bench, "create id=b pid=2 gpu=0:9551478785"), -ENOMEM);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=2 gpu=0:9551478783"), 0);
	CHECK_EQ(bench_write(bench, "0/b/memsize", "9551478785"), -ENOMEM);
	CHECK_EQ(bench_write(bench, "0/b/memsize", "9551478784"), 0);
	CHECK_EQ(cgpu_orphan_gone(&bench->core, 100, 0xc1), 0);
	CHECK_EQ(cgpu_orphan_gone(&bench->core, 100, 0xc1), -ENOENT);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 0);
	CHECK_EQ(bench_write(bench, "0/b/memsize", "15842934784"), 0);
	CHECK_EQ(bench->core.state->clients, 0);
}

TEST_ON(the_driver_is_asked_before_room_is_refused, started("580.142", &caller))
{
	CHECK_EQ(bench_take(bench, &caller, 0xc1, 1, 6000 * MIB), NV_OK);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	bench->at_orphans = bench_orphans_gone;
	CHECK_EQ(bench_ctl(bench, "create id=b pid=2 gpu=0:15842934784"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=c pid=2 gpu=0:1"), -ENOMEM);
	caller = bench_caller(bench, "b", 200);
	bench_cuda_start(bench, &caller, 0xc2);
	CHECK_EQ(bench_take(bench, &caller, 0xc2, 1, 6000 * MIB), NV_OK);
	CHECK_EQ(bench_ctl(bench, "destroy id=b"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=d pid=2 gpu=0:1048576"), 0);
	CHECK_EQ(bench_write(bench, "0/d/memsize", "15842934784"), 0);
}

static struct caller stranger;

static struct bench *shared(struct caller *caller)
{
	struct bench *bench = started("580.142", caller);

	CHECK_EQ(bench_take(bench, caller, 0xc1, 1, 6000 * MIB), NV_OK);
	stranger = neighbour(bench);
	return bench;
}

static void check_refused(struct bench *bench, long status)
{
	CHECK_EQ(status, NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_EQ(bench->verdict, CGPU_ANSWER);
	CHECK_EQ(bench->call.no_room, CGPU_NO_ROOM_OWNERSHIP);
	CHECK_EQ(bench->call.client, 0xc1);
}

/* Every call of a stranger that names the client 0xc1. */
static void check_claimed(struct bench *bench)
{
	struct memory_ask ask = { .client = 0xc1, .parent = 0xd0, .object = 9, .size = MIB };

	check_refused(bench, bench_device(bench, &stranger, 0xc1, 0x77, 0));
	check_refused(bench, bench_subdevice(bench, &stranger, 0xc1, 0xd0, 0x78));
	check_refused(bench, bench_vidmem(bench, &stranger, 0, &ask));
	check_refused(bench, bench_vidmem(bench, &stranger, 1, &ask));
	check_refused(bench, bench_heap(bench, &stranger, &ask));
	check_refused(bench, bench_dup(bench, &stranger, 0xc1, 0x77, 9, 0xc1, 1));
	check_refused(bench, bench_dup(bench, &stranger, SECOND, 0xd0, 9, 0xc1, 1));
	check_refused(bench, bench_dup(bench, &stranger, SECOND, 0xd0, 9, 0xc1, 0x999));
	check_refused(bench, bench_dup(bench, &stranger, 0xc1, 0xd0, 9, SECOND, 0xd0));
	check_refused(bench, bench_rm_free(bench, &stranger, 0xc1, 1));
	check_refused(bench, bench_rm_free(bench, &stranger, 0xc1, 0xc1));
	check_refused(bench, bench_control(bench, &stranger, 0xc1, 0, 0, 0));
}

TEST_ON(a_client_has_one_owner, shared(&caller))
{
	check_claimed(bench);
	CHECK_EQ(bench_used(bench, 0, stranger.slot), 0);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 6000 * MIB);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 1), NV_OK);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
	/* Also after its container is gone, as long as it holds memory. */
	CHECK_EQ(bench_take(bench, &caller, 0xc1, 1, MIB), NV_OK);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	check_claimed(bench);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), MIB);
}

TEST_ON(nothing_is_refused_where_nothing_is_enforced, shared(&caller))
{
	bench_settings(bench, 0, 0);
	CHECK_EQ(bench_rm_free(bench, &stranger, 0xc1, 0x55), CONTINUED);
	CHECK_EQ(bench->call.no_room, 0);
}

TEST_ON(a_stale_claim_can_be_dropped, shared(&caller))
{
	struct cgpu_ownership ownership;

	CHECK_EQ(cgpu_ownership_find(&bench->core, caller.slot, 0xc1, &ownership), -ENOENT);
	CHECK_EQ(cgpu_ownership_find(&bench->core, stranger.slot, 0xc1, &ownership), 0);
	CHECK(ownership.slot == caller.slot && ownership.tgid == 100 && ownership.client == 0xc1);
	CHECK(ownership.handles == 1 && ownership.handle[0] == 0xd0);
	cgpu_ownership_drop(&bench->core, &ownership);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
	CHECK_EQ(bench_device(bench, &stranger, 0xc1, 0xd0, 0), NV_OK);
	CHECK_EQ(bench_take(bench, &stranger, 0xc1, 1, MIB), NV_OK);
	CHECK_EQ(bench_used(bench, 0, stranger.slot), MIB);
	/* Now it is the other one's. */
	CHECK_EQ(bench_take(bench, &caller, 0xc1, 2, MIB), NV_ERR_INSUFFICIENT_PERMISSIONS);
}

TEST_ON(a_client_without_objects_is_anyones, shared(&caller))
{
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 0xd0), NV_OK);
	CHECK_EQ(bench_device(bench, &stranger, 0xc1, 0xd0, 0), NV_OK);
	CHECK_EQ(bench_device(bench, &caller, 0xc1, 0xd5, 0), NV_ERR_INSUFFICIENT_PERMISSIONS);
}

static void stranger_is_first(struct bench *bench)
{
	struct cgpu_call first = bench->call;
	u8 top[256], params[256];

	memcpy(top, bench->top, sizeof(top));
	memcpy(params, bench->segment[0], sizeof(params));
	bench->at_execute = NULL;
	CHECK_EQ(bench_device(bench, &stranger, 0xc9, 0xd0, 0), NV_OK);
	bench->call = first;
	memcpy(bench->top, top, sizeof(top));
	memcpy(bench->segment[0], params, sizeof(params));
}

TEST_ON(the_second_of_two_first_calls_is_taken_back, shared(&caller))
{
	u32 objects = bench->core.state->objects;

	bench->at_execute = stranger_is_first;
	CHECK_EQ(bench_device(bench, &caller, 0xc9, 0xd0, 0), NV_ERR_NO_MEMORY);
	CHECK_EQ(bench->undone, 1);
	CHECK_EQ(bench->core.state->objects, objects + 1);
	CHECK_EQ(bench_take(bench, &stranger, 0xc9, 1, MIB), NV_OK);
	CHECK_EQ(bench_take(bench, &caller, 0xc9, 2, MIB), NV_ERR_INSUFFICIENT_PERMISSIONS);
}
