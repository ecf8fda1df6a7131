// SPDX-License-Identifier: Apache-2.0
/* References, processes and containers beside each other. */
#include "slices.h"

TEST_ON(dups_hold_the_charge, sliced("580.142", &caller))
{
	struct caller other = caller;

	other.tgid = 200;
	bench_cuda_start(bench, &caller, 0xc1);
	bench_cuda_start(bench, &other, 0xc2);
	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	/* Below the memory itself, with which it would go. */
	CHECK_EQ(bench_dup(bench, &caller, 0xc1, 1, 3, 0xc1, 1), NV_ERR_INVALID_OBJECT_PARENT);
	CHECK_EQ(bench_dup(bench, &other, 0xc2, 0xd0, 2, 0xc1, 1), NV_OK);
	CHECK_EQ(bench_used(bench, 0, caller.slot), MIB);
	CHECK(bench_is(bench, "0/a/meminfo", "Free: 6335496192\nPID: 100 Mem: 1048576\n"));
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 0xc1), NV_OK);
	CHECK_EQ(bench_used(bench, 0, caller.slot), MIB);
	CHECK(bench_is(bench, "0/a/meminfo", "Free: 6335496192\nPID: 200 Mem: 1048576\n"));
	CHECK_EQ(bench_rm_free(bench, &other, 0xc2, 2), NV_OK);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
	CHECK(bench_is(bench, "0/a/meminfo", "Free: 6336544768\n"));
}

/* Some drivers never give their lock back where the parent is not there: neither is forwarded, and nothing stays charged. */
TEST_ON(a_duplicate_needs_a_parent_that_is_there, started("580.142", &caller))
{
	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	CHECK_EQ(bench_dup(bench, &caller, 0xc1, 0x77, 2, 0xc1, 1), NV_ERR_OBJECT_NOT_FOUND);
	CHECK_EQ(bench_dup(bench, &caller, 0xc1, 0, 2, 0xc1, 1), NV_ERR_OBJECT_NOT_FOUND);
	CHECK_EQ(bench_dup(bench, &caller, 0xc1, 0x77, 2, 0xc1, 0x999), NV_ERR_OBJECT_NOT_FOUND);
	CHECK_EQ(bench->verdict, CGPU_ANSWER);
	/* The record is out of date. The driver's word is the answer, either way. */
	bench->question_status = NV_ERR_OBJECT_NOT_FOUND;
	CHECK_EQ(bench_dup(bench, &caller, 0xc1, 0xd0, 2, 0xc1, 1), NV_ERR_OBJECT_NOT_FOUND);
	bench->question_status = NV_ERR_INVALID_CLIENT;
	CHECK_EQ(bench_dup(bench, &caller, 0xc1, 0xd1, 2, 0xc1, 0x999), NV_ERR_INVALID_CLIENT);
	CHECK_EQ(bench->verdict, CGPU_EXECUTE);
	CHECK_EQ(bench->asked, 2);
	CHECK_EQ(bench_used(bench, 0, caller.slot), MIB);
	/* A client that is there is its own object. */
	CHECK_EQ(bench_dup(bench, &caller, 0xc1, 0xc1, 2, 0xc1, 1), NV_OK);
	bench->question_status = NV_ERR_INVALID_ARGUMENT;
	CHECK_EQ(bench_dup(bench, &caller, 0xc1, 0xd0, 3, 0xc1, 1), NV_OK);
	CHECK_EQ(bench->asked, 3);
}

