// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
#include "lib/page_size.h"
#include "nv_abi.h"

static u64 page_size(const struct core_alloc_shape *shape)
{
	u32 page = (shape->attr >> NVOS32_ATTR_PAGE_SIZE_SHIFT) & NVOS32_ATTR_PAGE_SIZE_MASK;
	u32 huge = (shape->attr2 >> NVOS32_ATTR2_PAGE_SIZE_HUGE_SHIFT) & NVOS32_ATTR2_PAGE_SIZE_HUGE_MASK;

	if (page == NVOS32_ATTR_PAGE_SIZE_DEFAULT)
		return shape->size >= CORE_PAGE_2M ? CORE_PAGE_2M : CORE_PAGE_64K;
	/* 4 KiB pages come from 64 KiB of physical memory. */
	if (page != NVOS32_ATTR_PAGE_SIZE_HUGE)
		return CORE_PAGE_64K;
	if (huge == NVOS32_ATTR2_PAGE_SIZE_HUGE_512MB)
		return 512ull << 20;
	if (huge == NVOS32_ATTR2_PAGE_SIZE_HUGE_256GB)
		return 256ull << 30;
	return CORE_PAGE_2M;
}

u64 core_charge_unit(const struct core_alloc_shape *shape)
{
	u64 page = page_size(shape);
	u64 align = shape->alignment;

	if (!(shape->flags & NVOS32_ALLOC_FLAGS_FIXED_ADDRESS_ALLOCATE))
		return page;
	if (!(shape->flags & (NVOS32_ALLOC_FLAGS_ALIGNMENT_HINT | NVOS32_ALLOC_FLAGS_ALIGNMENT_FORCE)))
		return page;
	if (align <= page)
		return page;
	return align & (align - 1) ? 0 : align;
}

u64 core_round_up(u64 size, u64 unit)
{
	u64 over = size % unit;

	if (over == 0)
		return size;
	if (size > ~0ull - (unit - over))
		return ~0ull;
	return size + (unit - over);
}
