// SPDX-License-Identifier: Apache-2.0
/* Records of removed containers: how much room they take from those that run. */
#include "slices.h"

#define MANY 17000u /* pieces; beyond 16384 objects of orphans they become one */
#define PIECE 65536ull
#define WHOLE "15842934784"

/* Container a exports a piece of memory as often as it can, each time on another file, and ends. Others have the files. */
static void live_and_die(struct bench *bench, u32 client)
{
	struct list_ask list = { .client = client, .parent = 0xd0, .count = 512 };
	struct caller caller;
	u32 i;

	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1073741824"), 0);
	caller = bench_caller(bench, "a", 100);
	bench_cuda_start(bench, &caller, client);
	CHECK_EQ(bench_take(bench, &caller, client, 1, MIB), NV_OK);
	for (i = 0; i < 512; i++)
		list.object[i] = 1;
	while (bench_export_list(bench, &caller, &list) == NV_OK)
		bench->target++;
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
}

TEST_ON(lives_of_a_container_leave_others_their_records, bench_new("580.142"))
{
	struct caller other = neighbour(bench);
	u32 life, object;

	bench->target = 100;
	for (life = 0; life < 2; life++)
		live_and_die(bench, 0x100 + life);
	for (object = 0x1000; object < 0x2000; object++)
		CHECK_EQ(bench_take(bench, &other, SECOND, object, 1), NV_OK);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 2 * MIB);
	CHECK(bench->core.state->orphaned_objects <= CORE_ORPHANED_OBJECTS);
}

/* --- what is charged keeps its record --- */

/* Count the objects of orphans; all sums are as they should be. */
static u32 left(struct bench *bench)
{
	bench_invariants(bench->core.state);
	return bench->core.state->orphaned_objects;
}

static u64 orphaned(struct bench *bench)
{
	bench_invariants(bench->core.state);
	return cgpu_gpu_orphaned(&bench->core, 0);
}

TEST_ON(only_what_is_charged_is_kept_of_a_removed_container, started("580.142", &caller))
{
	struct address_ask range = { FIRST, 0xd0, 0x300, 0, 64 * MIB, 0, 0 };
	struct map_ask map = { FIRST, 0xd0, 0x300, 0x400, MIB, 0x10000 };
	u32 object;

	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	for (object = 0x400; object < 0x500; object++)
		CHECK_EQ(bench_host(bench, &caller, FIRST, 0xd0, object), NV_OK);
	CHECK_EQ(bench_range(bench, &caller, &range), NV_OK);
	CHECK_EQ(bench_map(bench, &caller, &map), NV_OK);
	/* In the device's own space. */
	map.dma = 0x999;
	CHECK_EQ(bench_map(bench, &caller, &map), NV_OK);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	/* The memory, and the device above it, which has page tables. */
	CHECK_EQ(left(bench), 2);
	CHECK(orphaned(bench) > MIB);
	CHECK_EQ(cgpu_orphan_gone(&bench->core, 100, FIRST), 0);
	CHECK_EQ(left(bench), 0);
}

TEST_ON(a_removal_that_was_cut_short_leaves_as_little, started("580.142", &caller))
{
	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	CHECK_EQ(bench_host(bench, &caller, FIRST, 0xd0, 2), NV_OK);
	CHECK_EQ(bench_dup(bench, &caller, FIRST, 0xd0, 3, FIRST, 1), NV_OK);
	bench->core.state->container[caller.slot].live = 0;
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK_EQ(left(bench), 3);
	CHECK_EQ(orphaned(bench), MIB);
}

/* --- many pieces become one --- */

static void take_many(struct bench *bench, const struct caller *caller, u32 count)
{
	u32 object;

	for (object = 0x1000; object < 0x1000 + count; object++)
		CHECK_EQ(bench_take(bench, caller, FIRST, object, 1), NV_OK);
}

