// SPDX-License-Identifier: Apache-2.0
/* Tracks address spaces that have had managed memory, whether processes use them, and their mappings. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "descriptors.h"
#include "fair.h"
#include "processes.h"
#include "address_spaces.h"

#define TRIES 8
#define FILES 2 /* of each */

/* Digest of an address space's mappings. */
struct sign {
	u64 hash;
	u32 count;
};

/* At most half of the descriptors: containers' listeners and files need some, too. */
static u32 room_for_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur / 2 / FILES >= ADDRESS_SPACES_MAX)
		return ADDRESS_SPACES_MAX;
	return (u32)(limit.rlim_cur / 2 / FILES);
}

void address_spaces_open(struct address_spaces *spaces, struct cgpu_core *core, struct looks *looks)
{
	pthread_mutex_init(&spaces->lock, NULL);
	spaces->core = core;
	spaces->looks = looks;
	spaces->max = room_for_files();
}

int address_space_lives(const struct asker *asker, const struct address_space *space)
{
	if (space->life < 0)
		return !look_has_left(asker, space->tgid, space->started);
	/* A process that cannot be examined keeps its charge. */
	return look_lives(asker, space->life) != 0;
}

static struct asker asker_for(const struct address_spaces *spaces, const struct address_space *space)
{
	return asker_of(spaces->looks, space->slot, space->generation);
}

static void add_to_sign(void *ctx, u64 start, u64 end)
{
	struct sign *sign = ctx;

	sign->hash = (sign->hash ^ start) * 0x100000001b3ull;
	sign->hash = (sign->hash ^ end) * 0x100000001b3ull;
	sign->count++;
}

/* 0 when the address space can be seen. */
static int sign_of(const struct address_spaces *spaces, const struct address_space *space, struct sign *sign)
{
	struct asker asker = asker_for(spaces, space);

	*sign = (struct sign){ 0 };
	return look_mappings(&asker, space->maps, add_to_sign, sign);
}

static int same(const struct sign *a, const struct sign *b)
{
	return a->hash == b->hash && a->count == b->count;
}

static void close_both(const struct address_space *space)
{
	close_any(space->maps);
	close_any(space->life);
}

static int open_both(const struct asker *asker, struct address_space *space, s32 id)
{
	space->maps = look_open(asker, id, LOOKS_MAPPINGS);
	space->life = space->maps < 0 ? -1 : look_open(asker, id, LOOKS_PAGEMAP);
	if (space->life >= 0 && look_lives(asker, space->life) > 0)
		return 0;
	close_both(space);
	space->maps = space->life = -1;
	return -EAGAIN;
}

/* Open by the leader, whose number stays as long as the process, or by another thread if the leader has ended. */
static int open_now(const struct asker *asker, struct address_space *space)
{
	struct dirent *entry;
	char path[64];
	DIR *folder;
	int r = open_both(asker, space, space->tgid);

	snprintf(path, sizeof(path), "/proc/%d/task", space->tgid);
	folder = r < 0 ? opendir(path) : NULL;
	while (folder && r < 0 && (entry = readdir(folder)))
		r = open_both(asker, space, (s32)strtol(entry->d_name, NULL, 10));
	if (folder)
		closedir(folder);
	return r;
}

static void forget(struct address_space *space)
{
	close_both(space);
	*space = (struct address_space){ 0 };
}

void address_spaces_close(struct address_spaces *spaces)
{
	u32 i;

	for (i = 0; i < ADDRESS_SPACES_MAX; i++)
		if (spaces->at[i].tgid)
			forget(&spaces->at[i]);
}

/* Swap files while no other thread uses the address space, as its old files are closed next. Its place is ours. */
static int swap_files(struct address_spaces *spaces, struct address_space *known, struct address_space *now)
{
	struct address_space before;
	int r = -EAGAIN;

	pthread_mutex_lock(&spaces->lock);
	if (known->busy == 1) {
		before = *known;
		known->maps = now->maps;
		known->life = now->life;
		now->maps = before.maps;
		now->life = before.life;
		r = 0;
	}
	pthread_mutex_unlock(&spaces->lock);
	return r;
}

/* Whether a known one is that of now: both have the same mappings of the node, which no other one comes to have unseen.
 * 1, 0, or -EAGAIN: it changed under the look. */
