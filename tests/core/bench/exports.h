/* SPDX-License-Identifier: Apache-2.0 */
/* What the test programs of exports share: a container with memory to export, and the file that it is exported on. */
#ifndef CGPU_TEST_EXPORTS_BENCH_H
#define CGPU_TEST_EXPORTS_BENCH_H

#include "bench.h"

#define FIRST 0xc1
#define FILE_OF_EXPORT 7

static inline struct bench *sliced(struct caller *caller)
{
	struct bench *bench = bench_new("580.142");

	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:6336544768"), 0);
	*caller = bench_caller(bench, "a", 100);
	caller->file = 1;
	bench->target = FILE_OF_EXPORT;
	bench_cuda_start(bench, caller, FIRST);
	return bench;
}

static inline long take(struct bench *bench, const struct caller *caller, u32 object, u64 size)
{
	struct memory_ask ask = { .client = FIRST, .parent = 0xd0, .object = object, .size = size, .attr = 2u << 23 };

	return bench_vidmem(bench, caller, 1, &ask);
}

#endif
