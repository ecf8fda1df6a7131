// SPDX-License-Identifier: Apache-2.0
/*
 * Mappings that an engine before this one has left, which may have died at any point.
 *
 * A mapping keeps the reference that it was made with, confirmed or not: the call may be under way. A reference without a
 * mapping is dropped: its call was not continued yet, or the driver has said that nothing is mapped. A mapping whose reference
 * is not in the ledger gets a new one where the ledger still has its memory; else it is unmapped, as no container is
 * charged for it.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "clock.h"
#include "copies.h"
#include "engine.h"
#include "external.h"
#include "external_links.h"
#include "processes.h"
#include "task.h"

#define REOPEN_MS 1000

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

static int relink(struct cgpud *d)
{
	struct external *x = &d->external;
	u32 i;

	external_clear(x);
	for (i = 0; i < x->store->used && i < CGPU_MAX_OBJECTS; i++) {
		struct external_map *map = &x->store->map[i];
		struct cgpu_reference hold = { .object = i, .serial = map->serial };

		if (!map->serial)
			continue;
		if (map->file >= EXTERNAL_FILES || !x->store->file[map->file].live)
			map->serial = 0;
		else if (cgpu_reference_recover(&d->core, &hold, map->file) == 0)
			external_relink(x, i);
		else if (lose(x, map) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void drop_unmapped(struct cgpud *d)
{
	const struct external_store *store = d->external.store;
	struct cgpu_reference hold;
	u32 cursor = 0;

	while (cgpu_reference_file_next(&d->core, &cursor, &hold) == 0) {
		if (hold.object >= store->used || store->map[hold.object].serial != hold.serial)
			cgpu_reference_drop(&d->core, &hold);
	}
}

int external_open(struct cgpud *d, struct external_store *store)
{
	struct external *x = &d->external;
	u32 i;

	pthread_mutex_init(&x->lock, NULL);
	memset(x->fd, 0xff, sizeof(x->fd));
	x->store = store;
	/* Without a number chains can be made long by who guesses it. */
	if (getrandom(&x->key, sizeof(x->key), GRND_NONBLOCK) != sizeof(x->key))
		x->key = clock_ns();
	/* The next engine finds it as we did. */
	if (relink(d) < 0)
		return -ENOMEM;
	drop_unmapped(d);
	for (i = 0; i < EXTERNAL_FILES; i++) {
		if (!store->file[i].live) {
			external_forget(d, i);
			continue;
		}
		atomic_fetch_add(&x->files, 1);
		atomic_store(&x->top, i + 1);
	}
	return 0;
}

/* What its process has there under the same number: other files of UVM have other numbers. -ETIMEDOUT: it keeps us waiting. */
static int reopen(struct cgpud *d, const struct external_user *user)
{
	int pidfd = user->tgid ? process_open(user->tgid, 0) : -1, fd = -1;
	struct task task;

	if (pidfd < 0)
		return -1;
	task_init(&task, NULL, user->tgid);
	if (!process_has_left(user->tgid, user->started) && task_inspect(d, &task, user->number) == 0 &&
		task.driver_node && task.kind == CGPU_DEVICE_UVM)
		fd = copies_take(pidfd, user->number, &task.identity, &d->stopping, REOPEN_MS);
	close(pidfd);
	return fd;
}

/* A start waits for no container for long: the first file that keeps it waiting is the last that is looked for. */
static int reopen_any(struct cgpud *d, const struct external_file *file, u8 *late)
{
	u32 i;
	int fd = -1;

	for (i = 0; i < 2 && fd < 0 && !late[file->slot % CGPU_MAX_CONTAINERS]; i++) {
		fd = reopen(d, &file->user[i]);
		late[file->slot % CGPU_MAX_CONTAINERS] = fd == -ETIMEDOUT;
	}
	return fd < 0 ? -1 : fd;
}

static int hold_again(struct cgpud *d, const struct external_map *map)
{
	const struct external_file *file = &d->external.store->file[map->file];
	struct cgpu_reference_request named = { .slot = file->slot,
		.generation = file->generation,
		.tgid = file->user[0].tgid,
		.client = map->client,
		.handle = map->handle,
		.of = map->of };
	struct cgpu_reference hold;

	if (!map->of || cgpu_reference_on_file(&d->core, &named, map->file, &hold) < 0 || hold.serial == 0)
		return 0;
	external_link(&d->external, &hold, map);
	return cgpu_reference_confirm(&d->core, &hold) == 0;
}

static void restore_lost(struct cgpud *d)
{
	struct external *x = &d->external;
	u32 i, held = 0, unmapped = 0;

	for (i = 0; i < x->losts; i++) {
		const struct external_map *map = &x->lost[i];

		if (hold_again(d, map))
			held++;
		else if (x->fd[map->file] >= 0 && external_unmap(d, x->fd[map->file], map))
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
	copies_end();
	restore_lost(d);
	for (i = 0; i < EXTERNAL_FILES; i++) {
		if (!x->store->file[i].live || x->first[i] != EXTERNAL_NONE)
			continue;
		if (x->fd[i] >= 0)
			close(x->fd[i]);
		x->fd[i] = -1;
		external_forget(d, i);
		atomic_fetch_sub(&x->files, 1);
	}
	external_sweep(d, -1);
}

void external_close(struct cgpud *d)
{
	u32 i;

	for (i = 0; d->external.store && i < EXTERNAL_FILES; i++) {
		if (d->external.fd[i] >= 0)
			close(d->external.fd[i]);
	}
	free(d->external.lost);
}
