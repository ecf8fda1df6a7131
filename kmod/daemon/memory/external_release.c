// SPDX-License-Identifier: Apache-2.0
/* Releases UVM's mappings for processes that have ended or closed their files, also under an engine before. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "clock.h"
#include "descriptors.h"
#include "engine.h"
#include "external.h"
#include "processes.h"
#include "uvm.h"
#include "worker.h"

static int has_ended(const struct asker *asker, const struct external_user *user)
{
	return !user->tgid || look_has_left(asker, user->tgid, user->started);
}

/* 1 when the user's process has the file, and when that cannot be seen. */
static int has(const struct asker *asker, struct external_user *user, int fd)
{
	if (has_ended(asker, user))
		return 0;
	if (look_same_file(asker, user->tid, user->number, fd) == 1)
		return 1;
	return look_has_file(asker, user->tgid, fd, &user->number) != 0;
}

static int is_used(const struct asker *asker, struct external_file *file, int fd)
{
	/* A process may have moved the file to another number while no engine ran: nothing can be unmapped then. */
	if (fd < 0)
		return !has_ended(asker, &file->user[0]) || !has_ended(asker, &file->user[1]);
	return has(asker, &file->user[0], fd) || has(asker, &file->user[1], fd);
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
	struct asker asker;
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
	/* A worker of another container may be the one that looks. */
	asker = slot >= 0 ? asker_of(&d->looks, file.slot, file.generation) :
			    asker_soon(&d->looks, file.slot, file.generation);
	used = is_used(&asker, &file, fd);
	close_any(fd);
	pthread_mutex_lock(&x->lock);
	if (is_unchanged(x, at, &before, latest)) {
		begun = x->ending[at] = !used;
		x->store->file[at] = file;
	}
	pthread_mutex_unlock(&x->lock);
	return begun;
}

/* Unmap a mapping. 0: the driver could not now. A mapping that UVM does not have any more counts as gone. */
static int unmap(struct cgpud *d, int fd, const struct external_map *map)
{
	u32 status = NV_OK;
	int r;

	if (fd < 0)
		return 1;
	r = uvm_take_away(d->core.abi, fd, map, &status);
	return r != -EAGAIN &&
		(r < 0 || status == NV_OK || status == NV_ERR_INVALID_ADDRESS || status == NV_ERR_INVALID_DEVICE ||
			status == NV_ERR_INVALID_CHANNEL);
}

