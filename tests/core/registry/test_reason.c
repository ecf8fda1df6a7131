// SPDX-License-Identifier: Apache-2.0
/* The line that says why inst_ctl refused a line. */
#include "bench.h"

#define FIRST "0123456789abffffffffffffffffffffffffffffffffffffffffffffffffffff"
#define SECOND "0123456789ab0000000000000000000000000000000000000000000000000000"
#define REQUEST_LESS "request less, or stop a container (cgpu-smi lists them)"

static void check_refused(struct bench *bench, const char *line, int err, const char *why)
{
	CHECK_EQ(bench_ctl(bench, line), err);
	bench->why.text[strcspn(bench->why.text, "\n")] = 0;
	if (strcmp(bench->why.text, why) != 0)
		fprintf(stderr, "%s: \"%s\", not \"%s\"\n", line, bench->why.text, why);
	CHECK(strcmp(bench->why.text, why) == 0);
}

TEST_ON(a_container_is_refused_with_the_reason, bench_new("580.142"))
{
	check_refused(bench, "create id=a pid=1 gpu=7:1", -ENOENT, "no GPU 7 here; available: 0, 1");
	check_refused(bench, "create id=a pid=1 gpu=0:1 native=31", -ENOENT, "no GPU 31 here; available: 0, 1");
	check_refused(bench, "create id=a pid=1 gpu=32:1", -ENOENT, "there is no such GPU; available: 0, 1");
	check_refused(bench, "create id=a pid=1 gpu=0:1 native=32", -ENOENT, "there is no such GPU; available: 0, 1");
	check_refused(bench, "create id=a pid=1 gpu=0:1:21", -EINVAL,
		"weight 21: expected a whole number from 1 to 20 (max_inst of GPU 0)");
	check_refused(bench, "create id=policy pid=1 gpu=0:1", -EINVAL,
		"id policy is the name of an entry of the tree; choose another");
	check_refused(bench, "create id=a", -EINVAL,
		"the engine does not accept this line: expected create id=ID pid=PID, and "
		"gpu=" CGPU_SLICE_FORM " or share=ID; destroy id=ID; reserve id=ID gpu=...; or release id=ID");
	CHECK_EQ(bench_ctl(bench, "create id=" FIRST " pid=1 gpu=0:12673089536:4"), 0); /* 12086 MiB */
	check_refused(bench, "create id=" FIRST " pid=1 gpu=1:1", -EEXIST,
		"this id is already registered; a container is registered once");
	check_refused(bench, "create id=" SECOND " pid=1 gpu=1:1", -EEXIST,
		"container " FIRST " has the same first 12 characters; start this one under a new id");
	check_refused(bench, "create id=a pid=1 gpu=0:6336544768", -ENOMEM,
		"GPU 0 has 3023 MiB of 15109 MiB left, and 6043 MiB were requested; " REQUEST_LESS);
	check_refused(bench, "create id=a pid=1 gpu=0:1:17", -EDQUOT,
		"GPU 0 has weight 16 of 20 (max_inst) left, and 17 was requested; " REQUEST_LESS);
	CHECK_EQ(bench_write(bench, "0/max_inst", "4"), 0);
	CHECK_EQ(bench_write(bench, "1/max_inst", "1"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=1 gpu=1:1"), 0);
	check_refused(bench, "create id=a pid=1 gpu=1:1", -ENOSPC,
		"GPU 1 has no place left: containers and reservations have all 1 (max_inst); stop one, or raise max_inst");
}

TEST_ON(the_reason_names_the_state_of_a_gpu, bench_new("580.142"))
{
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1"), 0);
	check_refused(bench, "create id=b pid=1 gpu=1:1 native=0", -ENOMEM,
		"GPU 0 cannot be given whole (native): 1 container has slices of it; request a slice, or name another "
		"GPU");
	CHECK_EQ(bench_ctl(bench, "create id=b pid=1 gpu=0:1 native=1"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=c pid=1 gpu=0:1 native=1"), 0);
	check_refused(bench, "create id=d pid=1 gpu=1:1", -ENOMEM,
		"GPU 1 cannot be sliced: 2 containers have it whole; stop it, or name another GPU");
	CHECK_EQ(bench_ctl(bench, "destroy id=b") | bench_ctl(bench, "destroy id=c"), 0);
	CHECK_EQ(bench_ctl(bench, "reserve id=s gpu=1:1"), 0);
	check_refused(bench, "create id=b pid=1 gpu=0:1 native=1", -ENOMEM,
		"GPU 1 cannot be given whole (native): 1 of its places are reserved; request a slice, or name another "
		"GPU");
	CHECK_EQ(cgpu_gpu_set_mig(&bench->core, 1, 1), 0);
	check_refused(bench, "create id=b pid=1 gpu=1:1", -EOPNOTSUPP,
		"GPU 1 is in MIG mode and cannot be sliced; name another, or switch MIG off (nvidia-smi -mig 0)");
	CHECK_EQ(cgpu_gpu_set_lost(&bench->core, 1, 1), 0);
	check_refused(bench, "create id=b pid=1 share=s", -EIO,
		"GPU 1 is lost: the driver no longer reaches it (the lines of NVRM in dmesg say why); name another, or "
		"restart the machine");
}

TEST_ON(the_reason_may_be_the_process, bench_new("580.142"))
{
	bench->process_missing = 1;
	check_refused(bench, "create id=a pid=4711 gpu=0:1", -ESRCH,
		"there is no process 4711: it ended before it could be registered");
	bench->process_missing = 0;
	bench->unknown = "nothing tells its container";
	check_refused(bench, "create id=a pid=4711 gpu=0:1", -EINVAL, "nothing tells its container");
}

TEST_ON(a_share_is_refused_with_the_reason, bench_new("580.142"))
{
	check_refused(bench, "reserve id=s gpu=2:1", -ENOENT, "no GPU 2 here; available: 0, 1");
	check_refused(bench, "create id=a pid=1 share=s", -ENOENT,
		"share s is not reserved on this node; reserve it before the container starts");
	CHECK_EQ(bench_ctl(bench, "reserve id=s gpu=1:1048577:2:1"), 0);
	check_refused(bench, "reserve id=s gpu=0:1048577:2:1", -EEXIST,
		"it is reserved already: 1 MiB of GPU 1, memsize=1048577 weight=2 highprio=1; release it first");
	check_refused(bench, "reserve id=t gpu=1:1:19", -EDQUOT,
		"GPU 1 has weight 18 of 20 (max_inst) left, and 19 was requested; " REQUEST_LESS);
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 share=s"), 0);
	check_refused(bench, "create id=b pid=1 share=s", -EBUSY, "container a uses share s of GPU 1; end it first");
	check_refused(bench, "release id=s", -EBUSY, "container a uses share s of GPU 1; end it first");
}