TEST_ON(many_pieces_become_one_for_each_card, bench_new("580.142"))
{
	struct memory_ask ask = { .client = FIRST, .parent = 0xe0, .object = 1, .size = MIB, .attr = PAGE_BIG };
	u64 serial;

	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:6336544768 gpu=1:6336544768"), 0);
	caller = bench_caller(bench, "a", 100);
	bench_cuda_start(bench, &caller, FIRST);
	CHECK_EQ(bench_device(bench, &caller, FIRST, 0xe0, 1), NV_OK);
	for (; ask.object < 0x10; ask.object++)
		CHECK_EQ(bench_vidmem(bench, &caller, 1, &ask), NV_OK);
	take_many(bench, &caller, MANY);
	serial = bench->core.state->serial;
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	/* On each card a device and its memory, which no call that is under way can name. */
	CHECK_EQ(left(bench), 4);
	CHECK_EQ(bench->core.state->serial, serial + 2);
	CHECK_EQ(orphaned(bench), MANY * PIECE);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 1), 15 * MIB);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK_EQ(left(bench), 4);
	CHECK_EQ(orphaned(bench), MANY * PIECE);
	CHECK_EQ(cgpu_orphan_gone(&bench->core, 100, FIRST), 0);
	CHECK_EQ(orphaned(bench), 0);
}

TEST_ON(what_became_one_stays_charged_until_the_last_client_has_gone, started("580.142", &caller))
{
	struct caller second = caller;
	u32 object;

	second.tgid = 200;
	bench_cuda_start(bench, &second, SECOND);
	take_many(bench, &caller, MANY);
	for (object = 0x1000; object < 0x1010; object++)
		CHECK_EQ(bench_dup(bench, &second, SECOND, 0xd0, object, FIRST, object), NV_OK);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(left(bench), 4);
	CHECK_EQ(cgpu_orphan_gone(&bench->core, 100, FIRST), 0);
	CHECK_EQ(orphaned(bench), MANY * PIECE);
	CHECK_EQ(cgpu_orphan_gone(&bench->core, 200, SECOND), 0);
	CHECK_EQ(orphaned(bench), 0);
	CHECK_EQ(bench->core.state->clients, 0);
}

static struct cgpu_reference reference[MANY];

/* UVM lets go of each in its time: by them their process's record is counted down. */
TEST_ON(references_that_became_one_are_counted, with_files(&caller))
{
	struct cgpu_reference_request request = named(&caller, 0), charged = named(&caller, 0);
	struct cgpu_reference managed, under_way;
	u32 i;

	take_many(bench, &caller, MANY / 2);
	for (i = 0; i < MANY / 2; i++) {
		request.handle = 0x1000 + i;
		CHECK_EQ(cgpu_reference_begin(&bench->core, &request, &reference[i]), 0);
		CHECK_EQ(cgpu_reference_confirm(&bench->core, &reference[i]), 0);
	}
	charged.bytes = 64 * MIB;
	CHECK_EQ(cgpu_reference_charge(&bench->core, &charged, &managed), 0);
	CHECK_EQ(cgpu_reference_begin(&bench->core, &request, &under_way), 0);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	/* A device and its memory; and all memory that UVM has of that, and managed memory. */
	CHECK_EQ(left(bench), 4);
	CHECK_EQ(cgpu_reference_confirm(&bench->core, &under_way), -ENOENT);
	cgpu_reference_shrink(&bench->core, &managed, MIB);
	cgpu_file_closed(&bench->core, 1);
	CHECK_EQ(left(bench), 2);
	for (i = 0; i < MANY / 2; i++)
		cgpu_reference_drop(&bench->core, &reference[i]);
	cgpu_reference_drop(&bench->core, &managed);
	CHECK_EQ(orphaned(bench), MANY / 2 * PIECE + 64 * MIB);
	cgpu_reference_drop(&bench->core, &under_way);
	CHECK_EQ(orphaned(bench), 0);
	cgpu_reference_drop(&bench->core, &under_way);
	CHECK_EQ(bench->core.state->clients, 0);
}

