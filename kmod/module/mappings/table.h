/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds mappings by their files, and by what ends them. Little of the kernel is needed: tests/module has it run on the host. */
#ifndef CGPU_KM_MAPPING_TABLE_H
#define CGPU_KM_MAPPING_TABLE_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/types.h>

struct file;
struct placing;
struct task_struct;

/* A mapping that has not ended is found by its file and by these; one of the host's memory by its key alone. */
enum mapping_way {
	MAPPING_BY_KEY,
	MAPPING_BY_WINDOW, /* client and page */
	MAPPING_BY_ADDRESS, /* client, memory and address */
	MAPPING_BY_CLIENT_FILE,
	MAPPING_WAYS,
};

/*
 * A container has as many mappings that are found by the same value as it likes, and they end one by one with the driver's locks. So
 * only the oldest of them is in the table, and the others are on its ring: no search passes more than the few values of a bucket.
 */
struct mapping_link {
	u64 value[2];
	struct hlist_node node;
	struct list_head ring;
};

struct mapping {
	struct hlist_node by_file;
	struct mapping_link links[MAPPING_WAYS];
	bool listed; /* by its links */
	bool mixed; /* of the oldest of its page: one of other memory or length has come there since the page had none */
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

/* Whether a file has a mapping, on which the current task is not at work. Any context. */
bool mapping_of_file(const struct file *file);
/* The same for the card's memory alone. */
bool mapping_of_card_file(const struct file *file);
/* Whether any is not ended, by its key. Any context. */
bool mapping_of_key(u64 key);
/* The same by client and page of the window. */
bool mapping_of_window(u64 client, u64 page);
/* Counted references, or NULL; but for the first, only of those that are not ended. */
struct mapping *mapping_get(const struct file *file);
struct mapping *mapping_get_by_key(u64 key);
/* One of those at that page of a client's, `rather` if that is among them. alike: they are of the same memory and length. */
struct mapping *mapping_get_by_window(u64 client, u64 page, struct mapping *rather, bool *alike);
struct mapping *mapping_get_by_address(u64 client, u32 memory, u64 address);
struct mapping *mapping_get_by_client_file(const void *client_file);
void mapping_put(struct mapping *mapping);
/* Note that the process has one at another address. Returns false where none is at the old one. */
bool mapping_move(u64 client, u32 memory, u64 from, u64 to);
/* Returns false where the file has one already. */
bool mapping_add(struct mapping *mapping);
/* Take it away, or only what finds it when its memory goes. */
void mapping_remove(struct mapping *mapping);
void mapping_note_ended(struct mapping *mapping);
void mapping_remove_all(void);

#endif
