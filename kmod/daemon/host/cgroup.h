/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups as names: "/a/b" in the unified hierarchy, "pids:/a/b" in a hierarchy of version 1. */
#ifndef CGPUD_CGROUP_H
#define CGPUD_CGROUP_H

#include "cgpu_types.h"

/* The name that tells a process's container from the rest of the machine; "/" where none does. -ESRCH. */
int cgroup_name(s32 pid, char *name, size_t bytes);
/* 1 when a process is in it or below, 0 when none is or the group is gone, -EINVAL when the name does
 * not tell ("/", or a hierarchy that is not mounted where it is expected). */
int cgroup_populated(const char *name);
/* 1 when the process is in this group or below it. */
int cgroup_holds(const char *name, s32 pid);

#endif