static int is_known(
	struct address_spaces *spaces, struct address_space *known, struct address_space *now, const struct sign *sign)
{
	struct sign before, after, again;

	if (sign_of(spaces, known, &before) < 0)
		return 0;
	if (same(&before, sign)) {
		/* Without mappings it may be another address space: take the present one. */
		return sign->count == 0 && swap_files(spaces, known, now) < 0 ? -EAGAIN : 1;
	}
	if (sign_of(spaces, now, &again) < 0 || sign_of(spaces, known, &after) < 0)
		return -EAGAIN;
	return same(&before, &after) && same(&again, sign) ? 0 : -EAGAIN;
}

/* The place of a known one that is that of now; -ENOENT: none is. */
static int find_known(struct address_spaces *spaces, struct address_space *now, const struct sign *sign)
{
	int r = 0;
	u32 i;

	for (i = address_spaces_get(spaces, now, 0); i < ADDRESS_SPACES_MAX;
		i = address_spaces_get(spaces, now, i + 1)) {
		r = is_known(spaces, &spaces->at[i], now, sign);
		if (r > 0)
			return (int)i;
		address_spaces_put(spaces, i);
		if (r < 0)
			return r;
	}
	return -ENOENT;
}

static int is_of(const struct address_space *space, const struct address_space *of)
{
	return space->tgid == of->tgid && space->slot == of->slot && space->generation == of->generation;
}

/* With the lock. */
static int has_room(struct address_spaces *spaces, u32 slot)
{
	struct fair fair;
	u32 at;

	fair_begin(&fair, spaces->core);
	for (at = 0; at < ADDRESS_SPACES_MAX; at++) {
		if (spaces->at[at].tgid)
			fair_count(&fair, spaces->at[at].slot, spaces->at[at].generation);
	}
	return fair_has_room(&fair, slot, spaces->max, ADDRESS_SPACES_SHARE);
}

/* Retry slot of a process that could not be examined before, else a free slot. With the lock. */
static struct address_space *place_for(struct address_spaces *spaces, const struct address_space *space)
{
	struct address_space *place = NULL;
	u32 i;

	for (i = 0; i < ADDRESS_SPACES_MAX; i++) {
		struct address_space *one = &spaces->at[i];

		if (is_of(one, space) && one->life < 0)
			return one;
		if (!one->tgid && !place)
			place = one;
	}
	return place;
}

