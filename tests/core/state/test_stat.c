// SPDX-License-Identifier: Apache-2.0
/* The entries `stat` count what happened. */
#include "cgpu_latency.h"
#include "slices.h"
#include "stats.h"

TEST_ON(each_entry_is_one_line_for_what_it_is_of, started("580.142", &caller))
{
	CHECK_EQ(bench_ctl(bench, "create id=b pid=2 gpu=0:1073741824:2:1"), 0);
	CHECK(bench_is(bench, "0/b/stat",
		"id=b memsize=1073741824 weight=2 highprio=1 used=0 charged=0 peak=0 usage=0 throttled=0 refused_limit=0 refused_card=0 "
		"refused_unaccounted=0 refused_class=0 refused_control=0 refused_client=0 refused_records=0 refused_call=0\n"));
	CHECK(bench_is(bench, "0/stat",
		"uuid=GPU-0 drift=0 memtotal=15842934784 memfree=15842934784 promised=7410286592 used=0 orphaned=0 orphaned_ids=0 "
		"policy=2 prio_ratio=80 max_inst=20 places=2 weights=3 mig=0 natives=0 drift_lasting=0 undivided=0 usage=0 lost=0 "
		"refused_limit=0 refused_card=0 refused_unaccounted=0\n"
		"id=a memsize=6336544768 weight=1 highprio=0 used=0 charged=0 peak=0 usage=0 throttled=0 refused_limit=0 refused_card=0 "
		"refused_unaccounted=0 refused_class=0 refused_control=0 refused_client=0 refused_records=0 refused_call=0\n"
		"id=b memsize=1073741824 weight=2 highprio=1 used=0 charged=0 peak=0 usage=0 throttled=0 refused_limit=0 refused_card=0 "
		"refused_unaccounted=0 refused_class=0 refused_control=0 refused_client=0 refused_records=0 refused_call=0\n"));
	CHECK_STAT("stat", "registered", 2);
	CHECK_STAT("stat", "containers", 2);
	CHECK_STAT("stat", "clients", 1);
	CHECK_STAT("stat", "objects", 2);
}

TEST_ON(the_peak_stays_when_memory_is_freed, started("580.142", &caller))
{
	CHECK_EQ(take(bench, &caller, 1, 5 * MIB), NV_OK);
	CHECK_EQ(take(bench, &caller, 2, 3 * MIB), NV_OK);
	CHECK_STAT("0/a/stat", "peak", 8 * MIB);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, 1), NV_OK);
	CHECK_EQ(take(bench, &caller, 3, MIB), NV_OK);
	CHECK_STAT("0/a/stat", "used", 4 * MIB);
	CHECK_STAT("0/a/stat", "peak", 8 * MIB);
	CHECK_STAT("0/stat", "used", 4 * MIB);
	/* A container of the same name and number begins anew. */
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:6336544768"), 0);
	CHECK_STAT("0/a/stat", "peak", 0);
	CHECK_STAT("stat", "registered", 2);
	CHECK_STAT("0/stat", "orphaned", 4 * MIB);
}

TEST_ON(what_the_driver_did_not_give_is_no_peak, started("580.142", &caller))
{
	CHECK_EQ(take(bench, &caller, 1, 5 * MIB), NV_OK);
	bench->driver_status = NV_ERR_NO_MEMORY;
	CHECK_EQ(take(bench, &caller, 2, 64 * MIB), NV_ERR_NO_MEMORY);
	CHECK_EQ(take(bench, &caller, 2, 64 * MIB), NV_ERR_NO_MEMORY);
	CHECK_STAT("0/a/stat", "peak", 5 * MIB);
	CHECK_STAT("0/a/stat", "refused_card", 2);
	CHECK_STAT("0/a/stat", "refused_limit", 0);
	/* For another reason it is no matter of memory. */
	bench->driver_status = NV_ERR_INVALID_ARGUMENT;
	CHECK_EQ(take(bench, &caller, 2, 64 * MIB), NV_ERR_INVALID_ARGUMENT);
	CHECK_STAT("0/a/stat", "refused_card", 2);
	CHECK_STAT("0/stat", "refused_card", 2);
}

