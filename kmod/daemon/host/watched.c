// SPDX-License-Identifier: Apache-2.0
/* An epoll as a register of open files: adds, finds and lists them. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/kcmp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "watched.h"

/* An entry goes by file and descriptor, so every file is put under this one to be added, or found to be there. It is the same
 * in the next process, and above what that is handed. */
#define PLACE 5000
#define NUMBERS_MAX 2048

/* Of the process, as descriptors are: the place, and what keeps others from it while no file is there. */
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
	if (holder >= 0)
		close(holder);
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

int watched_add(int epoll, int fd, u64 number)
{
	return control(epoll, EPOLL_CTL_ADD, fd, number);
}

void watched_drop(int epoll, int fd)
{
	control(epoll, EPOLL_CTL_DEL, fd, 0);
}

int watched_is(int fd)
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

int watched_find(int epoll, int fd, u32 most, u64 *number)
{
	u64 numbers[NUMBERS_MAX];
	u32 i = most;
	int n;

	/* Entries go at any time, so places only ever become lower: who goes down misses nothing. */
	while (i-- > 0) {
		if (!is_at(epoll, i, fd))
			continue;
		n = watched_list(epoll, numbers, NUMBERS_MAX);
		if (n < 0)
			return n;
		/* It was there before and is there after: so it was there meanwhile. */
		if (i < (u32)n && is_at(epoll, i, fd)) {
			*number = numbers[i];
			return 0;
		}
	}
	return -ENOENT;
}

int watched_list(int epoll, u64 *numbers, u32 most)
{
	char path[64], line[256];
	unsigned long long data;
	u32 n = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", epoll);
	file = fopen(path, "re");
	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "tfd: %*d events: %*x data: %llx", &data) != 1)
			continue;
		if (n == most) {
			fclose(file);
			return -E2BIG;
		}
		numbers[n++] = data;
	}
	/* A list that broke off would be taken for the end of files. */
	if (ferror(file)) {
		fclose(file);
		return -EIO;
	}
	fclose(file);
	return (int)n;
}

/* With a file of our own. */
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
	if (fd >= 0)
		close(fd);
	if (r == 0)
		r = watched_list(epoll, &number, 1);
	return r > 0 ? -ENOSYS : r;
}

int watched_try(void)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), r;

	if (epoll < 0)
		return -errno;
	r = try_out(epoll);
	close(epoll);
	return r;
}
