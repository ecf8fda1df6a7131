// SPDX-License-Identifier: Apache-2.0
/* Descriptors inside of calls on a mounted node: which open file of ours the caller means. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "sim.h"

/* Calls to ourselves that may wait for one of our own threads at the same time; the server has far more threads. */
#define MAX_RESOLVING 64u

/*
 * The number of the description behind a descriptor of ours; 0 when it is not of this mount. A foreign file system
 * could answer anything, or never: ask the kernel whose it is before asking the file.
 */
static uint64_t identify(struct sim *sim, int fd)
{
	uint64_t answer[2] = { 0, 0 };
	struct statx about;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &about))
		return 0;
	if (makedev(about.stx_dev_major, about.stx_dev_minor) != sim->device || !S_ISREG(about.stx_mode))
		return 0;
	if (ioctl(fd, SIM_IDENTIFY_IOCTL, answer))
		return 0;
	return answer[0];
}

void file_let_go(intptr_t hold)
{
	close((int)hold);
}

/* Hold is a copy of the caller's descriptor. */
int file_look_up(struct call *call, int fd, uint64_t *id, intptr_t *hold)
{
	struct sim *sim = call->sim;
	int copy;

	if (atomic_fetch_add(&sim->resolving, 1) >= MAX_RESOLVING) {
		atomic_fetch_sub(&sim->resolving, 1);
		return -EAGAIN;
	}
	copy = caller_descriptor(&call->caller, fd);
	*id = copy < 0 ? 0 : identify(sim, copy);
	*hold = copy;
	atomic_fetch_sub(&sim->resolving, 1);
	return copy < 0 ? -EINVAL : 0;
}

uint64_t file_resolve(struct call *call, int fd, intptr_t *hold)
{
	uint64_t id;

	if (file_look_up(call, fd, &id, hold) != 0)
		return 0;
	if (id == 0)
		file_let_go(*hold);
	return id;
}
