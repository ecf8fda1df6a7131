// SPDX-License-Identifier: Apache-2.0
/* Reservations: what a share has of a card, with and without a container that uses it. */
#include "bench.h"

#define WHOLE "15842934784" /* bytes of a card */

TEST_ON(grammar_is_strict, bench_new("580.142"))
{
	static const char *const bad[] = { "reserve", "reserve ", "reserve id=a", "reserve gpu=0:1",
		"reserve id=a gpu=0", "reserve id=a gpu=0:0", "reserve id=a gpu=0:1:26", "reserve id=a gpu=0:1:1:2",
		"reserve id=a gpu=0:1:1:1:1", "reserve id=a gpu=0:1 gpu=1:1", "reserve id=a gpu=0:1 gpu=0:1",
		"reserve id=a gpu=0:1 native=1", "reserve id=a gpu=0:1 native=99", "reserve id=a gpu=0:1 pid=1",
		"reserve id=a gpu=0:1 share=b", "reserve id=a id=a gpu=0:1", "reserve id=-a gpu=0:1",
		"reserve id=a/b gpu=0:1", "reserve id=.. gpu=0:1", "reserve  id=a gpu=0:1", "reserve id=a gpu=0:1 ",
		" reserve id=a gpu=0:1", "reserve id=a gpu=0:1\n\n", "reserve id=a gpu=0:1 x=1", "Reserve id=a gpu=0:1",
		"release", "release id=", "release id=a id=a", "release id=a gpu=0:1", "release id=a pid=1",
		"release id=a native=0", "release id=a share=a", "destroy id=a share=a",
		"create id=a pid=1 share=", "create id=a pid=1 share=-a", "create id=a pid=1 share=a/b",
		"create id=a pid=1 share=a share=a", "create id=a share=a", "create pid=1 share=a",
		"create id=a pid=1 share=a gpu=0:1", "create id=a pid=1 gpu=0:1 share=a",
		"create id=a pid=1 share=a native=1", "create id=a pid=1 share=a native=99",
		"create id=policy pid=1 share=a", "create id=reserved pid=1 gpu=0:1", "share=a", NULL };
	char line[1024] = "create id=a pid=1";
	size_t at = strlen(line);
	int i;

	for (i = 0; bad[i]; i++) {
		if (bench_ctl(bench, bad[i]) != -EINVAL)
			fprintf(stderr, "accepted: %s\n", bad[i]);
		CHECK_EQ(bench_ctl(bench, bad[i]), -EINVAL);
	}
	for (i = 0; i <= 64; i++) {
		/* As many as a line may name are looked for. */
		CHECK_EQ(bench_ctl(bench, line), i == 0 ? -EINVAL : -ENOENT);
		at += (size_t)snprintf(line + at, sizeof(line) - at, " share=s%d", i);
	}
	CHECK_EQ(bench_ctl(bench, line), -EINVAL);
	CHECK(bench_is(bench, "0/reserved", "") && bench_is(bench, "1/reserved", ""));
}

TEST_ON(reserving_again_is_no_error, bench_new("580.142"))
{
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=0:" WHOLE ":20"), 0);
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=0:" WHOLE ":20:0"), 0);
	/* Also while it is used, and where the card could not take another. */
	CHECK_EQ(bench_ctl(bench, "create id=c pid=1 share=a"), 0);
	CHECK_EQ(cgpu_gpu_set_mig(&bench->core, 0, 1), 0);
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=0:" WHOLE ":20"), 0);
	CHECK(bench_is(bench, "0/reserved", "a " WHOLE " 20 0 c\n"));
}