TEST_ON(three_refused_allocations_are_three, started("580.142", &caller))
{
	struct memory_ask ask = { .client = FIRST, .parent = 0xd0, .object = 9, .size = SLICE + 1 };

	CHECK_EQ(take(bench, &caller, 1, SLICE + 1), NV_ERR_NO_MEMORY);
	CHECK_EQ(bench_heap(bench, &caller, &ask), NV_ERR_NO_MEMORY);
	/* The driver takes more than it was asked for: that is taken back. */
	bench->driver_size = SLICE + MIB;
	CHECK_EQ(take(bench, &caller, 1, MIB), NV_ERR_NO_MEMORY);
	CHECK_EQ(bench->undone, 1);
	CHECK_STAT("0/a/stat", "refused_limit", 3);
	CHECK_STAT("0/a/stat", "refused_card", 0);
	CHECK_STAT("0/a/stat", "peak", 0);
	CHECK_STAT("0/stat", "refused_limit", 3);
	/* The GPU's goes on counting when the container has ended. */
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_STAT("0/stat", "refused_limit", 3);
	CHECK_STAT("stat", "refused", 2);
}

TEST_ON(a_transport_that_asks_twice_is_counted_once, started("580.142", &caller))
{
	const u64 executed = stat_of(bench, "stat", "executed");
	struct cgpu_call call;
	u8 top[256];

	/* The bench looks at nothing: what it is told first is told once more. */
	CHECK_EQ(take(bench, &caller, 1, SLICE + 1), NV_ERR_NO_MEMORY);
	CHECK_STAT("0/a/stat", "refused_limit", 1);
	call = bench->call;
	memcpy(top, bench->top, sizeof(top));
	call.top = top;
	call.no_room = CGPU_CALL_LOOKS;
	CHECK_EQ(cgpu_call_begin(&bench->core, &call), CGPU_ANSWER);
	CHECK_EQ(call.no_room, CGPU_NO_ROOM_LEFT);
	CHECK_STAT("0/a/stat", "refused_limit", 1);
	call.no_room = 0;
	CHECK_EQ(cgpu_call_begin(&bench->core, &call), CGPU_ANSWER);
	CHECK_STAT("0/a/stat", "refused_limit", 2);
	CHECK_STAT("stat", "executed", executed);
}

TEST_ON(other_refusals_are_told_apart, started("580.142", &caller))
{
	struct caller other = neighbour(bench), wrong = caller;

	CHECK(bench_class(bench, &caller, 0x12345) != NV_OK);
	CHECK(bench_control(bench, &caller, FIRST, 0xd0, 0x20809999, 0) == NV_ERR_NOT_SUPPORTED);
	CHECK(bench_control(bench, &caller, FIRST, 0xd0, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, 0) != NV_OK);
	CHECK_EQ(bench_device(bench, &caller, SECOND, 0xd7, 0), NV_ERR_INSUFFICIENT_PERMISSIONS);
	wrong.device = CGPU_DEVICE_OTHER;
	CHECK_EQ(bench_call(bench, &wrong, 1, 16), -EPERM);
	CHECK_EQ(bench_call(bench, &caller, 0xfe, 16), -EINVAL);
	CHECK_STAT("0/a/stat", "refused_class", 1);
	CHECK_STAT("0/a/stat", "refused_control", 2);
	CHECK_STAT("0/a/stat", "refused_client", 1);
	CHECK_STAT("0/a/stat", "refused_call", 2);
	CHECK_STAT("0/b/stat", "refused_call", 0);
	CHECK_STAT("stat", "refused", 6);
	CHECK_STAT("stat", "refused_call", 2);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_STAT("stat", "refused_class", 1);
	(void)other;
}

TEST_ON(nothing_is_refused_without_enforcement, started("580.142", &caller))
{
	bench_settings(bench, 0, 0);
	CHECK_EQ(take(bench, &caller, 1, SLICE + 1), NV_OK);
	CHECK(bench_class(bench, &caller, 0x12345) == CONTINUED);
	CHECK_STAT("0/a/stat", "refused_limit", 0);
	CHECK_STAT("0/a/stat", "refused_class", 0);
	CHECK_STAT("0/a/stat", "peak", SLICE + 65536);
	CHECK_STAT("stat", "refused", 0);
}

TEST_ON(managed_memory_counts_too, started("580.142", &caller))
{
	struct cgpu_managed wanted = {
		.slot = caller.slot, .generation = caller.generation, .tgid = 100, .bytes = 64 * MIB, .limited = 1
	};
	struct cgpu_reference_request request = named(&caller, 0);
	struct cgpu_reference reference;

	CHECK_EQ(cgpu_managed_set(&bench->core, &wanted), 0);
	wanted.bytes = SLICE + 1;
	CHECK_EQ(cgpu_managed_set(&bench->core, &wanted), -ENOMEM);
	CHECK_STAT("0/a/stat", "peak", 64 * MIB);
	CHECK_STAT("0/a/stat", "refused_limit", 1);
	request.bytes = SLICE;
	CHECK_EQ(cgpu_reference_charge(&bench->core, &request, &reference), -ENOMEM);
	CHECK_STAT("0/a/stat", "refused_limit", 2);
	request.bytes = MIB;
	CHECK_EQ(cgpu_reference_charge(&bench->core, &request, &reference), 0);
	CHECK_STAT("0/a/stat", "peak", 65 * MIB);
}

