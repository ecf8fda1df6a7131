// SPDX-License-Identifier: Apache-2.0
/* Reservations: a share's part of a card, with and without a container that uses it. */
#include "bench.h"

TEST_ON(errors_come_in_order, bench_new("580.142"))
{
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=9:1"), -ENOENT);
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=99999:1:25"), -ENOENT);
	CHECK_EQ(cgpu_gpu_set_mig(&bench->core, 1, 1), 0);
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=1:1:21"), -EOPNOTSUPP);
	CHECK_EQ(cgpu_gpu_set_mig(&bench->core, 1, 0), 0);
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=1:1:21"), -EINVAL);
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=1:1:0"), -EINVAL);
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
	bench->at_orphans = bench_orphans_gone;
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=0:2097152"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=box pid=1 share=a"), 0);
}

TEST_ON(cards_in_mig_mode_have_no_shares, bench_new("580.142"))
{
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=0:1048576"), 0);
	CHECK_EQ(cgpu_gpu_set_mig(&bench->core, 0, 1), 0);
	CHECK_EQ(bench_ctl(bench, "reserve id=a gpu=0:1048576"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=box pid=1 share=a"), -EOPNOTSUPP);
	CHECK_EQ(bench_ctl(bench, "release id=a"), 0);
}
