/* SPDX-License-Identifier: GPL-2.0 */
/* Between the files of this folder: what tells containers, by task, by registration and by name. */
#ifndef CGPU_KM_RECORDS_H
#define CGPU_KM_RECORDS_H

#include "identity/identity.h"

/* --- tasks.c --- */

/* One thing that a task of a container can be known by. */
struct identity_entry {
	struct hlist_node node;
	const void *key;
	u32 slot;
	u64 generation;
};
/* Under identity_lock. An entry's memory is given back after an RCU grace period. */
void identity_entry_add(struct identity_entry *entry, const void *key, u32 slot, u64 generation);
void identity_entry_remove(struct identity_entry *entry);
bool identity_entries_any(void);
/* The container that a task belongs to. Any context. */
bool identity_of(struct task_struct *task, struct km_identity *identity);

/* --- records.c --- */

/* Of identity records and expected registrations: the control lock is not taken where a file of the tree is opened. */
extern struct mutex identity_lock;
/* Whether a registration still stands. Under the control lock. */
bool container_registered(struct km_engine *engine, u32 slot, u64 generation);
/* Make the current task's keys count for a registration without a process, and take them over. Under identity_lock. */
int record_start_named(struct km_keys *keys, u32 slot, u64 generation, const char *id);
/* What was found by a name counts for the newest registration of that name. Under identity_lock. */
int records_renew(u32 slot, u64 generation, const char *id);
/* Drop the records whose processes are gone. Returns whether any is left. Under both locks. */
bool records_sweep(struct km_engine *engine);
/* Drop all. Under identity_lock. */
void records_exit(void);

/* --- by_name.c: all under identity_lock, but for the first --- */

/* Whether there is any. */
bool expected_any(void);
/* 0, or -ENOMEM: the current task's container could not be found out. */
int expected_find_current(void);
/* Drop those whose registration has gone. Under the control lock too. */
void expected_sweep(struct km_engine *engine);
void expected_exit(void);

#endif
