// SPDX-License-Identifier: Apache-2.0
/* inst_ctl: its grammar, its errors, and its registrations. */
#include "bench.h"

/* Grammar that tests/conformance does not write: it has the rest. */
TEST_ON(grammar_is_strict, bench_new("580.142"))
{
	static const char *const bad[] = { "", "create id=a pid=1 gpu=:1", "create id=a pid=2147483648 gpu=0:1",
		"create id=uuid pid=1 gpu=0:1", "create id=a pid=1 gpu=0:1:1:2",
		"create id=a pid=1 gpu=0:1234567890123456", NULL };
	char long_id[CGPU_ID_BYTES + 32];
	int i;

	for (i = 0; bad[i]; i++) {
		if (bench_ctl(bench, bad[i]) != -EINVAL)
			fprintf(stderr, "accepted: %s\n", bad[i]);
		CHECK_EQ(bench_ctl(bench, bad[i]), -EINVAL);
	}
	snprintf(long_id, sizeof(long_id), "destroy id=%0128d", 1);
	CHECK_EQ(bench_ctl(bench, long_id), -EINVAL);
	CHECK_EQ(cgpu_inst_ctl(&bench->core, "destroy id=a\0b", 14, NULL), -EINVAL);
	CHECK_EQ(bench->core.state->containers, 0);
}

TEST_ON(errors_come_in_order, bench_new("580.142"))
{
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=9:1"), -ENOENT);
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=99999:1"), -ENOENT);
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1:21"), -EINVAL);
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1:0"), -EINVAL);
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:15842934784"), 0); /* one byte too much is 15109 MiB + 1 */
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=1:1"), -EEXIST);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=1 gpu=0:99999999999"), -ENOMEM);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=1 gpu=1:15842934785"), -ENOMEM);
	CHECK_EQ(bench_write(bench, "1/max_inst", "1"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=1 gpu=1:1"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=c pid=1 gpu=1:999999999999"), -ENOSPC);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=1 gpu=1:999999999999"), -EEXIST);
	bench->process_missing = 1;
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=c pid=1 gpu=0:1:20"), -ESRCH);
	CHECK(bench_is(bench, "0/policy", "1\n"));
	bench->process_missing = 0;
	CHECK_EQ(bench_ctl(bench, "create id=c pid=1 gpu=0:1:20"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=d pid=1 gpu=0:1"), -EDQUOT);
	CHECK_EQ(bench_ctl(bench, "create id=d pid=1 gpu=0:1 gpu=1:1"), -ENOSPC);
}

static void rival_registers(struct bench *bench)
{
	bench->at_cgroup = NULL;
	CHECK_EQ(bench_ctl(bench, "create id=rival pid=2 gpu=0:15842934784"), 0);
}

TEST_ON(checks_are_repeated_after_the_lock_was_open, bench_new("580.142"))
{
	bench->at_cgroup = rival_registers;
	CHECK_EQ(bench_ctl(bench, "create id=late pid=1 gpu=0:1"), -ENOMEM);
	CHECK_EQ(bench->core.state->containers, 1);
}

TEST_ON(zero_weight_is_a_setting, bench_new("580.142"))
{
	bench_settings(bench, 1, 1);
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1:0"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=1 gpu=0:1:19"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=c pid=1 gpu=0:1:2"), 0);
	CHECK(bench_is(bench, "0/a/weight", "0\n"));
	CHECK(bench_is(bench, "0/c/weight", "0\n"));
	CHECK(bench_is(bench, "0/free_weight", "1\n"));
}

TEST_ON(instance_numbers_are_reused_lowest_first, bench_new("580.142"))
{
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=1 gpu=0:1"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=c pid=1 gpu=0:1"), 0);
	CHECK_EQ(bench_ctl(bench, "destroy id=b"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=d pid=1 gpu=0:1"), 0);
	CHECK(bench_is(bench, "0/d/id", "1\n"));
	CHECK(bench_is(bench, "0/c/id", "2\n"));
}
