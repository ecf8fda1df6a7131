/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the tests of charges: one container with a slice, and how it allocates. */
#ifndef CGPU_TEST_SLICES_H
#define CGPU_TEST_SLICES_H

#include "bench.h"

#define PAGE_BIG (NVOS32_ATTR_PAGE_SIZE_BIG << NVOS32_ATTR_PAGE_SIZE_SHIFT)
#define SLICE (6043 * MIB)
#define FIRST 0xc1
#define SECOND 0xc2
#define FILE_OF_EXPORT 7

/* Container a with a slice of GPU 0, and its process 100. */
static inline struct bench *sliced(const char *driver, struct caller *caller)
{
	struct bench *bench = bench_new(driver);

	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:6336544768"), 0);
	*caller = bench_caller(bench, "a", 100);
	return bench;
}

/* The same with client FIRST. */
static inline struct bench *started(const char *driver, struct caller *caller)
{
	struct bench *bench = sliced(driver, caller);

	bench_cuda_start(bench, caller, FIRST);
	return bench;
}

/* The same where the transport knows the open files, of which one is for exports. */
static inline struct bench *with_files(struct caller *caller)
{
	struct bench *bench = sliced("580.142", caller);

	caller->file = 1;
	bench->target = FILE_OF_EXPORT;
	bench_cuda_start(bench, caller, FIRST);
	return bench;
}

/* Container b beside it, with its process 200, a file and client SECOND. */
static inline struct caller neighbour(struct bench *bench)
{
	struct caller other;

	CHECK_EQ(bench_ctl(bench, "create id=b pid=2 gpu=0:1073741824"), 0);
	other = bench_caller(bench, "b", 200);
	other.file = 2;
	bench_cuda_start(bench, &other, SECOND);
	return other;
}

/* Container a ends, also while a call of it is under way. */
static inline void end_container(struct bench *bench)
{
	bench->at_execute = NULL;
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
}

/* Request of UVM to keep memory of client FIRST. */
static inline struct cgpu_reference_request named(const struct caller *caller, u32 handle)
{
	return (struct cgpu_reference_request){
		.slot = caller->slot, .generation = caller->generation, .tgid = 100, .client = FIRST, .handle = handle
	};
}

static inline long take(struct bench *bench, const struct caller *caller, u32 object, u64 size)
{
	return bench_take(bench, caller, FIRST, object, size);
}

#endif
