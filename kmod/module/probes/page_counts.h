/* SPDX-License-Identifier: GPL-2.0-only */
/* Owners of a card's pages. Little of the kernel is needed: tests/module has it run on the host. */
#ifndef CGPU_KM_PAGE_COUNTS_H
#define CGPU_KM_PAGE_COUNTS_H

#include <linux/types.h>

#include "cgpu_core.h"

/* Bytes reserved for a call of the allocator, until it is known which pages that got. */
struct page_reservation {
	u32 gpu, owner;
	u64 bytes;
};
/* -ENOENT: nothing is counted here; -ENOMEM: it exceeds the container's limit. */
int page_reserve(const void *allocator, u64 generation, u64 bytes, struct page_reservation *reservation);
/* Note pages that the allocator gave: count runs of bytes at addresses, in 64 KiB. The rest of the reservation goes
 * back. */
void page_settle(const struct page_reservation *reservation, const u64 *addresses, u64 count, u64 bytes);
/* Note pages that go back to the allocator. Any context. */
void page_free(const void *allocator, const u64 *addresses, u64 count, u64 bytes);
/* Whether anybody has pages, so that their end is worth following. Any context. */
bool page_any(void);

/* -ENOMEM. */
int page_bind(u32 gpu, const void *allocator);
bool page_bound(u32 gpu);
/* The allocator ends, and all of it goes back. Returns the GPU; CGPU_MAX_GPUS: it was none that is known. Any context. */
u32 page_forget(const void *allocator);
void page_forget_all(void);

/* As ops->pages_limit of the core, one call after the other. -ENOMEM; -ENOSPC: no number is free. */
int page_limit(u32 gpu, u64 generation, u64 bytes, const char *id);
u64 page_bytes(u32 gpu, u64 generation);
/* As ops->pages_next. */
int page_next(u32 gpu, u32 *cursor, struct cgpu_pages *pages);
void page_counts_exit(void);

#endif