/* The transport knows each by its record, also after its own end. */
TEST_ON(references_of_a_file_keep_their_records, started("580.142", &caller))
{
	struct cgpu_reference_request request = named(&caller, 0x1000);
	struct cgpu_reference first, second;

	take_many(bench, &caller, MANY);
	CHECK_EQ(cgpu_reference_on_file(&bench->core, &request, 7, &first), 0);
	CHECK_EQ(cgpu_reference_confirm(&bench->core, &first), 0);
	CHECK_EQ(cgpu_reference_on_file(&bench->core, &request, 7, &second), 0);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(left(bench), 4);
	CHECK_EQ(cgpu_orphan_gone(&bench->core, 100, FIRST), 0);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK_EQ(cgpu_reference_recover(&bench->core, &first, 7), 0);
	CHECK_EQ(cgpu_reference_recover(&bench->core, &second, 7), 0);
	cgpu_reference_drop(&bench->core, &first);
	CHECK_EQ(orphaned(bench), MANY * PIECE);
	cgpu_reference_drop(&bench->core, &second);
	CHECK_EQ(orphaned(bench), 0);
}

/* The new export replaces what was exported in the same place, and must find both. */
TEST_ON(an_export_under_way_keeps_the_records_of_its_file, with_files(&caller))
{
	take_many(bench, &caller, MANY);
	CHECK_EQ(bench_export(bench, &caller, FIRST, 0x1000), NV_OK);
	bench->at_execute = end_container;
	CHECK_EQ(bench_export(bench, &caller, FIRST, 0x1001), NV_OK);
	CHECK_EQ(left(bench), 3);
	cgpu_file_closed(&bench->core, 1);
	CHECK_EQ(orphaned(bench), MANY * PIECE);
	cgpu_file_closed(&bench->core, FILE_OF_EXPORT);
	CHECK_EQ(orphaned(bench), 0);
}

/* --- clients --- */

/* Container `id` takes so many clients, each with memory, and ends. */
static void leave_clients(struct bench *bench, const char *id, u32 from, u32 count)
{
	struct caller caller;
	char line[64];
	u32 client;

	snprintf(line, sizeof(line), "create id=%s pid=1 gpu=0:1073741824", id);
	CHECK_EQ(bench_ctl(bench, line), 0);
	caller = bench_caller(bench, id, 100);
	for (client = from; client < from + count; client++) {
		CHECK_EQ(bench_device(bench, &caller, client, 0xd0, 0), NV_OK);
		CHECK_EQ(bench_take(bench, &caller, client, 1, 1), NV_OK);
	}
	snprintf(line, sizeof(line), "destroy id=%s", id);
	CHECK_EQ(bench_ctl(bench, line), 0);
}

TEST_ON(nobody_is_registered_beside_too_many_clients_of_removed_containers, bench_new("580.142"))
{
	struct caller other = neighbour(bench);
	u32 client;

	leave_clients(bench, "a", 0x10000, CORE_ORPHANED_CLIENTS);
	leave_clients(bench, "c", 0x20000, 1);
	CHECK_EQ(bench->core.state->orphaned_clients, CORE_ORPHANED_CLIENTS + 1);
	CHECK_EQ(bench_ctl(bench, "create id=d pid=1 gpu=0:1048576"), -ENOSPC);
	/* Clients that are there already have their share of the others. */
	for (client = 0x30000; client < 0x30000 + CGPU_MAX_CLIENTS / 4 - 1; client++)
		CHECK_EQ(bench_device(bench, &other, client, 0xd0, 0), NV_OK);
	bench_invariants(bench->core.state);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK_EQ(bench_ctl(bench, "create id=d pid=1 gpu=0:1048576"), -ENOSPC);
	bench->at_orphans = bench_orphans_gone;
	CHECK_EQ(bench_ctl(bench, "create id=d pid=1 gpu=0:1048576"), 0);
}

