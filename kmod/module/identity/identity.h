/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Between identity.c, which finds a task's container, holders.c, which has what is registered, and expected.c, which
 * has registrations without a process.
 */
#ifndef CGPU_KM_IDENTITY_H
#define CGPU_KM_IDENTITY_H

#include <linux/list.h>

#include "km.h"

/* --- identity.c --- */

/* One thing that a task of a container can be known by. */
struct identity_entry {
	struct hlist_node node;
	const void *key;
	u32 slot;
	u64 generation;
};
/* Under holders_lock. An entry's memory is given back after an RCU grace period. */
void identity_entry_add(struct identity_entry *entry, const void *key, u32 slot, u64 generation);
void identity_entry_remove(struct identity_entry *entry);
/* The container that a task belongs to. Any context. */
bool identity_of(struct task_struct *task, struct km_identity *identity);

/* --- holders.c --- */

/* Of holders and expectations. Inside of the control lock, or without that: a node of the tree is opened without. */
extern struct mutex holders_lock;
/* Whether a registration still stands. Under the control lock. */
bool container_registered(struct km_engine *engine, u32 slot, u64 generation);
/* Make the current task's keys count for a registration without a process, and take them over. Under holders_lock. */
int holder_start_named(struct km_keys *keys, u32 slot, u64 generation, const char *id);
/* What was found by a name counts for the newest registration of that name. Under holders_lock. */
int holders_renew(u32 slot, u64 generation, const char *id);

/* --- expected.c: all under holders_lock, but for the first --- */

/* Whether there is any. */
bool expected_any(void);
/* 0, or -ENOMEM: the current task's container could not be found out. */
int expected_find_current(void);
/* Drop those whose registration has gone. Under the control lock too. */
void expected_sweep(struct km_engine *engine);
void expected_exit(void);

#endif
