// SPDX-License-Identifier: Apache-2.0
/* Managed memory as an engine outside of the kernel counts it: by what each process has mapped. */
#include "bench.h"

#define SLICE "6336544768" /* 6043 MiB */
#define LIMIT (6043 * MIB)

static struct bench *sliced(struct caller *caller, const char *gpus)
{
	struct bench *bench = bench_new("580.142");
	char text[256];

	snprintf(text, sizeof(text), "create id=a pid=1 %s", gpus);
	CHECK_EQ(bench_ctl(bench, text), 0);
	*caller = bench_caller(bench, "a", 100);
	return bench;
}

static int set(struct bench *bench, const struct caller *caller, s32 tgid, u64 bytes, u32 limited)
{
	struct cgpu_managed wanted = {
		.slot = caller->slot, .generation = caller->generation, .tgid = tgid, .bytes = bytes, .limited = limited
	};
	int err = cgpu_managed_set(&bench->core, &wanted);

	bench_invariants(bench->core.state);
	return err;
}

static u32 processes(struct bench *bench, u32 slot)
{
	u32 cursor = 0, count = 0;
	struct cgpu_managed found;

	while (cgpu_managed_next(&bench->core, slot, &cursor, &found) == 0)
		count++;
	return count;
}

static void end(struct bench *bench, u32 slot, u64 generation, s32 tgid)
{
	const struct cgpu_managed found = { .slot = slot, .generation = generation, .tgid = tgid };

	cgpu_managed_ended(&bench->core, &found);
	bench_invariants(bench->core.state);
}

TEST_ON(what_is_mapped_is_charged, sliced(&caller, "gpu=0:" SLICE))
{
	CHECK_EQ(set(bench, &caller, 100, 4096 * MIB, 1), 0);
	CHECK(bench_is(bench, "0/a/meminfo", "Free: 2041577472\nPID: 100 Mem: 4294967296\n"));
	CHECK_EQ(set(bench, &caller, 100, LIMIT + 1, 1), -ENOMEM);
	CHECK_EQ(set(bench, &caller, 101, 2048 * MIB, 1), -ENOMEM);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 4096 * MIB);
	CHECK_EQ(processes(bench, caller.slot), 1);
	CHECK_EQ(set(bench, &caller, 101, 1947 * MIB, 1), 0);
	CHECK_EQ(bench_used(bench, 0, caller.slot), LIMIT);
	CHECK_EQ(processes(bench, caller.slot), 2);
	CHECK_EQ(set(bench, &caller, 100, 2 * MIB, 1), 0);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 1949 * MIB);
	CHECK_EQ(set(bench, &caller, 100, 0, 0), 0);
	CHECK_EQ(set(bench, &caller, 101, 0, 0), 0);
	CHECK_EQ(set(bench, &caller, 101, 0, 0), 0);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
	CHECK_EQ(bench->core.state->clients, 0);
}

TEST_ON(what_is_there_is_counted_above_the_limit_too, sliced(&caller, "gpu=0:" SLICE))
{
	CHECK_EQ(set(bench, &caller, 100, LIMIT + 4 * MIB, 0), 0);
	CHECK(bench_is(bench, "0/a/meminfo", "Free: 0\nPID: 100 Mem: 6340739072\n"));
	/* Less of it is always fine. */
	CHECK_EQ(set(bench, &caller, 100, LIMIT + 2 * MIB, 1), 0);
	CHECK_EQ(set(bench, &caller, 100, LIMIT + 4 * MIB, 1), -ENOMEM);
	bench_settings(bench, 0, 0);
	CHECK_EQ(set(bench, &caller, 100, LIMIT + 4 * MIB, 1), 0);
	CHECK_EQ(set(bench, &caller, 100, 0, 0), 0);
}

TEST_ON(every_gpu_has_room_for_all_of_it, sliced(&caller, "gpu=0:" SLICE " gpu=1:67108864"))
{
	CHECK_EQ(set(bench, &caller, 100, 65 * MIB, 1), -ENOMEM);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
	CHECK_EQ(bench->core.state->clients, 0);
	CHECK_EQ(set(bench, &caller, 100, 64 * MIB, 1), 0);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 64 * MIB);
	CHECK_EQ(bench_used(bench, 1, caller.slot), 64 * MIB);
	CHECK_EQ(set(bench, &caller, 100, 0, 0), 0);
	CHECK_EQ(bench_used(bench, 0, caller.slot) + bench_used(bench, 1, caller.slot), 0);
}

/* The driver is not asked for such a record, which is no client of it. */
TEST_ON(the_driver_does_not_know_of_it, sliced(&caller, "gpu=0:" SLICE))
{
	u32 cursor = 0, client;

	CHECK_EQ(set(bench, &caller, 100, MIB, 1), 0);
	CHECK_EQ(cgpu_client_next(&bench->core, 100, &cursor, &client), -ENOENT);
	CHECK_EQ(bench_used(bench, 0, caller.slot), MIB);
	end(bench, caller.slot, caller.generation, 101);
	end(bench, caller.slot, caller.generation + 1, 100);
	end(bench, CGPU_ORPHANS, 0, 100);
	CHECK_EQ(bench_used(bench, 0, caller.slot), MIB);
	end(bench, caller.slot, caller.generation, 100);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
}

TEST_ON(it_outlives_its_container, sliced(&caller, "gpu=0:" SLICE))
{
	u32 slot = caller.slot;

	CHECK_EQ(set(bench, &caller, 100, 64 * MIB, 1), 0);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(set(bench, &caller, 100, 2 * MIB, 1), -ENODEV);
	CHECK_EQ(processes(bench, slot), 0);
	CHECK_EQ(processes(bench, CGPU_ORPHANS), 1);
	bench_orphans_gone(bench);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 64 * MIB);
	end(bench, slot, caller.generation, 100);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 64 * MIB);
	end(bench, CGPU_ORPHANS, 0, 100);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 0);
	CHECK_EQ(processes(bench, CGPU_ORPHANS), 0);
}

/* Address spaces outlive their processes: meanwhile another container's process can have the number. */
TEST_ON(one_number_in_two_containers_is_two_records, sliced(&caller, "gpu=0:" SLICE))
{
	struct caller other;

	CHECK_EQ(bench_ctl(bench, "create id=b pid=2 gpu=0:" SLICE), 0);
	other = bench_caller(bench, "b", 100);
	CHECK_EQ(set(bench, &caller, 100, 64 * MIB, 1), 0);
	CHECK_EQ(set(bench, &other, 100, 32 * MIB, 1), 0);
	end(bench, other.slot, other.generation, 100);
	CHECK_EQ(bench_used(bench, 0, other.slot), 0);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 64 * MIB);
}

TEST_ON(the_start_of_a_process_is_kept_beside_its_number, sliced(&caller, "gpu=0:" SLICE))
{
	struct cgpu_managed wanted = {
		.slot = caller.slot, .generation = caller.generation, .tgid = 100, .bytes = MIB
	};
	struct cgpu_managed found;
	u32 cursor = 0;

	wanted.started = 7;
	CHECK_EQ(cgpu_managed_set(&bench->core, &wanted), 0);
	/* A later look does not know it. */
	wanted.started = 0;
	CHECK_EQ(cgpu_managed_set(&bench->core, &wanted), 0);
	CHECK_EQ(cgpu_managed_next(&bench->core, caller.slot, &cursor, &found), 0);
	CHECK_EQ(found.slot, caller.slot);
	CHECK_EQ(found.generation, caller.generation);
	CHECK_EQ(found.started, 7);
}
