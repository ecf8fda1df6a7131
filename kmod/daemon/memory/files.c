// SPDX-License-Identifier: Apache-2.0
/* Registers files that memory was exported on, and finds those that are closed. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "descriptors.h"
#include "engine.h"
#include "fair.h"
#include "files.h"

/* The kernel forgets a file before it tells the driver of the close, and only then the driver frees. */
#define GRACE_MS 20
/* The upper part of a number says which container it is for. */
#define TAG_SHIFT 40
#define TAG_MASK 0xffffffull
#define LAST_MASK ((1ull << TAG_SHIFT) - 1)
/* epoll knows an entry by file and descriptor, so every file is put under this number to be added, or found to be
 * there. The number is the same in the next process, and above the descriptors that it is handed. */
#define PLACE 5000
#define NUMBERS_MAX 2048

/* --- an epoll as a register of open files --- */

/* The process has one place, as it has one table of descriptors; the holder takes it while no file is there. */
static pthread_mutex_t place_lock = PTHREAD_MUTEX_INITIALIZER;
static int place_holder = -1;

static int reserve_place(void)
{
	int holder, r;

	if (place_holder >= 0)
		return 0;
	holder = eventfd(0, EFD_CLOEXEC);
	r = holder < 0 ? -1 : fcntl(holder, F_DUPFD_CLOEXEC, PLACE);
	if (r == PLACE) {
		place_holder = holder;
		return 0;
	}
	r = r < 0 ? -errno : (close(r), -EBUSY);
	close_any(holder);
	return r;
}

static int control(int epoll, int operation, int fd, u64 number)
{
	struct epoll_event event = { .data.u64 = number };
	int r;

	pthread_mutex_lock(&place_lock);
	r = reserve_place();
	if (r == 0) {
		r = dup3(fd, PLACE, O_CLOEXEC) < 0 || epoll_ctl(epoll, operation, PLACE, &event) < 0 ? -errno : 0;
		dup3(place_holder, PLACE, O_CLOEXEC);
	}
	pthread_mutex_unlock(&place_lock);
	return r;
}

/* Put in the file that a descriptor leads to. -EEXIST: it is in; -EBADF: the descriptor is open for nothing. */
static int watched_add(int epoll, int fd, u64 number)
{
	return control(epoll, EPOLL_CTL_ADD, fd, number);
}

static void watched_drop(int epoll, int fd)
{
	control(epoll, EPOLL_CTL_DEL, fd, 0);
}

/* Whether a descriptor is one. */
static int watched_is(int fd)
{
	static const char wanted[] = "anon_inode:[eventpoll]";
	char path[64], link[sizeof(wanted)];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, link, sizeof(link)) == sizeof(wanted) - 1 && !memcmp(link, wanted, sizeof(wanted) - 1);
}

/* 1: a file is at this place of the list. */
static int is_at(int epoll, u32 index, int fd)
{
	struct kcmp_epoll_slot slot = { .efd = (u32)epoll, .tfd = PLACE, .toff = index };

	return syscall(SYS_kcmp, getpid(), getpid(), KCMP_EPOLL_TFD, fd, &slot) == 0;
}

/* All numbers. Returns how many, or a negative errno: -E2BIG when there are more than most. */
static int watched_list(int epoll, u64 *numbers, u32 most)
{
	char path[64], line[256];
	unsigned long long data;
	FILE *file;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epoll);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	while (n >= 0 && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "tfd: %*d events: %*x data: %llx", &data) != 1)
			continue;
		if ((u32)n == most)
			n = -E2BIG;
		else
			numbers[n++] = data;
	}
	/* A list that broke off would be taken for the end of files. */
	if (ferror(file))
		n = -EIO;
	fclose(file);
	return n;
}

/* The number of a file that is in. most: at least as many as there are. */
static int watched_find(int epoll, int fd, u32 most, u64 *number)
{
	u64 numbers[NUMBERS_MAX];
	u32 i = most;
	int n;

	/* Entries go at any time, so places only ever become lower: a search downwards misses nothing. */
	while (i-- > 0) {
		if (!is_at(epoll, i, fd))
			continue;
		n = watched_list(epoll, numbers, NUMBERS_MAX);
		if (n < 0)
			return n;
		/* The file was at this place before the list was read and is after it, so it was meanwhile. */
		if (i < (u32)n && is_at(epoll, i, fd)) {
			*number = numbers[i];
			return 0;
		}
	}
	return -ENOENT;
}

/* Test epoll's behaviour with a file of our own. */
static int try_out(int epoll)
{
	int fd = eventfd(0, EFD_CLOEXEC), r;
	u64 number = 0;

	r = fd < 0 ? -errno : watched_add(epoll, fd, 1);
	if (r == 0 && watched_add(epoll, fd, 2) != -EEXIST)
		r = -ENOSYS;
	if (r == 0)
		r = watched_find(epoll, fd, 1, &number);
	if (r == 0 && number != 1)
		r = -ENOSYS;
	close_any(fd);
	if (r == 0)
		r = watched_list(epoll, &number, 1);
	return r > 0 ? -ENOSYS : r;
}

static int files_try(void)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), r;

	if (epoll < 0)
		return -errno;
	r = try_out(epoll);
	close(epoll);
	return r;
}

/* --- numbers --- */

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
	if (!files->taken_up)
		close_any(fd);
	files->epoll = files->taken_up ? fd : epoll_create1(EPOLL_CLOEXEC);
	r = files->epoll < 0 ? -errno : files_try();
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
	close_one(&files->epoll);
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

/* Forget files that are closed. files->lock is held. */
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

/* Half of all is split evenly among the containers; the other half goes to those that come first. */
static int has_room(struct cgpud *d, u64 generation)
{
	struct files *files = &d->files;
	struct fair fair;
	u32 i, own = 0;

	for (i = 0; i < files->known; i++)
		own += files->at[i] >> TAG_SHIFT == (generation & TAG_MASK);
	if (files->known >= FILES_MAX || own >= FILES_SHARE)
		return 0;
	if (files->known < FILES_MAX / 2)
		return 1;
	fair_begin(&fair, &d->core);
	return own < FILES_MAX / 2 / (fair.containers ? fair.containers : 1);
}

/* Account for a file that was just added to the epoll. */
static int keep(struct cgpud *d, int fd, u64 generation, u64 number)
{
	struct files *files = &d->files;

	if (!has_room(d, generation) && (refresh(files) < 0 || !has_room(d, generation))) {
		watched_drop(files->epoll, fd);
		return -ENOSPC;
	}
	/* A refresh may have listed it already. */
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

/* Time at which a file was first seen closed. */
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
