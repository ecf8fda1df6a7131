/* SPDX-License-Identifier: GPL-2.0-only */
/* A fake copy engine: it does enough of UVM's work that UVM need not wait for ever. */
#ifndef COPY_ENGINE_H
#define COPY_ENGINE_H

#include <linux/types.h>

#define FIELD(value, name) ((value) >> GSP_##name##_SHIFT & GSP_##name##_MASK)

/* State that methods have set in a channel. */
struct copy_state {
	u32 host_address[2], host_payload[2]; /* low, high */
	u32 copy_address[2], copy_payload;
};

/* copy_engine.c: where the processors have memory that UVM knows by an address of the card; NULL: nowhere. Locked. */
void *copy_memory_at(u64 address, u32 bytes);
/* copy_methods.c: does what a pushbuffer says. False: it waits for a semaphore, and is to be begun anew later. */
bool copy_run(struct copy_state *state, const u32 *words, u32 count);

#endif
