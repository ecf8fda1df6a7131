// SPDX-License-Identifier: Apache-2.0
/* Classes by the table of what was judged of them. */
#include "slices.h"

#define UNKNOWN 0x7fffu

TEST(the_table_is_sorted_and_whole)
{
	u32 i;

	for (i = 0; i < nv_class_count; i++) {
		const struct nv_class *class = &nv_classes[i];

		CHECK(i == 0 || nv_classes[i - 1].id < class->id);
		CHECK(class->verdict != NV_CLASS_UNKNOWN);
		CHECK_EQ(class->verdict == NV_CLASS_JUDGE, class->by != NV_CLASS_BY_NOBODY);
		CHECK_EQ(class->verdict == NV_CLASS_PASS, class->status == NV_OK);
	}
	CHECK(nv_class_count > 280);
}

TEST_ON(classes_have_the_verdict_of_the_table, started("580.142", &caller))
{
	u32 i, refused = 0;

	for (i = 0; i < nv_class_count; i++) {
		long came = bench_class(bench, &caller, nv_classes[i].id);

		CHECK(nv_classes[i].verdict != NV_CLASS_PASS || came == CONTINUED);
		CHECK(nv_classes[i].verdict != NV_CLASS_REFUSE || came == (long)nv_classes[i].status);
		refused += nv_classes[i].verdict == NV_CLASS_REFUSE;
	}
	CHECK(refused > 140);
}

static void call_older(struct bench *bench, const struct caller *caller, u32 class, long *memory, long *object)
{
	memset(bench->top, 0, sizeof(bench->top));
	put32(bench->top, 12, class);
	*memory = bench_call(bench, caller, NV_ESC_RM_ALLOC_MEMORY, 56);
	*object = bench_call(bench, caller, NV_ESC_RM_ALLOC_OBJECT, 20);
}

/* The older calls refuse what the newer call refuses. */
TEST_ON(older_calls_have_the_same_verdicts, started("580.142", &caller))
{
	long memory, object;
	u32 i;

	for (i = 0; i < nv_class_count; i++) {
		call_older(bench, &caller, nv_classes[i].id, &memory, &object);
		if (nv_classes[i].verdict == NV_CLASS_REFUSE) {
			CHECK_EQ(memory, nv_classes[i].status);
			CHECK(object == (long)nv_classes[i].status || object == NV_ERR_INVALID_CLASS);
		} else if (nv_classes[i].verdict == NV_CLASS_JUDGE) {
			CHECK_EQ(memory,
				nv_classes[i].by == NV_CLASS_BY_HOST || nv_classes[i].by == NV_CLASS_BY_RANGE ?
					CONTINUED :
					nv_classes[i].status);
			CHECK_EQ(object == CONTINUED, nv_classes[i].by == NV_CLASS_BY_ROOT);
		} else {
			CHECK_EQ(memory, CONTINUED);
			CHECK_EQ(object,
				nv_classes[i].id == NV01_MEMORY_SYSTEM_OS_DESCRIPTOR ? NV_ERR_INVALID_CLASS :
										       CONTINUED);
		}
	}
	call_older(bench, &caller, UNKNOWN, &memory, &object);
	CHECK_EQ(memory, NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_EQ(object, NV_ERR_INVALID_CLASS);
}

TEST_ON(enforcement_that_is_off_lets_all_go_on, started("580.142", &caller))
{
	bench_settings(bench, 0, 0);
	CHECK_EQ(bench_class(bench, &caller, GF100_PROFILER), CONTINUED);
	CHECK_EQ(bench_class(bench, &caller, UNKNOWN), CONTINUED);
}

/* A container that has a whole GPU too has no more of the node's classes. */
TEST_ON(a_whole_gpu_is_no_reason, bench_new("580.142"))
{
	static const u32 classes[] = { GF100_PROFILER, MAXWELL_PROFILER_DEVICE, NV01_TIMER, FABRIC_MANAGER_SESSION,
		NV0020_GPU_MANAGEMENT, ACCESS_COUNTER_NOTIFY_BUFFER, NV04_SOFTWARE_TEST, AMPERE_SMC_CONFIG_SESSION };
	u32 i;

	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:6336544768 native=1"), 0);
	caller = bench_caller(bench, "a", 100);
	bench_cuda_start(bench, &caller, FIRST);
	for (i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		CHECK_EQ(bench_class(bench, &caller, classes[i]), NV_ERR_INSUFFICIENT_PERMISSIONS);
}