/* Its place, busy. fairly: if the container may have one more. */
static int keep(struct address_spaces *spaces, const struct address_space *space, int fairly)
{
	struct address_space *place;

	pthread_mutex_lock(&spaces->lock);
	place = fairly && !has_room(spaces, space->slot) ? NULL : place_for(spaces, space);
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

int address_spaces_take(struct address_spaces *spaces, const struct address_space *wanted, const struct notice *notice)
{
	struct asker asker = asker_for(spaces, wanted);
	struct address_space now = *wanted;
	int r = -EAGAIN, tries;
	struct sign sign;

	address_spaces_sweep(spaces, &asker);
	for (tries = 0; tries < TRIES && r == -EAGAIN; tries++) {
		if (open_now(&asker, &now) < 0)
			return -EAGAIN;
		/* Another process may have had the number when it was opened. */
		if (!notice_stands(notice)) {
			close_both(&now);
			return -ENOENT;
		}
		r = sign_of(spaces, &now, &sign) < 0 ? -EAGAIN : find_known(spaces, &now, &sign);
		if (r == -ENOENT)
			return keep(spaces, &now, 1);
		close_both(&now);
	}
	return r;
}

void address_spaces_take_up(struct address_spaces *spaces, const struct address_space *wanted)
{
	struct asker asker = asker_for(spaces, wanted);
	struct address_space space = *wanted;
	int at;

	/* Another one has the number. */
	if (look_has_left(&asker, wanted->tgid, wanted->started))
		return;
	space.bytes = ADDRESS_SPACE_UNKNOWN;
	/* An address space that cannot be opened counts by its process. */
	open_now(&asker, &space);
	if (look_has_left(&asker, wanted->tgid, wanted->started)) {
		close_both(&space);
		return;
	}
	at = keep(spaces, &space, 0);
	if (at >= 0)
		address_spaces_put(spaces, (u32)at);
}

u32 address_spaces_get(struct address_spaces *spaces, const struct address_space *of, u32 from)
{
	u32 i;

	pthread_mutex_lock(&spaces->lock);
	for (i = from; i < ADDRESS_SPACES_MAX && !is_of(&spaces->at[i], of); i++)
		;
	if (i < ADDRESS_SPACES_MAX)
		spaces->at[i].busy++;
	pthread_mutex_unlock(&spaces->lock);
	return i;
}

void address_spaces_put(struct address_spaces *spaces, u32 at)
{
	pthread_mutex_lock(&spaces->lock);
	spaces->at[at].busy--;
	pthread_mutex_unlock(&spaces->lock);
}

/* Generations are never given out again. */
static int is_orphan(struct address_spaces *spaces, const struct address_space *space)
{
	struct cgpu_container_info info;

	return space->slot == CGPU_ORPHANS || cgpu_container_next(spaces->core, space->slot, &info) < 0 ||
		info.slot != space->slot || info.generation != space->generation;
}

/* Whether a process number of a container, or (CGPU_ORPHANS) of any that was removed, stands for it. With the lock. */
static int stands_for(struct address_spaces *spaces, const struct address_space *of, const struct address_space *one)
{
	return of->slot == CGPU_ORPHANS ? one->tgid == of->tgid && is_orphan(spaces, one) : is_of(one, of);
}

/* The next that is meant, at or after a place; busy until it is put back. ADDRESS_SPACES_MAX: none. */
static u32 get_meant(struct address_spaces *spaces, const struct address_space *of, u32 from)
{
	u32 i;

	pthread_mutex_lock(&spaces->lock);
	for (i = from; i < ADDRESS_SPACES_MAX && !stands_for(spaces, of, &spaces->at[i]); i++)
		;
	if (i < ADDRESS_SPACES_MAX)
		spaces->at[i].busy++;
	pthread_mutex_unlock(&spaces->lock);
	return i;
}

int address_spaces_live(struct address_spaces *spaces, const struct address_space *of, u64 *latest)
{
	struct asker asker;
	int lives = 0;
	u32 at;

	pthread_mutex_lock(&spaces->lock);
	*latest = spaces->latest;
	pthread_mutex_unlock(&spaces->lock);
	for (at = get_meant(spaces, of, 0); at < ADDRESS_SPACES_MAX; at = get_meant(spaces, of, at + 1)) {
		asker = asker_soon(spaces->looks, spaces->at[at].slot, spaces->at[at].generation);
		lives = address_space_lives(&asker, &spaces->at[at]);
		address_spaces_put(spaces, at);
		if (lives)
			break;
	}
	return lives;
}

int address_spaces_came(struct address_spaces *spaces, const struct address_space *of, u64 latest)
{
	u32 i;

	for (i = 0; i < ADDRESS_SPACES_MAX; i++)
		if (spaces->at[i].serial > latest && stands_for(spaces, of, &spaces->at[i]))
			return 1;
	return 0;
}

/* The next idle address space, at or after a place; no other thread drops it until end_look(). of: NULL for any. */
static u32 begin_look(struct address_spaces *spaces, const struct asker *of, u32 from)
{
	u32 i;

	pthread_mutex_lock(&spaces->lock);
	for (i = from; i < ADDRESS_SPACES_MAX; i++) {
		struct address_space *one = &spaces->at[i];

		if (!one->tgid || one->busy || (of && (one->slot != of->slot || one->generation != of->generation)))
			continue;
		one->busy++;
		break;
	}
	pthread_mutex_unlock(&spaces->lock);
	return i;
}

static void end_look(struct address_spaces *spaces, u32 at, int lives)
{
	struct address_space before = { .maps = -1, .life = -1 };
	struct address_space *one = &spaces->at[at];

	pthread_mutex_lock(&spaces->lock);
	if (--one->busy == 0 && !lives) {
		before = *one;
		*one = (struct address_space){ 0 };
	}
	pthread_mutex_unlock(&spaces->lock);
	close_both(&before);
}

void address_spaces_sweep(struct address_spaces *spaces, const struct asker *of)
{
	struct asker asker;
	u32 at;

	for (at = begin_look(spaces, of, 0); at < ADDRESS_SPACES_MAX; at = begin_look(spaces, of, at + 1)) {
		asker = asker_soon(spaces->looks, spaces->at[at].slot, spaces->at[at].generation);
		end_look(spaces, at, address_space_lives(&asker, &spaces->at[at]));
	}
}
