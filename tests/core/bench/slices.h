/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of charges share: one container with a slice, and how it allocates. */
#ifndef CGPU_TEST_SLICE_BENCH_H
#define CGPU_TEST_SLICE_BENCH_H

#include "bench.h"

#define PAGE_BIG (NVOS32_ATTR_PAGE_SIZE_BIG << NVOS32_ATTR_PAGE_SIZE_SHIFT)
#define SLICE (6043 * MIB)

static inline struct bench *sliced(const char *driver, struct caller *caller)
{
	struct bench *bench = bench_new(driver);

	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:6336544768"), 0);
	*caller = bench_caller(bench, "a", 100);
	return bench;
}

static inline long take(struct bench *bench, const struct caller *caller, u32 object, u64 size, u32 attr)
{
	return bench_take(bench, caller, 0xc1, object, size, attr);
}

#endif
