/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * How much of the card an allocation of video memory takes, as the driver rounds it.
 *
 * 1. Page size of a client's allocation (memmgrDeterminePageSize and _memmgrPickDefaultGpuPageSize,
 *    src/nvidia/src/kernel/gpu/mem_mgr/mem_mgr.c; dmaNvos32ToPageSizeAttr, src/nvidia/src/kernel/mem_mgr/mem.c):
 *      ATTR.PAGE_SIZE 4KB                  4 KiB
 *      ATTR.PAGE_SIZE BIG                  64 KiB
 *      ATTR.PAGE_SIZE HUGE                 by ATTR2.PAGE_SIZE_HUGE: default and 2MB 2 MiB, 512 MiB, 256 GiB
 *      ATTR.PAGE_SIZE DEFAULT              2 MiB for 2 MiB and more, else 64 KiB
 *    A client never gets 4 KiB pages unless it asks for them.
 * 2. The size is rounded up to whole pages, and that is what comes back in the size field.
 * 3. The physical memory manager hands out 64 KiB at least, so an allocation in 4 KiB pages takes whole
 *    64 KiB (_vidmemPmaAllocate, src/nvidia/src/kernel/mem_mgr/video_mem.c).
 * 4. At a fixed address, with a requested alignment above the page size, whole multiples of that alignment
 *    are taken (same function).
 *
 * So the charge is the size rounded up to the page size, to 64 KiB at least, and in case 4 to the alignment.
 * Compression can make the driver round more; the charge follows the size that comes back.
 *
 * Compared in 515.43.04, 535.43.02, 550.40.07, 570.86.15, 580.142 and 595.45.04: the same in all, but for pages of 256 GiB.
 * A version without them takes that for the default; here it is refused for want of room.
 */
#ifndef CGPU_PAGE_SIZE_H
#define CGPU_PAGE_SIZE_H

#include "cgpu_types.h"

#define CORE_PAGE_64K (64ull << 10)
#define CORE_PAGE_2M (2ull << 20)

struct core_alloc_shape {
	u64 size; /* bytes, as asked */
	u64 alignment;
	u32 flags; /* NVOS32_ALLOC_FLAGS_* */
	u32 attr, attr2; /* NVOS32_ATTR_*, NVOS32_ATTR2_* */
};

/* Bytes that a charge for this request is a multiple of; 0 when the driver would call it invalid. */
u64 core_charge_unit(const struct core_alloc_shape *shape);
/* Round up to a multiple of unit. Sizes too large for that become the largest number. */
u64 core_round_up(u64 size, u64 unit);

#endif