TEST_ON(drift_that_refuses_is_a_reason_of_its_own, started("580.142", &caller))
{
	struct core_unaccounted *drift = &bench->core.state->gpu[0].drift;

	bench->core.state->settings.drift_refuse = 1;
	drift->lasting = 1;
	CHECK_EQ(take(bench, &caller, 1, MIB), NV_ERR_NO_MEMORY);
	CHECK_STAT("0/a/stat", "refused_unaccounted", 1);
	CHECK_STAT("0/a/stat", "refused_limit", 0);
	CHECK_STAT("0/stat", "drift_lasting", 1);
}

TEST_ON(settings_and_owners_are_counted, started("580.142", &caller))
{
	struct cgpu_state *taken = malloc(cgpu_state_bytes()), *own = bench->core.state;
	struct cgpu_settings settings = own->settings;

	CHECK(taken);
	CHECK_STAT("stat", "reloads", 0);
	CHECK_EQ(cgpu_settings_apply(&bench->core, &settings), 0);
	CHECK_STAT("stat", "reloads", 0);
	settings.context_memory++;
	CHECK_EQ(cgpu_settings_apply(&bench->core, &settings), 0);
	CHECK_STAT("stat", "reloads", 1);
	/* The module's other core on the same state. */
	memcpy(settings.version, "0.2.0", sizeof("0.2.0"));
	CHECK_EQ(cgpu_settings_apply(&bench->core, &settings), 0);
	CHECK_STAT("stat", "upgrades", 1);
	CHECK_EQ(take(bench, &caller, 1, SLICE + 1), NV_ERR_NO_MEMORY);
	CHECK_EQ(take(bench, &caller, 1, MIB), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, 1), NV_OK);
	CHECK_EQ(cgpu_state_recover(own), 0);
	settings.context_memory++;
	CHECK_EQ(cgpu_settings_apply(&bench->core, &settings), 0);
	CHECK_STAT("stat", "upgrades", 1);
	CHECK_STAT("stat", "restarts", 1);
	CHECK_STAT("stat", "reloads", 1);
	cgpu_state_init(taken, 0);
	CHECK_EQ(cgpu_state_take_over(taken, own), 0);
	bench->core.state = taken;
	memcpy(settings.version, "0.3.0", sizeof("0.3.0"));
	CHECK_EQ(cgpu_settings_apply(&bench->core, &settings), 0);
	CHECK_STAT("stat", "upgrades", 2);
	CHECK_STAT("stat", "restarts", 2);
	CHECK_STAT("0/a/stat", "refused_limit", 1);
	CHECK_STAT("0/a/stat", "peak", MIB);
	CHECK_STAT("0/a/stat", "used", 0);
	bench->core.state = own;
	free(taken);
}

TEST_ON(notifications_are_counted_without_the_lock, bench_new("580.142"))
{
	cgpu_notified(&bench->core);
	cgpu_notified(&bench->core);
	CHECK(bench_is(bench, "stat",
		"notified=2 executed=0 continued=0 answered=0 refused=0 registered=0 restarts=0 upgrades=0 reloads=0 "
		"containers=0 containers_max=512 clients=0 clients_max=4096 objects=0 objects_max=262144 orphaned_clients=0 "
		"orphaned_clients_max=1024 orphaned_objects=0 orphaned_objects_max=65536 refused_class=0 refused_control=0 refused_client=0 refused_records=0 refused_call=0\n"));
}

TEST(a_time_is_counted_in_the_first_bucket_that_holds_it)
{
	u64 bound = 1000;
	u32 n;

	CHECK_EQ(cgpu_latency_bucket(0), 0);
	for (n = 0; n < CGPU_LATENCY_BUCKETS - 1; n++, bound *= 4) {
		CHECK_EQ(cgpu_latency_bucket(bound - 1), n);
		CHECK_EQ(cgpu_latency_bucket(bound), n);
		CHECK_EQ(cgpu_latency_bucket(bound + 1), n + 1);
	}
	/* The last that has a bound is the second. */
	CHECK_EQ(bound / 4, 1048576000);
	CHECK_EQ(cgpu_latency_bucket(~0ull), CGPU_LATENCY_BUCKETS - 1);
}
