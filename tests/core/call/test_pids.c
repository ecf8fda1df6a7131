// SPDX-License-Identifier: Apache-2.0
/* Processes that a container may list. */
#include "bench.h"

#define OWN 100
#define FORKED 101
#define OTHER 200
#define ENDED 300
#define INSIDE 7 /* the number of OWN in its namespace */

static struct caller self;

/* Two processes of one container, and one of another. */
static struct bench *with_processes(const char *driver)
{
	struct bench *bench = bench_new(driver);
	struct caller other;

	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1073741824"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=2 gpu=0:1073741824"), 0);
	self = bench_caller(bench, "a", FORKED);
	bench_cuda_start(bench, &self, 0xc2);
	self = bench_caller(bench, "a", OWN);
	bench_cuda_start(bench, &self, 0xc1);
	other = bench_caller(bench, "b", OTHER);
	bench_cuda_start(bench, &other, 0xc3);
	return bench;
}

static long control(struct bench *bench, u32 cmd, u32 bytes)
{
	return bench_control(bench, &self, 0xc1, 0xd1, cmd, bytes);
}

static int tells(struct bench *bench, u32 pid);

/* The driver's answer is in the buffer from the start. */
static long list(struct bench *bench, const u32 *pids, u32 count, u32 said)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_PIDS_PARAMS *at = &bench->core.abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS;
	u8 *params = bench->segment[0];
	u32 i;

	memset(params, 0, at->bytes);
	for (i = 0; i < count; i++)
		put32(params, at->pidTbl + 4 * i, pids[i]);
	put32(params, at->pidTblCount, said);
	return control(bench, NV2080_CTRL_CMD_GPU_GET_PIDS, at->bytes);
}

static u32 listed(struct bench *bench, u32 index)
{
	return get32(bench->segment[0], bench->core.abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS.pidTbl + 4 * index);
}

static u32 count_of(struct bench *bench)
{
	return get32(bench->segment[0], bench->core.abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS.pidTblCount);
}

static s32 numbers(void *ctx, s32 number)
{
	(void)ctx;
	return number == INSIDE ? OWN : number == INSIDE + 1 ? OTHER : 0;
}

TEST_ON(a_list_has_the_containers_own, with_processes("535.104.05"))
{
	static const u32 pids[] = { OTHER, FORKED, 0, ENDED, OWN, 0xffffffff };
	u32 i;

	CHECK_EQ(list(bench, pids, 6, 6), NV_OK);
	CHECK_EQ(bench->verdict, CGPU_EXECUTE);
	CHECK_EQ(count_of(bench), 2);
	CHECK_EQ(listed(bench, 0), FORKED);
	CHECK_EQ(listed(bench, 1), OWN);
	for (i = 2; i < 950; i++)
		CHECK_EQ(listed(bench, i), 0);
	/* A count beyond the table. */
	CHECK_EQ(list(bench, pids, 6, 0xffffffff), NV_OK);
	CHECK_EQ(count_of(bench), 2);
	bench_settings(bench, 0, 0);
	CHECK_EQ(list(bench, pids, 6, 6), NV_OK);
	CHECK_EQ(count_of(bench), 6);
}

/* The process with the number OWN has ended, and another container's, or the host's, has got it. */
static int only_forked(void *ctx, s32 tgid, u32 slot, u64 generation)
{
	const struct bench *bench = ctx;

	CHECK_EQ(bench->locked, 0);
	CHECK(slot == self.slot && generation == self.generation);
	return tgid == FORKED;
}

TEST_ON(a_number_that_another_process_has_got_tells_nothing, with_processes("525.147.05"))
{
	static const u32 pids[] = { OWN, OTHER, FORKED };

	bench->ops.process_in = only_forked;
	CHECK_EQ(list(bench, pids, 3, 3), NV_OK);
	CHECK_EQ(count_of(bench), 1);
	CHECK_EQ(listed(bench, 0), FORKED);
	CHECK_EQ(listed(bench, 1), 0);
	CHECK_EQ(tells(bench, OWN), 0);
	CHECK_EQ(tells(bench, OTHER), 0);
	CHECK_EQ(tells(bench, FORKED), 1);
}