TEST_ON(errors_come_in_order, bench_new("580.142"))
{
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=9:1"), -ENOENT);
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=99999:1:25"), -ENOENT);
	CHECK_EQ(cgpu_gpu_set_mig(&bench->core, 1, 1), 0);
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=1:1:21"), -EOPNOTSUPP);
	CHECK_EQ(cgpu_gpu_set_mig(&bench->core, 1, 0), 0);
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=1:1:21"), -EINVAL);
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=1:1:0"), -EINVAL);
	CHECK_EQ(bench_write(bench, "1/max_inst", "2"), 0);
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=1:15842934783"), 0);
	CHECK_EQ(bench_ctl(bench, "reserve id=b gpu=1:2:2"), -ENOMEM);
	CHECK_EQ(bench_ctl(bench, "reserve id=b gpu=1:1:2"), -EDQUOT);
	CHECK_EQ(bench_ctl(bench, "reserve id=b gpu=1:1"), 0);
	CHECK_EQ(bench_ctl(bench, "reserve id=c gpu=1:2:2"), -ENOSPC);
	CHECK_EQ(bench_ctl(bench, "create id=x pid=1 gpu=0:1 native=1"), -ENOMEM);
	CHECK_EQ(bench_ctl(bench, "create id=x pid=1 gpu=1:1"), -ENOSPC);
	CHECK_EQ(bench_ctl(bench, "release id=a"), 0);
	CHECK_EQ(bench_ctl(bench, "release id=b"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=x pid=1 gpu=0:1 native=1"), 0);
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=1:1"), -ENOMEM);
}

/* A container finds no weight and starts without; a reservation is a promise and is kept or not made. */
TEST_ON(a_reservation_is_never_of_less_weight, bench_new("580.142"))
{
	bench_settings(bench, 1, 1);
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=0:1:0"), 0);
	CHECK_EQ(bench_ctl(bench, "reserve id=b gpu=0:1:19"), 0);
	CHECK_EQ(bench_ctl(bench, "reserve id=c gpu=0:1:2"), -EDQUOT);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=1 share=b share=a"), 0);
	CHECK(bench_is(bench, "0/b/weight", "19\n"));
	CHECK(bench_is(bench, "0/free_weight", "1\n"));
}

static void share_goes(struct bench *bench)
{
	bench->at_cgroup = NULL;
	CHECK_EQ(bench_ctl(bench, "release id=a"), 0);
	CHECK_EQ(bench_ctl(bench, "reserve id=x gpu=1:77"), 0);
}

static void rival_takes_the_share(struct bench *bench)
{
	bench->at_cgroup = NULL;
	CHECK_EQ(bench_ctl(bench, "create id=rival pid=2 share=x"), 0);
}

TEST_ON(checks_are_repeated_after_the_lock_was_open, bench_new("580.142"))
{
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=0:1048576"), 0);
	bench->at_cgroup = share_goes;
	CHECK_EQ(bench_ctl(bench, "create id=late pid=1 share=a"), -ENOENT);
	bench->at_cgroup = rival_takes_the_share;
	CHECK_EQ(bench_ctl(bench, "create id=late pid=1 share=x"), -EBUSY);
	CHECK_EQ(bench->core.state->containers, 1);
	CHECK(bench_is(bench, "1/reserved", "x 77 1 0 rival\n"));
}

static void driver_cleans_up(struct bench *bench)
{
	bench_orphans_gone(bench);
}

/* A container passes a descriptor on and ends, and its successor would get the memory once more. */
TEST_ON(orphaned_memory_is_not_given_again, bench_new("580.142"))
{
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=0:2097152"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=rest pid=2 gpu=0:15839789056"), 0); /* all but 1 MiB of the rest */
	CHECK_EQ(bench_ctl(bench, "create id=box pid=1 share=a"), 0);
	caller = bench_caller(bench, "box", 100);
	bench_cuda_start(bench, &caller, 0xc1);
	CHECK_EQ(bench_take(bench, &caller, 0xc1, 2, 2 * MIB), NV_OK);
	CHECK_EQ(bench_ctl(bench, "destroy id=box"), 0);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), 2 * MIB);
	CHECK_EQ(bench_ctl(bench, "create id=box pid=1 share=a"), -ENOMEM);
	CHECK(bench_is(bench, "0/reserved", "a 2097152 1 0 -\n"));
	CHECK_EQ(bench_ctl(bench, "release id=a"), 0);
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=0:2097152"), -ENOMEM);
	bench->at_orphans = driver_cleans_up;
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=0:2097152"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=box pid=1 share=a"), 0);
}

TEST_ON(cards_in_mig_mode_have_no_shares, bench_new("580.142"))
{
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=0:1048576"), 0);
	CHECK_EQ(cgpu_gpu_set_mig(&bench->core, 0, 1), 0);
	CHECK_EQ(bench_ctl(bench, "create id=box pid=1 share=a"), -EOPNOTSUPP);
	CHECK_EQ(bench_ctl(bench, "release id=a"), 0);
}

TEST_ON(other_writes_are_refused, bench_new("580.142"))
{
	CHECK_EQ(bench_write(bench, "0/reserved", "a 1 1 0 -"), -EACCES);
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=0:1048576"), 0);
	/* A card that has less memory than it promised is another card. */
	{
		struct cgpu_gpu_facts facts;

		CHECK_EQ(cgpu_gpu_facts(&bench->core, 0, &facts), 0);
		facts.memtotal = MIB - 1;
		CHECK_EQ(cgpu_gpu_add(&bench->core, &facts), -EINVAL);
	}
}
