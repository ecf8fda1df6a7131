/* SPDX-License-Identifier: GPL-2.0-only */
/* Between the files of this folder: keys of containers, by task and by registration. */
#ifndef CGPU_KM_RECORDS_H
#define CGPU_KM_RECORDS_H

#include "identity/identity.h"

/* --- tasks.c --- */

/* One key that a task of a container can be known by. */
struct identity_entry {
	struct hlist_node node;
	const void *key;
	u32 slot;
	u64 generation;
};
/* Under the control lock. An entry's memory is given back after an RCU grace period. */
void identity_entry_add(struct identity_entry *entry, const void *key, u32 slot, u64 generation);
void identity_entry_remove(struct identity_entry *entry);
/* The container that a task belongs to. Any context. */
bool identity_of(struct task_struct *task, struct km_identity *identity);

#endif
