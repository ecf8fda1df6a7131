// SPDX-License-Identifier: Apache-2.0
/* Files whose process has ended or has closed them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "engine.h"
#include "external.h"
#include "external_links.h"
#include "processes.h"
#include "uvm.h"
#include "worker.h"

void external_forget(struct cgpud *d, u32 at)
{
	cgpu_reference_file_ended(&d->core, at);
	memset(&d->external.store->file[at], 0, sizeof(d->external.store->file[at]));
}

static int has_ended(const struct external_user *user)
{
	return !user->tgid || process_has_left(user->tgid, user->started);
}

/* It counts as there when that cannot be seen. */
static int has(struct external_user *user, int fd)
{
	if (has_ended(user))
		return 0;
	if (process_same_file(user->tid, user->number, fd) == 1)
		return 1;
	return process_has_file(user->tgid, fd, &user->number) != 0;
}

static int is_used(struct external_file *file, int fd)
{
	/* It may have moved it elsewhere while there was no engine: what is mapped there cannot be found, nor unmapped. */
	if (fd < 0)
		return !has_ended(&file->user[0]) || !has_ended(&file->user[1]);
	return has(&file->user[0], fd) || has(&file->user[1], fd);
}

/* Serial of the newest mapping. With the lock. */
static u64 newest(const struct external *x, u32 at)
{
	return x->first[at] == EXTERNAL_NONE ? 0 : x->store->map[x->first[at]].serial;
}

/* 1 when nothing came between a look at a file without the lock and now. With the lock. */
static int is_unchanged(const struct external *x, u32 at, const struct external_file *before, u64 latest)
{
	return newest(x, at) == latest && !x->ending[at] && !memcmp(&x->store->file[at], before, sizeof(*before));
}

/* 1 when the file is ours alone to take apart from now on. */
static int begin_end(struct cgpud *d, u32 at, s64 slot)
{
	struct external *x = &d->external;
	struct external_file file, before;
	int fd = -1, used, begun = 0;
	u64 latest;

	pthread_mutex_lock(&x->lock);
	before = file = x->store->file[at];
	latest = newest(x, at);
	if (x->ending[at] || (slot >= 0 && file.slot != (u32)slot))
		file.live = 0;
	if (file.live && x->fd[at] >= 0) {
		fd = fcntl(x->fd[at], F_DUPFD_CLOEXEC, 0);
		/* Another time. */
		file.live = fd >= 0;
	}
	pthread_mutex_unlock(&x->lock);
	if (!file.live)
		return 0;
	used = is_used(&file, fd);
	if (fd >= 0)
		close(fd);
	pthread_mutex_lock(&x->lock);
	if (is_unchanged(x, at, &before, latest)) {
		begun = x->ending[at] = !used;
		x->store->file[at] = file;
	}
	pthread_mutex_unlock(&x->lock);
	return begun;
}

int external_unmap(struct cgpud *d, int fd, const struct external_map *map)
{
	u32 status = NV_OK;
	int r;

	if (fd < 0)
		return 1;
	r = uvm_take_away(d->core.abi, fd, map, &status);
	return r != -EAGAIN &&
		(r < 0 || status == NV_OK || status == NV_ERR_INVALID_ADDRESS || status == NV_ERR_INVALID_DEVICE);
}

/* Nobody else touches it meanwhile: see ending. */
static void take_apart(struct cgpud *d, u32 at)
{
	struct external *x = &d->external;
	int fd = x->fd[at], done = 1;
	u32 first;

	while (done && (first = x->first[at]) != EXTERNAL_NONE) {
		struct external_map map = x->store->map[first];
		struct cgpu_reference hold = { .object = first, .serial = map.serial };

		done = external_unmap(d, fd, &map);
		pthread_mutex_lock(&x->lock);
		if (done) {
			external_unlink(x, first);
			cgpu_reference_drop(&d->core, &hold);
		}
		pthread_mutex_unlock(&x->lock);
	}
	/* The driver's own part goes with the last copy: before it is forgotten that there is one. */
	if (done && fd >= 0)
		close(fd);
	pthread_mutex_lock(&x->lock);
	x->ending[at] = 0;
	if (done) {
		x->fd[at] = -1;
		external_forget(d, at);
		atomic_fetch_sub(&x->files, 1);
	}
	pthread_mutex_unlock(&x->lock);
}

void external_sweep(struct cgpud *d, s64 slot)
{
	u32 i;

	for (i = 0; i < atomic_load(&d->external.top) && atomic_load(&d->external.files); i++) {
		if (begin_end(d, i, slot))
			take_apart(d, i);
	}
}

static u32 is_left(struct external *x, u32 at)
{
	struct external_file file;

	pthread_mutex_lock(&x->lock);
	file = x->store->file[at];
	pthread_mutex_unlock(&x->lock);
	return file.live && has_ended(&file.user[0]) && has_ended(&file.user[1]);
}

u32 external_left(struct cgpud *d)
{
	struct external *x = &d->external;
	u32 i, left = 0;

	if (!atomic_load(&x->files))
		return 0;
	for (i = 0; i < atomic_load(&x->top); i++)
		left += is_left(x, i);
	workers_wake(d);
	return left;
}
