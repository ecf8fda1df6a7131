/* SPDX-License-Identifier: GPL-2.0-only */
/* Identities of callers: tasks, and the containers that they belong to. */
#ifndef CGPU_KM_IDENTITY_H
#define CGPU_KM_IDENTITY_H

#include "engine/engine.h"

struct km_identity {
	u32 slot;
	u64 generation;
};

/* --- tasks.c --- */

/* The container that the current task belongs to. Any context. */
bool km_identity_of_current(struct km_identity *identity);
/* Whether a process, by its number in the first namespace, is none outside of containers. */
bool km_identity_of_process(s32 tgid);
/* For the core, see cgpu_ops. */
s32 km_process_of(void *ctx, s32 number);
int km_process_in(void *ctx, s32 tgid, u32 slot, u64 generation);

/* Whether any container has an identity, or processes left after its removal. */
bool km_identity_any(void);

/* --- records.c: registration of a process, in three steps under the control lock --- */

/* Find the keys of a container's tasks; then either make them count for a container, or forget them. An error may
 * leave the reason in cgroup, for the user. */
int km_identity_prepare(s32 pid, char *cgroup, size_t bytes);
int km_identity_commit(u32 slot, u64 generation, const char *id);
void km_identity_forget(void);
/* Identities whose container was removed and that have no process left go; containers whose processes have gone are
 * removed. Under the control lock. Returns 0 when no identity is left. */
u32 km_identity_sweep(struct km_engine *engine);
void km_identity_exit(void);

/* --- cgroups.c: cgroups and namespaces that tell a task's container --- */

#define KM_KEYS 8u
struct km_keys {
	u32 count;
	struct pid *init;
	struct pid_namespace *pid_ns; /* counted reference, or NULL */
	struct cgroup *cgroup[KM_KEYS]; /* counted references */
};
/* 0 or -ESRCH, -EINVAL: shares everything with the caller, as name says then. name: else the cgroup's path as the owner node
 * shows it. */
int km_keys_of(s32 pid, struct km_keys *keys, char *name, size_t bytes);
void km_keys_put(struct km_keys *keys);
/* Whether any process is left in them. */
bool km_keys_populated(const struct km_keys *keys);
/* Call visit for each key that a task could be known by, innermost first; stops when it returns true. Any context. */
bool km_keys_walk(struct task_struct *task, bool (*visit)(const void *key, void *context), void *context);

#endif
