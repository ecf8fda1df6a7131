/* SPDX-License-Identifier: GPL-2.0-only */
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
/* Find the allocators of these GPUs. Negative errno: one is not found, though its card is there. */
int km_pages_bind(struct km_engine *engine, u32 gpus);

/* For the core, see cgpu_ops. */
int km_pages_of(void *ctx, u32 gpu, u64 generation, u64 *bytes);
int km_pages_next(void *ctx, u32 gpu, u32 *cursor, struct cgpu_pages *pages);
void km_pages_limit(void *ctx, u32 gpu, u64 generation, u64 bytes, const char *id);
void km_pages_exit(void);

#endif
