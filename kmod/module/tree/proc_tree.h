/* SPDX-License-Identifier: GPL-2.0-only */
/* /proc/cgpu_km. */
#ifndef CGPU_KM_PROC_TREE_H
#define CGPU_KM_PROC_TREE_H

#include "engine/engine.h"

struct proc_ops;

/* --- tree.c --- */

int km_tree_init(void);

/* --- directories.c --- */

/* Make the root. ops: of all files. */
int km_directories_init(const struct proc_ops *ops);
void km_tree_exit(void);
/* Make the files what the registry says. Under the control lock; engine: NULL: there is none, without that lock. */
int km_tree_sync(struct km_engine *engine);

/* --- inst_ctl.c --- */

/* A refusal sets *why, which was all zeroes. */
int km_inst_ctl(const char *text, size_t bytes, struct cgpu_refusal *why);
/* For the core: see cgpu_ops. */
int km_cgroup_of(void *ctx, s32 pid, char *path, size_t bytes);

#endif
