// SPDX-License-Identifier: Apache-2.0
/* Files whose process has ended or has closed them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include "clock.h"
#include "engine.h"
#include "external.h"
#include "external_links.h"
#include "process.h"
#include "rm.h"
#include "uvm.h"
#include "worker.h"

static void forget(struct cgpud *d, u32 at)
{
	cgpu_hold_file_ended(&d->core, at);
	memset(&d->external.store->file[at], 0, sizeof(d->external.store->file[at]));
}

void external_open(struct cgpud *d, struct external_store *store)
{
	struct external *x = &d->external;
	u32 i;

	pthread_mutex_init(&x->lock, NULL);
	memset(x->fd, 0xff, sizeof(x->fd));
	x->store = store;
	/* Without a number chains can be made long by who guesses it. */
	if (getrandom(&x->key, sizeof(x->key), GRND_NONBLOCK) != sizeof(x->key))
		x->key = clock_ns();
	external_relink(x);
	for (i = 0; i < EXTERNAL_FILES; i++) {
		if (!store->file[i].live || x->first[i] == EXTERNAL_NONE)
			forget(d, i);
		else
			atomic_fetch_add(&x->files, 1);
		if (store->file[i].live)
			atomic_store(&x->top, i + 1);
	}
}

/* What its process has there under the same number: other files of UVM have other numbers. */
static int reopen(struct cgpud *d, const struct external_user *user)
{
	struct identity identity;
	enum cgpu_device kind;
	int pidfd = user->tgid ? process_open(user->tgid, 0) : -1, fd;
	u32 gpu;

	if (pidfd < 0)
		return -1;
	fd = process_take_fd(pidfd, user->number);
	close(pidfd);
	if (fd < 0)
		return -1;
	if (identity_of(fd, "", &identity) == 0 && devices_identify(&d->devices, &identity, &kind, &gpu) &&
		kind == CGPU_DEVICE_UVM)
		return fd;
	close(fd);
	return -1;
}

void external_take_up(struct cgpud *d)
{
	struct external *x = &d->external;
	u32 i;

	for (i = 0; i < EXTERNAL_FILES; i++) {
		const struct external_file *file = &x->store->file[i];

		if (file->live)
			x->fd[i] = reopen(d, &file->user[0]);
		if (file->live && x->fd[i] < 0)
			x->fd[i] = reopen(d, &file->user[1]);
	}
	external_look(d, -1);
}

void external_close(struct cgpud *d)
{
	u32 i;

	for (i = 0; d->external.store && i < EXTERNAL_FILES; i++) {
		if (d->external.fd[i] >= 0)
			close(d->external.fd[i]);
	}
}

/* It counts as there when that cannot be seen. */
static int has(struct external_user *user, int fd)
{
	if (!user->tgid || process_has_ended(user->tgid))
		return 0;
	if (process_same_file(user->tid, user->number, fd) == 1)
		return 1;
	return process_has_file(user->tgid, fd, &user->number) != 0;
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
	used = fd >= 0 && (has(&file.user[0], fd) || has(&file.user[1], fd));
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

/* 0: the driver could not now. What is no longer mapped there counts as gone. */
static int unmap(struct cgpud *d, int fd, const struct external_map *map)
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
		struct cgpu_hold hold = { .object = first, .serial = map.serial };

		done = unmap(d, fd, &map);
		pthread_mutex_lock(&x->lock);
		if (done) {
			external_unlink(x, first);
			cgpu_hold_drop(&d->core, &hold);
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
		forget(d, at);
		atomic_fetch_sub(&x->files, 1);
	}
	pthread_mutex_unlock(&x->lock);
}

void external_look(struct cgpud *d, s64 slot)
{
	u32 i;

	for (i = 0; i < atomic_load(&d->external.top) && atomic_load(&d->external.files); i++) {
		if (begin_end(d, i, slot))
			take_apart(d, i);
	}
}

u32 external_left(struct cgpud *d)
{
	struct external *x = &d->external;
	u32 i, left = 0;

	if (!atomic_load(&x->files))
		return 0;
	pthread_mutex_lock(&x->lock);
	for (i = 0; i < atomic_load(&x->top); i++)
		left += x->store->file[i].live && process_has_ended(x->store->file[i].user[0].tgid);
	pthread_mutex_unlock(&x->lock);
	workers_wake(d);
	return left;
}
