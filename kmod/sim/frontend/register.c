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

/* A copy of the caller's descriptor, and the number of the description behind it. 0 or -errno. */
static int resolve(struct call *call, int descriptor, int *copy, uint64_t *id)
{
	struct sim *sim = call->sim;

	if (atomic_fetch_add(&sim->resolving, 1) >= MAX_RESOLVING) {
		atomic_fetch_sub(&sim->resolving, 1);
		return -EAGAIN;
	}
	*copy = caller_descriptor(&call->caller, descriptor);
	*id = *copy < 0 ? 0 : identify(sim, *copy);
	atomic_fetch_sub(&sim->resolving, 1);
	return *copy < 0 ? -EINVAL : 0;
}

int file_register(struct call *call, int ctl_fd)
{
	uint64_t id;
	int fd, result = resolve(call, ctl_fd, &fd, &id);

	if (result != 0)
		return result;
	result = file_tie(call, id, fd);
	if (result != 0)
		close(fd);
	return result;
}

uint64_t file_resolve(struct call *call, int fd, intptr_t *hold)
{
	uint64_t id;
	int copy;

	if (resolve(call, fd, &copy, &id) != 0)
		return 0;
	*hold = copy;
	if (id == 0)
		close(copy);
	return id;
}
