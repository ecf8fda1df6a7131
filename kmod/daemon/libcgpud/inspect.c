// SPDX-License-Identifier: Apache-2.0
/* Inspects and ends processes that a runtime has started in a container. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cgroup.h"
#include "engine.h"
#include "processes.h"

int cgpud_filtered(struct cgpud *d, s32 pid, u32 slot, u64 generation)
{
	struct asker asker = asker_of(&d->looks, slot, generation);
	struct cgpu_container_info info;

	if (cgpu_container_next(&d->core, slot, &info) < 0 || info.slot != slot || info.generation != generation)
		return -ESRCH;
	return look_filters(&asker, pid, info.cgroup);
}

int cgpud_take_page(struct cgpud *d, u32 gpu)
{
	return driver_take_page(&d->driver, gpu);
}

int cgpud_end_process(s32 pid, const char *cgroup)
{
	int handle = process_open(pid, 0), r = -ESRCH;

	if (handle < 0)
		return handle;
	/* The handle stays with one process, so the process that is in the cgroup now is the one killed. */
	if (cgroup_holds(cgroup, pid))
		r = syscall(SYS_pidfd_send_signal, handle, SIGKILL, NULL, 0) < 0 ? -errno : 0;
	close(handle);
	return r;
}
