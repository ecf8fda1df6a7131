// SPDX-License-Identifier: Apache-2.0
/* Open file descriptions, and the tie between one of a card and one of nvidiactl. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "sim.h"

/* Calls to ourselves that may wait for one of our own threads at the same time; the server has far more threads. */
#define MAX_RESOLVING 64u

struct file *file_open(struct sim *sim, uint32_t card)
{
	struct file *file;

	if (sim->file_count >= SIM_MAX_FILES)
		return NULL;
	file = calloc(1, sizeof(*file));
	if (!file)
		return NULL;
	file->id = ++sim->next_file;
	file->card = card;
	file->registered_fd = -1;
	file->next = sim->files;
	if (file->next)
		file->next->prev = file;
	sim->files = file;
	sim->file_count++;
	return file;
}

void file_release(struct sim *sim, struct file *file)
{
	pthread_mutex_lock(&sim->lock);
	clients_free_of(sim, file);
	if (file->prev)
		file->prev->next = file->next;
	else
		sim->files = file->next;
	if (file->next)
		file->next->prev = file->prev;
	sim->file_count--;
	pthread_mutex_unlock(&sim->lock);
	if (file->registered_fd >= 0)
		close(file->registered_fd);
	free(file);
}

uint64_t file_identity(const struct file *file)
{
	return file->registered ? file->registered : file->id;
}

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

static struct file *file_find(struct sim *sim, uint64_t id)
{
	struct file *at = sim->files;

	while (at && at->id != id)
		at = at->next;
	return at;
}

struct file *file_owner(struct sim *sim, const struct file *file)
{
	return file_find(sim, file_identity(file));
}

/* The driver's rules: once only, to an nvidiactl, not to itself, and no chains (escape.c, NV_ESC_REGISTER_FD). */
static int tie(struct call *call, uint64_t id, int fd)
{
	struct file *target;
	int result = -EINVAL;

	pthread_mutex_lock(&call->sim->lock);
	target = file_find(call->sim, id);
	if (id != 0 && target && target->card == SIM_NO_CARD && target != call->file && target->registered == 0 &&
		call->file->registered == 0) {
		call->file->registered = id;
		call->file->registered_fd = fd;
		result = 0;
	}
	pthread_mutex_unlock(&call->sim->lock);
	return result;
}

int file_register(struct call *call, int ctl_fd)
{
	struct sim *sim = call->sim;
	int fd, result;

	if (atomic_fetch_add(&sim->resolving, 1) >= MAX_RESOLVING) {
		atomic_fetch_sub(&sim->resolving, 1);
		return -EAGAIN;
	}
	fd = caller_descriptor(&call->caller, ctl_fd);
	result = fd < 0 ? -EINVAL : tie(call, identify(sim, fd), fd);
	if (result != 0 && fd >= 0)
		close(fd);
	atomic_fetch_sub(&sim->resolving, 1);
	return result;
}
