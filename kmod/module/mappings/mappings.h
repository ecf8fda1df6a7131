/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files that containers' memory is mapped by. NV_ESC_RM_MAP_MEMORY and NV_ESC_RM_ALLOC_MEMORY note in a file what mmap(2) of
 * it maps, for good: an address in the card's window BAR1, or the driver's pointer to memory of the host (nv_alloc_t). When
 * the memory is unmapped or freed, the driver takes back neither that note nor what is mapped of the window
 * (kernel-open/nvidia/nv-usermap.c, nv-mmap.c and os-usermap.c, 515 to 595): the file would map what is there next, as a rule
 * another container's memory. So the file ends with the memory: it is not mapped any more, and the window is unmapped.
 * What is mapped of the host's memory keeps that by itself.
 *
 * The driver names a mapping that it ends by its address alone, which a process may change to any. So such a change is
 * noted here and kept from the driver, which knows mappings by their places in the window for good; and calls on the
 * window come in the container's order, as its frees do.
 */
#ifndef CGPU_KM_MAPPINGS_H
#define CGPU_KM_MAPPINGS_H

#include <linux/fs.h>
#include <linux/mutex.h>
#include <linux/refcount.h>

#include "probes/files.h"
#include "probes/task_call.h"

struct mapping {
	struct hlist_node by_file, by_key, by_client_file;
	const struct file *file; /* not counted: its last close takes the mapping away, with the lock held */
	u64 key; /* of the host's memory, the driver's pointer to it; of the card's, its client */
	u64 window; /* where the card's memory begins in the window, as the driver names the mapping; 0: memory of the host */
	u64 bytes;
	u64 address; /* the same, or where the process says that it has mapped that */
	u32 memory; /* the handle */
	const void
		*client_file; /* the file that the client lives on, as the driver names it; NULL: memory of the host */
	/* Held around the driver's work on it: it does not end meanwhile. */
	struct mutex lock;
	const struct task_struct *worker; /* the task inside of the driver's function, which probes let through */
	bool ended, closed;
	const struct placing *placing; /* an mmap(2) that may not have given its process the addresses yet */
	refcount_t users;
	struct rcu_head rcu;
};

/* --- table.c --- */

#define MAPPING_ANY U64_MAX
/* Whether a file has a mapping, on which the current task is not at work. Any context. */
bool mapping_of_file(const struct file *file);
/* The same for the card's memory alone. */
bool mapping_of_card_file(const struct file *file);
/* Whether any is not ended, by its key. Any context. */
bool mapping_of_key(u64 key);
/* Counted references, or NULL; but for the first, only of those that are not ended. */
struct mapping *mapping_get(const struct file *file);
/* window: of its first page, or MAPPING_ANY. */
struct mapping *mapping_get_by_key(u64 key, u64 window);
/* One of those at that page of a client's, `rather` if that is among them. alike: they are of the same memory and length. */
struct mapping *mapping_get_by_window(u64 client, u64 window, const struct mapping *rather, bool *alike);
struct mapping *mapping_get_by_address(u64 client, u32 memory, u64 address);
struct mapping *mapping_get_by_client_file(const void *client_file);
void mapping_put(struct mapping *mapping);
/* Returns false where the file has one already. */
bool mapping_add(struct mapping *mapping);
/* Take it away, or only what finds it when its memory goes. */
void mapping_remove(struct mapping *mapping);
void mapping_note_ended(struct mapping *mapping);

/* --- end.c --- */

void mapping_end(struct mapping *mapping);
/* Take the window from all processes that have the file mapped, once it has ended. */
void mapping_unmap(struct mapping *mapping);

#endif