TEST_ON(numbers_of_the_caller_are_understood, with_processes("535.113.01"))
{
	static const u32 pids[] = { INSIDE + 1, INSIDE, INSIDE + 2, OWN };

	bench->ops.process_of = numbers;
	CHECK_EQ(list(bench, pids, 4, 4), NV_OK);
	CHECK_EQ(count_of(bench), 1);
	CHECK_EQ(listed(bench, 0), INSIDE);
	/* Without this callback the engine cannot ask: the driver has left out what the caller cannot see. */
	bench->ops.process_of = NULL;
	CHECK_EQ(list(bench, pids, 4, 4), 0x10000);
	CHECK_EQ(count_of(bench), 4);
}

/* Whether the caller gets figures for a number, which the driver takes for the host's. */
static int tells(struct bench *bench, u32 pid)
{
	const struct nv_abi *abi = bench->core.abi;
	const struct nv_layout_NV2080_CTRL_GPU_PID_INFO *at = &abi->NV2080_CTRL_GPU_PID_INFO;
	u8 *params = bench->segment[0], *entry = params + abi->NV2080_CTRL_GPU_GET_PID_INFO_PARAMS.pidInfoList;

	u64 told;
	u32 i;

	memset(params, 0x11, abi->NV2080_CTRL_GPU_GET_PID_INFO_PARAMS.bytes);
	put32(entry, at->pid, pid);
	put32(entry + at->bytes, at->pid, ENDED);
	put32(entry + 2 * at->bytes, at->pid, pid);
	CHECK_EQ(control(bench, NV2080_CTRL_CMD_GPU_GET_PID_INFO, abi->NV2080_CTRL_GPU_GET_PID_INFO_PARAMS.bytes),
		NV_OK);
	told = get64(entry, at->data_vidMemUsage_memPrivate);
	CHECK(told == 0 || told == 0x1111111111111111ull);
	/* All of its figures, and of each entry; other fields stay. */
	for (i = 0; i < 3; i++, entry += at->bytes) {
		CHECK_EQ(get64(entry, at->data_vidMemUsage_memPrivate), i == 1 ? 0 : told);
		CHECK_EQ(get64(entry, at->data_vidMemUsage_memSharedDuped), i == 1 ? 0 : told);
		CHECK_EQ(get32(entry, at->result), 0x11111111);
		CHECK_EQ(get32(entry, at->smcSubscription_gpuInstanceId), 0x11111111);
	}
	return told != 0;
}

TEST(memory_is_asked_by_the_hosts_number_until_560)
{
	static const char *const drivers[] = { "535.261.03", "560.35.03", "565.57.01" };
	struct bench *bench;
	u32 i;

	for (i = 0; i < 3; i++) {
		bench = with_processes(drivers[i]);
		bench->ops.process_of = numbers;
		CHECK_EQ(tells(bench, OWN), i < 2);
		CHECK_EQ(tells(bench, OTHER), 0);
		CHECK_EQ(tells(bench, INSIDE), i == 2);
		/* Run by another process the numbers still are the host's, or mean nothing. */
		bench->ops.process_of = NULL;
		if (i < 2)
			CHECK_EQ(tells(bench, OTHER), 0);
		bench_free(bench);
	}
}

TEST_ON(what_cannot_be_told_apart_is_not_told, with_processes("535.104.05"))
{
	CHECK_EQ(control(bench, NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2, 34000), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(control(bench, NV0000_CTRL_CMD_GPUACCT_GET_ACCOUNTING_PIDS, 16012), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(control(bench, NV0000_CTRL_CMD_GPUACCT_GET_PROC_ACCOUNTING_INFO, 48), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(control(bench, NV0000_CTRL_CMD_GPUACCT_GET_PROC_ACCOUNTING_INFO_V2, 64), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(control(bench, NV0000_CTRL_CMD_GPUACCT_GET_ACCOUNTING_STATE, 12), 0x10000);
	bench_free(bench);
	/* From here on it translates the numbers of GET_PIDS, but not those of samples. */
	bench = with_processes("535.113.01");
	CHECK_EQ(control(bench, NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2, 34000), NV_ERR_NOT_SUPPORTED);
	bench_free(bench);
	bench = with_processes("570.86.15");
	CHECK_EQ(control(bench, NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2, 34000), 0x10000);
}