/* No other thread touches the file meanwhile: see ending. */
static void take_apart(struct cgpud *d, u32 at)
{
	struct external *x = &d->external;
	int fd = x->fd[at], done = 1;
	u32 first;

	while (done && (first = x->first[at]) != EXTERNAL_NONE) {
		struct external_map map = x->store->map[first];
		struct cgpu_reference reference = { .object = first, .serial = map.serial };

		done = unmap(d, fd, &map);
		pthread_mutex_lock(&x->lock);
		if (done) {
			external_unlink(x, first);
			cgpu_reference_drop(&d->core, &reference);
		}
		pthread_mutex_unlock(&x->lock);
	}
	/* The driver's own part goes with the last copy: before it is forgotten that there is one. */
	if (done)
		close_any(fd);
	pthread_mutex_lock(&x->lock);
	x->ending[at] = 0;
	if (done)
		external_file_end(d, at);
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

u32 external_left(struct cgpud *d)
{
	struct external *x = &d->external;
	struct external_file file;
	struct asker asker;
	u32 i, left = 0;

	if (!atomic_load(&x->files))
		return 0;
	for (i = 0; i < atomic_load(&x->top); i++) {
		pthread_mutex_lock(&x->lock);
		file = x->store->file[i];
		pthread_mutex_unlock(&x->lock);
		asker = asker_soon(&d->looks, file.slot, file.generation);
		left += file.live && has_ended(&asker, &file.user[0]) && has_ended(&asker, &file.user[1]);
	}
	workers_wake(d);
	return left;
}

/*
 * Mappings that an engine before this one has left, which may have died at any point.
 *
 * A mapping keeps the reference that it was made with, confirmed or not: the call may be under way. A reference without a
 * mapping is dropped: its call was not continued yet, or the driver has said that nothing is mapped. A mapping whose reference
 * is not in the ledger gets a new one where the ledger still has its memory; else it is unmapped, as no container is
 * charged for it.
 */

/* Put a mapping whose memory is on no record among those that are unmapped later. -ENOMEM: there is no room to note it. */
static int lose(struct external *x, struct external_map *map)
{
	if (!x->lost)
		x->lost = calloc(CGPU_MAX_OBJECTS, sizeof(*x->lost));
	if (!x->lost)
		return -ENOMEM;
	x->lost[x->losts++] = *map;
	map->serial = 0;
	return 0;
}

/* Make the lists anew after a restart: the stored table of mappings has no links, and may be half written. */
static int relink(struct cgpud *d)
{
	struct external *x = &d->external;
	u32 i;

	memset(x->first, 0xff, sizeof(x->first));
	memset(x->hash, 0xff, sizeof(x->hash));
	for (i = 0; i < x->store->used && i < CGPU_MAX_OBJECTS; i++) {
		struct external_map *map = &x->store->map[i];
		struct cgpu_reference reference = { .object = i, .serial = map->serial };

		if (!map->serial)
			continue;
		if (map->file >= EXTERNAL_FILES || !x->store->file[map->file].live)
			map->serial = 0;
		else if (cgpu_reference_recover(&d->core, &reference, map->file) == 0)
			external_relink(x, i);
		else if (lose(x, map) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void drop_unmapped(struct cgpud *d)
{
	const struct external_store *store = d->external.store;
	struct cgpu_reference reference;
	u32 cursor = 0;

	while (cgpu_reference_file_next(&d->core, &cursor, &reference) == 0) {
		if (reference.object >= store->used || store->map[reference.object].serial != reference.serial)
			cgpu_reference_drop(&d->core, &reference);
	}
}

int external_open(struct cgpud *d, struct external_store *store)
{
	struct external *x = &d->external;
	u32 i;

	pthread_mutex_init(&x->lock, NULL);
	memset(x->fd, 0xff, sizeof(x->fd));
	x->store = store;
	/* With a known key a container could make chains long. */
	if (getrandom(&x->key, sizeof(x->key), GRND_NONBLOCK) != sizeof(x->key))
		x->key = clock_ns();
	/* The next engine finds it as we did. */
	if (relink(d) < 0)
		return -ENOMEM;
	drop_unmapped(d);
	for (i = 0; i < EXTERNAL_FILES; i++) {
		if (!store->file[i].live) {
			cgpu_reference_file_ended(&d->core, i);
			continue;
		}
		atomic_fetch_add(&x->files, 1);
		atomic_store(&x->top, i + 1);
	}
	return 0;
}

/* Copy the process's descriptor of the same number: other files of UVM have other numbers. -ETIMEDOUT: no answer. */
static int reopen(struct cgpud *d, const struct asker *asker, const struct external_user *user)
{
	int pidfd = user->tgid ? process_open(user->tgid, 0) : -1, fd = -1;
	struct task task;

	if (pidfd < 0)
		return -1;
	task_init(&task, asker, NULL, user->tgid);
	if (!look_has_left(asker, user->tgid, user->started) && task_inspect(d, &task, user->number) == 0 &&
		task.driver_node && task.kind == CGPU_DEVICE_UVM)
		fd = look_copy(asker, pidfd, user->number, &task.identity);
	close(pidfd);
	return fd;
}

/* A start waits for no container for long: it stops the search after the first timeout. */
static int reopen_any(struct cgpud *d, const struct external_file *file, u8 *late)
{
	struct asker asker = asker_of(&d->looks, file->slot, file->generation);
	u32 i;
	int fd = -1;

	for (i = 0; i < 2 && fd < 0 && !late[file->slot % CGPU_MAX_CONTAINERS]; i++) {
		fd = reopen(d, &asker, &file->user[i]);
		late[file->slot % CGPU_MAX_CONTAINERS] = fd == -ETIMEDOUT;
	}
	return fd < 0 ? -1 : fd;
}

static int charge_again(struct cgpud *d, const struct external_map *map)
{
	const struct external_file *file = &d->external.store->file[map->file];
	struct cgpu_reference_request named = { .slot = file->slot,
		.generation = file->generation,
		.tgid = file->user[0].tgid,
		.to = external_refers_to(map->kind),
		.client = map->client,
		.handle = map->handle,
		.of = map->of };
	struct cgpu_reference reference;

	if (!map->of || cgpu_reference_on_file(&d->core, &named, map->file, &reference) < 0 || reference.serial == 0)
		return 0;
	external_link(&d->external, &reference, map);
	return cgpu_reference_confirm(&d->core, &reference) == 0;
}

static void restore_lost(struct cgpud *d)
{
	struct external *x = &d->external;
	u32 i, held = 0, unmapped = 0;

	for (i = 0; i < x->losts; i++) {
		const struct external_map *map = &x->lost[i];

		if (charge_again(d, map))
			held++;
		else if (x->fd[map->file] >= 0 && unmap(d, x->fd[map->file], map))
			unmapped++;
	}
	if (x->losts)
		events_log(&d->events, LOG_LEVEL_ERROR,
			"the charges of %u mappings by UVM were lost: %u are charged again, %u were unmapped, %u stay and are "
			"charged to nobody until their files are closed",
			x->losts, held, unmapped, x->losts - held - unmapped);
	free(x->lost);
	x->lost = NULL;
	x->losts = 0;
}

void external_take_up(struct cgpud *d)
{
	struct external *x = &d->external;
	u8 late[CGPU_MAX_CONTAINERS] = { 0 };
	u32 i;

	for (i = 0; i < EXTERNAL_FILES; i++) {
		if (x->store->file[i].live)
			x->fd[i] = reopen_any(d, &x->store->file[i], late);
	}
	restore_lost(d);
	for (i = 0; i < EXTERNAL_FILES; i++) {
		if (!x->store->file[i].live || x->first[i] != EXTERNAL_NONE)
			continue;
		close_one(&x->fd[i]);
		external_file_end(d, i);
	}
	external_sweep(d, -1);
}

void external_close(struct cgpud *d)
{
	u32 i;

	for (i = 0; d->external.store && i < EXTERNAL_FILES; i++)
		close_any(d->external.fd[i]);
	free(d->external.lost);
}