/* --- numbers of channels --- */

/* As many groups as a container gets, whose records cost nothing else. */
static u32 take_groups(struct bench *bench, const struct caller *caller, u32 gpu)
{
	struct channel_ask ask = { FIRST, 0xe0, 0x1000, KEPLER_CHANNEL_GROUP_A, NV2080_ENGINE_TYPE_GR0, 0 };

	CHECK_EQ(bench_device(bench, caller, FIRST, 0xe0, gpu), NV_OK);
	while (ask.object < 0x1000 + CORE_TSG_IDS && bench_channel(bench, caller, &ask) == NV_OK)
		ask.object++;
	return ask.object - 0x1000;
}

/* With 20 places: a twentieth of one half of the numbers, and nearly all of the other. */
#define MOST (960 / 20 + 959)

static struct bench *without_numbers(struct caller *caller)
{
	struct bench *bench = bench_new("580.142");

	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:" WHOLE), 0);
	*caller = bench_caller(bench, "a", 100);
	CHECK_EQ(take_groups(bench, caller, 0), MOST);
	end_container(bench);
	CHECK_EQ(orphaned(bench), 0);
	return bench;
}

TEST_ON(numbers_of_removed_containers_are_not_promised_again, without_numbers(&caller))
{
	CHECK_EQ(bench_ctl(bench, "create id=b pid=2 gpu=0:" WHOLE), -ENOMEM);
	CHECK_EQ(bench_ctl(bench, "reserve id=s gpu=0:" WHOLE), -ENOMEM);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=2 gpu=0:1073741824"), 0);
	CHECK_EQ(bench_write(bench, "0/b/memsize", WHOLE), -ENOMEM);
	CHECK(strstr(bench->log, "of which they have 1007"));
	CHECK_EQ(bench_write(bench, "0/max_inst", "1"), -ENOMEM);
	CHECK(strstr(bench->log, "expected more, as far as removed containers leave numbers"));
	CHECK_EQ(bench_write(bench, "0/max_inst", "2"), 0);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK_EQ(bench_write(bench, "0/b/memsize", WHOLE), -ENOMEM);
	bench->at_orphans = bench_orphans_gone;
	CHECK_EQ(bench_write(bench, "0/b/memsize", WHOLE), 0);
	CHECK_EQ(bench_write(bench, "0/max_inst", "1"), 0);
}

TEST_ON(numbers_of_a_whole_card_count_from_the_end_of_their_container, bench_new("580.142"))
{
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1073741824 native=1"), 0);
	caller = bench_caller(bench, "a", 100);
	CHECK_EQ(take_groups(bench, &caller, 1), CORE_TSG_IDS);
	end_container(bench);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=2 gpu=1:1048576"), -ENOMEM);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=2 gpu=0:1048576"), 0);
}

/* Duplicates have no number of their own. */
TEST_ON(duplicates_of_a_group_become_one, started("580.142", &caller))
{
	struct channel_ask ask = { FIRST, 0xd0, 0x10, KEPLER_CHANNEL_GROUP_A, NV2080_ENGINE_TYPE_GR0, 0 };
	u32 object;

	CHECK_EQ(bench_channel(bench, &caller, &ask), NV_OK);
	for (object = 0x10000; object < 0x10000 + CORE_TSG_IDS - 1; object++)
		CHECK_EQ(bench_dup(bench, &caller, FIRST, 0xd0, object, FIRST, 0x10), NV_OK);
	take_many(bench, &caller, MANY);
	end_container(bench);
	CHECK_EQ(left(bench), 3);
	CHECK_EQ(bench->core.state->gpu[0].share.tsg_list[CORE_ORPHANED].group_ids, 1);
	CHECK_EQ(bench->core.state->gpu[0].share.tsg_list[CORE_ORPHANED].groups, 1);
}
