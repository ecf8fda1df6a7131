// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spaces.h"

#define TRIES 8

/* What an address space has mapped, in short. */
struct sign {
	u64 hash;
	u32 count;
};

void spaces_open(struct spaces *spaces)
{
	pthread_mutex_init(&spaces->lock, NULL);
}

int space_lives(const struct space *space)
{
	u8 part;

	/* fs/proc/task_mmu.c, pagemap_read(): nothing to read without users; else, as entries are longer, EINVAL. */
	return pread(space->life, &part, sizeof(part), 0) < 0;
}

static void add_to_sign(void *ctx, u64 start, u64 end)
{
	struct sign *sign = ctx;

	sign->hash = (sign->hash ^ start) * 0x100000001b3ull;
	sign->hash = (sign->hash ^ end) * 0x100000001b3ull;
	sign->count++;
}

/* 0 when the address space can be seen. */
static int sign_of(const struct space *space, struct sign *sign)
{
	*sign = (struct sign){ 0 };
	return mappings_walk(space->maps, add_to_sign, sign);
}

static int same(const struct sign *a, const struct sign *b)
{
	return a->hash == b->hash && a->count == b->count;
}

static int open_of(s32 id, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", id, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static void close_both(const struct space *space)
{
	close(space->maps);
	close(space->life);
}

static int open_both(struct space *space, s32 id)
{
	space->maps = open_of(id, "maps");
	space->life = space->maps < 0 ? -1 : open_of(id, "pagemap");
	if (space->life >= 0 && space_lives(space))
		return 0;
	if (space->life >= 0)
		close(space->life);
	if (space->maps >= 0)
		close(space->maps);
	return -EAGAIN;
}

/* By the leader, whose number stays as long as the process; where that has ended before the others, by one of them. */
static int open_now(struct space *space)
{
	struct dirent *entry;
	char path[64];
	DIR *folder;
	int r = open_both(space, space->tgid);

	snprintf(path, sizeof(path), "/proc/%d/task", space->tgid);
	folder = r < 0 ? opendir(path) : NULL;
	while (folder && r < 0 && (entry = readdir(folder)))
		r = open_both(space, (s32)strtol(entry->d_name, NULL, 10));
	if (folder)
		closedir(folder);
	return r;
}

static void forget(struct space *space)
{
	close_both(space);
	*space = (struct space){ 0 };
}

void spaces_close(struct spaces *spaces)
{
	u32 i;

	for (i = 0; i < SPACES_MAX; i++)
		if (spaces->at[i].tgid)
			forget(&spaces->at[i]);
}

static void swap_files(struct space *a, struct space *b)
{
	int maps = a->maps, life = a->life;

	a->maps = b->maps;
	a->life = b->life;
	b->maps = maps;
	b->life = life;
}

/* Whether a known one is that of now: both have the same mappings of the node, which no other one comes to have unseen.
 * 1, 0, or -EAGAIN: it changed under the look. */
static int is_known(struct space *known, struct space *now, const struct sign *sign)
{
	struct sign before, after, again;

	if (sign_of(known, &before) < 0)
		return 0;
	if (same(&before, sign)) {
		/* With none it may be another one: what counts is that of now. */
		if (sign->count == 0)
			swap_files(known, now);
		return 1;
	}
	if (sign_of(now, &again) < 0 || sign_of(known, &after) < 0)
		return -EAGAIN;
	return same(&before, &after) && same(&again, sign) ? 0 : -EAGAIN;
}

/* The place of a known one that is that of now; -ENOENT: none is. */
static int find_known(struct spaces *spaces, struct space *now, const struct sign *sign)
{
	int r = 0;
	u32 i;

	for (i = spaces_get(spaces, now->tgid, 0); i < SPACES_MAX; i = spaces_get(spaces, now->tgid, i + 1)) {
		r = is_known(&spaces->at[i], now, sign);
		if (r > 0)
			return (int)i;
		spaces_put(spaces, i);
		if (r < 0)
			return r;
	}
	return -ENOENT;
}

/* A free place, if the container may have one more. With the lock. */
static struct space *place_for(struct spaces *spaces, const struct space *wanted)
{
	struct space *place = NULL;
	u32 i, own = 0;

	for (i = 0; i < SPACES_MAX; i++) {
		struct space *one = &spaces->at[i];

		own += one->tgid && one->slot == wanted->slot && one->generation == wanted->generation;
		if (!one->tgid && !place)
			place = one;
	}
	return own < SPACES_SHARE ? place : NULL;
}

/* Its place, busy. */
static int keep(struct spaces *spaces, const struct space *space)
{
	struct space *place;

	pthread_mutex_lock(&spaces->lock);
	place = place_for(spaces, space);
	if (place) {
		*place = *space;
		place->serial = ++spaces->latest;
		place->busy = 1;
	}
	pthread_mutex_unlock(&spaces->lock);
	if (place)
		return (int)(place - spaces->at);
	close_both(space);
	return -ENOSPC;
}

int spaces_take(struct spaces *spaces, const struct space *wanted)
{
	struct space now = *wanted;
	int r = -EAGAIN, tries;
	struct sign sign;

	spaces_sweep(spaces);
	for (tries = 0; tries < TRIES && r == -EAGAIN; tries++) {
		if (open_now(&now) < 0)
			return -EAGAIN;
		r = sign_of(&now, &sign) < 0 ? -EAGAIN : find_known(spaces, &now, &sign);
		if (r == -ENOENT)
			return keep(spaces, &now);
		close_both(&now);
	}
	return r;
}

void spaces_take_up(struct spaces *spaces, const struct space *wanted)
{
	struct space space = *wanted;
	int at;

	space.bytes = SPACE_UNKNOWN;
	at = open_now(&space) < 0 ? -1 : keep(spaces, &space);
	if (at >= 0)
		spaces_put(spaces, (u32)at);
}

u32 spaces_get(struct spaces *spaces, s32 tgid, u32 from)
{
	u32 i;

	pthread_mutex_lock(&spaces->lock);
	for (i = from; i < SPACES_MAX && spaces->at[i].tgid != tgid; i++)
		;
	if (i < SPACES_MAX)
		spaces->at[i].busy++;
	pthread_mutex_unlock(&spaces->lock);
	return i;
}

void spaces_put(struct spaces *spaces, u32 at)
{
	pthread_mutex_lock(&spaces->lock);
	spaces->at[at].busy--;
	pthread_mutex_unlock(&spaces->lock);
}

int spaces_live(struct spaces *spaces, s32 tgid)
{
	int lives = 0;
	u32 i;

	for (i = spaces_get(spaces, tgid, 0); i < SPACES_MAX; i = spaces_get(spaces, tgid, i + 1)) {
		lives |= space_lives(&spaces->at[i]);
		spaces_put(spaces, i);
	}
	return lives;
}

void spaces_sweep(struct spaces *spaces)
{
	u32 i;

	pthread_mutex_lock(&spaces->lock);
	for (i = 0; i < SPACES_MAX; i++) {
		struct space *one = &spaces->at[i];

		if (one->tgid && !one->busy && !space_lives(one))
			forget(one);
	}
	pthread_mutex_unlock(&spaces->lock);
}