/* A caller gives no leave for what is not its own, and nothing is charged anew. */
TEST_ON(who_may_duplicate_is_the_owners_affair, started("580.142", &caller))
{
	struct caller stranger = neighbour(bench);

	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	CHECK_EQ(bench_share(bench, &caller, 0xc1, 1, 0), NV_OK);
	CHECK_EQ(bench->verdict, CGPU_EXECUTE);
	CHECK_EQ(bench_dup(bench, &stranger, SECOND, 0xd0, 2, 0xc1, 1), NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_EQ(bench_share(bench, &stranger, 0xc1, 1, 0), NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_EQ(bench->verdict, CGPU_ANSWER);
	/* Clients of a process outside, which the ledger has not. */
	CHECK_EQ(bench_share(bench, &stranger, 0xc9, 1, 0), NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_EQ(bench_share(bench, &stranger, 0xff000000, 1, 0), NV_ERR_INVALID_CLIENT);
	/* The driver notes in a client that it is given leave, without a question. */
	CHECK_EQ(bench_share(bench, &caller, 0xc1, 1, 0xc1), NV_OK);
	CHECK_EQ(bench_share(bench, &caller, 0xc1, 1, SECOND), NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_EQ(bench_share(bench, &caller, 0xc1, 1, 0xc9), NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_EQ(bench->verdict, CGPU_ANSWER);
	bench->driver_status = NV_ERR_OBJECT_NOT_FOUND;
	CHECK_EQ(bench_share(bench, &caller, 0xc1, 9, 0), NV_ERR_OBJECT_NOT_FOUND);
	bench->driver_status = NV_OK;
	CHECK_EQ(bench_used(bench, 0, caller.slot), MIB);
	bench_settings(bench, 0, 0);
	CHECK_EQ(bench_share(bench, &stranger, 0xc1, 1, 0), CONTINUED);
}

TEST_ON(gone_containers_get_nothing, started("580.142", &caller))
{
	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(cgpu_client_gone(&bench->core, 100, 0xc1), 0);
	CHECK_EQ(bench->core.state->objects, 0);
	CHECK_EQ(bench->core.state->clients, 0);
	CHECK_EQ(take(bench, &caller, 1, MIB), -ENODEV);
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:6336544768"), 0);
	CHECK_EQ(take(bench, &caller, 1, MIB), -ENODEV);
}

TEST_ON(a_client_handle_given_out_again_starts_anew, started("580.142", &caller))
{
	struct caller next = caller;

	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	next.tgid = 101;
	bench_cuda_start(bench, &next, 0xc1);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
	CHECK_EQ(take(bench, &next, 1, 2 * MIB), NV_OK);
	CHECK_EQ(cgpu_client_gone(&bench->core, 100, 0xc1), -ENOENT);
	CHECK(bench_is(bench, "0/a/meminfo", "Free: 6334447616\nPID: 101 Mem: 2097152\n"));
}

TEST_ON(children_use_a_clients_memory, sliced("580.142", &caller))
{
	struct caller child = caller;

	child.tgid = 101;
	bench_cuda_start(bench, &caller, 0xc1);
	CHECK_EQ(take(bench, &child, 1, SLICE), NV_OK);
	CHECK_EQ(take(bench, &caller, 2, 1), NV_ERR_NO_MEMORY);
	CHECK_EQ(bench_used(bench, 0, caller.slot), SLICE);
	CHECK_EQ(cgpu_client_gone(&bench->core, 100, 0xc1), 0);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
}

/* Number of clients that a container gets. */
static u32 clients_of(struct bench *bench, const struct caller *caller, u32 from)
{
	u32 client = 0;

	while (bench_device(bench, caller, from + client, 0xd0, 0) == NV_OK)
		client++;
	CHECK_EQ(bench->call.no_room, CGPU_NO_ROOM_LEFT);
	return client;
}

TEST_ON(one_container_cannot_take_all_records, sliced("580.142", &caller))
{
	struct caller other[4];
	u32 i;

	for (i = 0; i < 4; i++) {
		char line[64] = "create id=b pid=2 gpu=0:1048576";

		line[10] = (char)('b' + i);
		CHECK_EQ(bench_ctl(bench, line), 0);
		other[i] = bench_caller(bench, (char[]){ (char)('b' + i), 0 }, 300);
	}
	/* One has a quarter of the clients at the most, and half of them are kept for equal shares of all five. */
	CHECK_EQ(clients_of(bench, &caller, 0x10000), CGPU_MAX_CLIENTS / 4);
	CHECK_EQ(clients_of(bench, &other[0], 0x20000), CGPU_MAX_CLIENTS / 4);
	CHECK_EQ(clients_of(bench, &other[1], 0x30000), CGPU_MAX_CLIENTS / 4);
	CHECK_EQ(clients_of(bench, &other[2], 0x40000), CGPU_MAX_CLIENTS / 4 - CGPU_MAX_CLIENTS / 10);
	CHECK_EQ(clients_of(bench, &other[3], 0x50000), CGPU_MAX_CLIENTS / 10);
}

TEST_ON(clients_without_memory_are_found, sliced("580.142", &caller))
{
	u32 cursor = 0, client = 0, found = 0;
	s32 tgid = 0;

	for (caller.tgid = 100; caller.tgid < 103; caller.tgid++) {
		bench_cuda_start(bench, &caller, 0x100 + (u32)caller.tgid);
		bench_cuda_start(bench, &caller, 0x200 + (u32)caller.tgid);
	}
	while (cgpu_process_known(&bench->core, caller.slot, &cursor, &tgid) == 0) {
		u32 at = 0;

		found++;
		while (cgpu_client_next(&bench->core, tgid, &at, &client) == 0)
			CHECK_EQ(cgpu_client_gone(&bench->core, tgid, client), 0);
	}
	CHECK_EQ(found, 3);
	CHECK_EQ(bench->core.state->clients, 0);
	CHECK_EQ(bench->core.state->objects, 0);
}

#define SHARED 0xc5
#define DUP 0x777 /* in the neighbour's client */
#define SOURCE 0x99

/* A container and its neighbour, who has the container's file as well, and has used a client that lives on it. */
static struct caller stranger;

static struct bench *sharing_a_file(struct caller *caller)
{
	struct bench *bench = with_files(caller);
	struct caller on_file;

	stranger = neighbour(bench);
	on_file = stranger;
	on_file.file = caller->file;
	CHECK_EQ(bench_device(bench, &on_file, SHARED, 0xd5, 0), NV_OK);
	return bench;
}

static long dup_unknown(struct bench *bench)
{
	return bench_dup(bench, &stranger, SECOND, 0xd0, DUP, SHARED, SOURCE);
}

static int keep_unknown(struct bench *bench)
{
	struct cgpu_reference_request request = named(&stranger, SOURCE);
	struct cgpu_reference reference;

	request.tgid = stranger.tgid;
	request.client = SHARED;
	return cgpu_reference_begin(&bench->core, &request, &reference);
}

/* Before the driver makes the duplicate the client's other user can have memory there, which is freed again afterwards. */
TEST_ON(what_is_not_on_record_may_become_anothers, sharing_a_file(&caller))
{
	CHECK_EQ(dup_unknown(bench), NV_OK);
	CHECK_EQ(keep_unknown(bench), 0);
	CHECK_EQ(bench_rm_free(bench, &stranger, SHARED, 0xd5), NV_OK);
	CHECK_EQ(dup_unknown(bench), NV_ERR_OBJECT_NOT_FOUND);
	CHECK_EQ(bench->verdict, CGPU_ANSWER);
	CHECK_EQ(keep_unknown(bench), -EPERM);
	bench_settings(bench, 0, 0);
	CHECK_EQ(dup_unknown(bench), CONTINUED);
	CHECK_EQ(keep_unknown(bench), 0);
}

static void dup_while_another_allocates(struct bench *bench)
{
	static struct bench under_way;
	struct caller on_file = stranger;

	bench->at_execute = NULL;
	under_way = *bench;
	on_file.file = 1;
	CHECK_EQ(bench_device(bench, &on_file, SHARED, 0xd5, 0), NV_OK);
	CHECK_EQ(dup_unknown(bench), NV_ERR_OBJECT_NOT_FOUND);
	CHECK_EQ(keep_unknown(bench), -EPERM);
	bench->call = under_way.call;
	memcpy(bench->top, under_way.top, sizeof(bench->top));
	memcpy(bench->segment, under_way.segment, sizeof(bench->segment));
}

/* A request that the other one has sent before counts, too: it would be taken back, and the duplicate stay. */
TEST_ON(what_another_has_under_way_may_become_the_source, sharing_a_file(&caller))
{
	CHECK_EQ(bench_rm_free(bench, &stranger, SHARED, 0xd5), NV_OK);
	bench->at_execute = dup_while_another_allocates;
	CHECK_EQ(bench_device(bench, &caller, SHARED, 0xd6, 0), NV_ERR_NO_MEMORY);
}

static void end_the_source(struct bench *bench)
{
	bench->at_execute = NULL;
	CHECK_EQ(cgpu_client_gone(&bench->core, stranger.tgid, SHARED), 0);
}

TEST_ON(a_duplicate_is_taken_back_if_its_source_went, sharing_a_file(&caller))
{
	bench->at_execute = end_the_source;
	CHECK_EQ(dup_unknown(bench), NV_ERR_NO_MEMORY);
	CHECK_EQ(bench->undone, 1);
}
