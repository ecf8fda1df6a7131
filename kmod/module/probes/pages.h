/* SPDX-License-Identifier: GPL-2.0 */
/* Pages of the cards that the driver has given out for containers. */
#ifndef CGPU_KM_PAGES_H
#define CGPU_KM_PAGES_H

#include "identity/identity.h"

/* --- pages.c: the driver's page allocator --- */

/* Place the probes, before calls of containers are let in. A driver that hides its allocator is no error: then the ledger
 * decides alone. */
int km_pages_attach(void);
void km_pages_detach(void);
/* The driver is gone, or goes. */
void km_pages_clear(void);

/*
 * A container may be starting a card, and has or has not. In between and from then on, km_pages_unbound() says that the card's
 * allocator must be found, until it is. gpu: CGPU_MAX_GPUS for none.
 */
void km_pages_opening(u32 gpu);
void km_pages_opened(u32 gpu);
/* Bit n: the GPU n of the tree may have been started, and its allocator is not known. */
u32 km_pages_unbound(void);
/* Find the allocators of these. Negative errno: one is not found, though its card is there. */
int km_pages_bind(struct km_engine *engine, u32 gpus);

/* For the core, see cgpu_ops. */
int km_pages_of(void *ctx, u32 gpu, u64 generation, u64 *bytes);
int km_pages_next(void *ctx, u32 gpu, u32 *cursor, struct cgpu_pages *pages);
void km_pages_limit(void *ctx, u32 gpu, u64 generation, u64 bytes, const char *id);
void km_pages_exit(void);

/* --- page_counts.c: who has which page --- */

/* What was reserved for a call of the allocator, until it is known which pages that got. */
struct page_reservation {
	u32 gpu, owner;
	u64 bytes;
};
/* -ENOENT: nothing is counted here; -ENOMEM: it exceeds the container's limit. */
int page_reserve(const void *allocator, u64 generation, u64 bytes, struct page_reservation *reservation);
/* The allocator gave these: count runs of bytes at addresses, in 64 KiB. What is left of the reservation goes back. */
void page_settle(const struct page_reservation *reservation, const u64 *addresses, u64 count, u64 bytes);
/* They go back. Any context. */
void page_free(const void *allocator, const u64 *addresses, u64 count, u64 bytes);
/* Whether anybody has pages, so that their end is worth following. Any context. */
bool page_any(void);

/* -ENOMEM. */
int page_bind(u32 gpu, const void *allocator);
bool page_bound(u32 gpu);
/* The allocator ends, and all of it goes back. Returns the GPU; CGPU_MAX_GPUS: it was none that is known. Any context. */
u32 page_forget(const void *allocator);
void page_forget_all(void);

int page_limit(u32 gpu, u64 generation, u64 bytes, const char *id);
u64 page_bytes(u32 gpu, u64 generation);
int page_next(u32 gpu, u32 *cursor, struct cgpu_pages *pages);
void page_counts_exit(void);

#endif
