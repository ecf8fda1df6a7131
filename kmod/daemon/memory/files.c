// SPDX-License-Identifier: Apache-2.0
/* Registers files that memory was exported on, and finds those that are closed. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "clock.h"
#include "engine.h"
#include "files.h"
#include "watched.h"

/* The kernel forgets a file before it tells the driver of the close, and only then the driver frees. */
#define GRACE_MS 20
/* The upper part of a number says which container it is for. */
#define TAG_SHIFT 40
#define TAG_MASK 0xffffffull
#define LAST_MASK ((1ull << TAG_SHIFT) - 1)

static int is_known(const struct files *files, u64 number)
{
	u32 i;

	for (i = 0; i < files->known; i++)
		if (files->at[i] == number)
			return 1;
	return 0;
}

static u64 fresh_number(struct files *files, u64 generation)
{
	u64 number;

	do {
		files->last = (files->last + 1) & LAST_MASK;
		number = (generation & TAG_MASK) << TAG_SHIFT | files->last;
	} while (files->last == 0 || is_known(files, number));
	return number;
}

int files_open(struct files *files, int fd)
{
	int r;

	pthread_mutex_init(&files->lock, NULL);
	files->taken_up = fd >= 0 && watched_is(fd);
	if (fd >= 0 && !files->taken_up)
		close(fd);
	files->epoll = files->taken_up ? fd : epoll_create1(EPOLL_CLOEXEC);
	r = files->epoll < 0 ? -errno : watched_try();
	if (r == 0)
		r = watched_list(files->epoll, files->at, FILES_MAX);
	/* Numbers of calls that were under way are not given out again. */
	if (r >= 0 && getrandom(&files->last, sizeof(files->last), 0) != sizeof(files->last))
		r = -EIO;
	if (r < 0) {
		files_close(files);
		return r;
	}
	files->known = (u32)r;
	files->last &= LAST_MASK;
	return 0;
}

void files_close(struct files *files)
{
	if (files->epoll >= 0)
		close(files->epoll);
	files->epoll = -1;
	files->taken_up = 0;
}

void files_recover(struct cgpud *d)
{
	u32 lost;

	if (d->files.taken_up) {
		files_sweep(d);
		return;
	}
	lost = cgpu_files_lost(&d->core);
	if (lost)
		events_log(&d->events, LOG_LEVEL_ERROR,
			"memory that was exported on %u files stays charged for good: what watched these files is lost",
			lost);
}

/* Forget what is closed. files->lock is held. */
static int refresh(struct files *files)
{
	u64 now[FILES_MAX];
	int n = watched_list(files->epoll, now, FILES_MAX);

	if (n < 0)
		return n;
	memcpy(files->at, now, (size_t)n * sizeof(now[0]));
	files->known = (u32)n;
	return 0;
}

static u32 containers(struct cgpud *d)
{
	struct cgpu_container_info info;
	u32 at, n = 0;

	for (at = 0; cgpu_container_next(&d->core, at, &info) == 0; at = info.slot + 1)
		n++;
	return n;
}

/* Half of all is split evenly among the containers; the other half goes to who comes first. */
static int has_room(struct cgpud *d, u64 generation)
{
	struct files *files = &d->files;
	u32 i, own = 0, n;

	for (i = 0; i < files->known; i++)
		own += files->at[i] >> TAG_SHIFT == (generation & TAG_MASK);
	if (files->known >= FILES_MAX || own >= FILES_SHARE)
		return 0;
	if (files->known < FILES_MAX / 2)
		return 1;
	n = containers(d);
	return own < FILES_MAX / 2 / (n ? n : 1);
}

/* It has just been put in. */
static int keep(struct cgpud *d, int fd, u64 generation, u64 number)
{
	struct files *files = &d->files;

	if (!has_room(d, generation) && (refresh(files) < 0 || !has_room(d, generation))) {
		watched_drop(files->epoll, fd);
		return -ENOSPC;
	}
	/* A look may have listed it already. */
	if (!is_known(files, number))
		files->at[files->known++] = number;
	return 0;
}

int files_number(struct cgpud *d, int fd, u32 watch, u64 generation, u64 *number)
{
	struct files *files = &d->files;
	int r;

	pthread_mutex_lock(&files->lock);
	*number = fresh_number(files, generation);
	r = watched_add(files->epoll, fd, *number);
	if (r == -EEXIST)
		r = watched_find(files->epoll, fd, files->known, number);
	else if (r == 0 && watch)
		r = keep(d, fd, generation, *number);
	else if (r == 0)
		watched_drop(files->epoll, fd);
	pthread_mutex_unlock(&files->lock);
	return r == 0 || r == -EBADF ? r : -ENOSPC;
}

static int compare(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

/* Since when a file has been seen to be closed. */
static u64 gone_since(const struct files_gone *gone, u32 count, u64 file, u64 now)
{
	u32 i;

	for (i = 0; i < count; i++)
		if (gone[i].file == file)
			return gone[i].since;
	return now;
}

/* Compare the ledger with the list in files->at. */
static void find_gone(struct cgpud *d)
{
	struct files *files = &d->files;
	struct files_gone before[FILES_MAX];
	u32 cursor = 0, known = files->known, closing = files->closing;
	u64 sorted[FILES_MAX], now = clock_ms(), file;

	memcpy(before, files->gone, closing * sizeof(before[0]));
	memcpy(sorted, files->at, known * sizeof(sorted[0]));
	qsort(sorted, known, sizeof(sorted[0]), compare);
	files->closing = 0;
	while (files->closing < FILES_MAX && cgpu_file_next(&d->core, &cursor, &file) == 0) {
		if (bsearch(&file, sorted, known, sizeof(sorted[0]), compare))
			continue;
		files->gone[files->closing++] = (struct files_gone){ file, gone_since(before, closing, file, now) };
	}
}

/* Returns how many wait for their time. */
static u32 settle_gone(struct cgpud *d)
{
	struct files *files = &d->files;
	u64 now = clock_ms();
	u32 i, left = 0;

	for (i = 0; i < files->closing; i++) {
		if (now - files->gone[i].since >= GRACE_MS)
			cgpu_file_closed(&d->core, files->gone[i].file);
		else
			files->gone[left++] = files->gone[i];
	}
	files->closing = left;
	return left;
}

u32 files_sweep(struct cgpud *d)
{
	struct files *files = &d->files;
	u32 left = 0;

	pthread_mutex_lock(&files->lock);
	/* A file is put on the list before the ledger has anything of it. */
	if ((files->known || files->closing || files->taken_up) && refresh(files) == 0) {
		find_gone(d);
		left = settle_gone(d);
		files->taken_up = 0;
	}
	pthread_mutex_unlock(&files->lock);
	return left;
}
