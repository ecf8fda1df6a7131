/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of charges share: one container with a slice, and how it allocates. */
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

static inline long take(struct bench *bench, const struct caller *caller, u32 object, u64 size)
{
	return bench_take(bench, caller, FIRST, object, size, PAGE_BIG);
}

#endif
