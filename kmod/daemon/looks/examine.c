// SPDX-License-Identifier: Apache-2.0
/* Examines a process of a container: its descriptors, its times, and the tables that its threads share. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "examine.h"
#include "privilege.h"
#include "processes.h"

/* include/uapi/linux/kcmp.h */
#define CGPU_KCMP_FILE 0
#define CGPU_KCMP_FILES 2

/* proc_pid_stat(5) */
#define STAT_FLAGS 9
#define STAT_STARTED 22
/* include/linux/sched.h */
#define CGPU_PF_EXITING 4u

#define DESCRIPTORS_MAX 4096 /* of one process that are looked at */

int examine_file(s32 tid, int number, struct identity *identity)
{
	char path[64];
	int r;

	/* The link leads to the open file itself: no file system is asked on the way (fs/proc/base.c, proc_pid_get_link). */
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", tid, number);
	r = identity_of(AT_FDCWD, path, identity);
	/* The folder is another user's. Or the file's own file system hides it from others: then this fails, too. */
	if (r == -EACCES && privilege_raise(PRIVILEGE_FILES) == 0) {
		r = identity_of(AT_FDCWD, path, identity);
		privilege_lower();
	}
	return r;
}

int examine_open(s32 tid, const char *name, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", tid, name);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0 && errno == EACCES && privilege_raise(PRIVILEGE_FILES) == 0) {
		fd = open(path, flags | O_CLOEXEC);
		fd = fd < 0 ? -errno : fd;
		privilege_lower();
		return fd;
	}
	return fd < 0 ? -errno : fd;
}

/* The text behind the name in proc_pid_stat(5), from field 3, the state, on. NULL when the thread has ended. */
static const char *stat_after_name(s32 tid, char *text, size_t bytes)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	return read_text(path, text, bytes) < 0 ? NULL : strrchr(text, ')');
}

/* A field of proc_pid_stat(5), counted from 1; after: from stat_after_name(). */
static u64 stat_field(const char *after, int wanted)
{
	int field;

	for (field = 2; after && field < wanted; field++)
		after = strchr(after + 1, ' ');
	return after ? strtoull(after + 1, NULL, 10) : 0;
}

void examine_stat(s32 tid, struct look_stat *stat)
{
	char text[1024];
	const char *after = stat_after_name(tid, text, sizeof(text));

	stat->started = stat_field(after, STAT_STARTED);
	stat->exiting = (stat_field(after, STAT_FLAGS) & CGPU_PF_EXITING) != 0;
}

s32 examine_tgid(s32 tid)
{
	char path[64], text[2048];
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	if (read_text(path, text, sizeof(text)) < 0)
		return -ESRCH;
	/* The name comes first and is escaped: no newline in it can forge this line. */
	at = strstr(text, "\nTgid:");
	return at ? (s32)strtol(at + 6, NULL, 10) : -ESRCH;
}

int examine_same_files(s32 tid, s32 other)
{
	long r = tid == other ? 0 : syscall(SYS_kcmp, tid, other, CGPU_KCMP_FILES, 0, 0);

	return r < 0 ? -errno : r == 0;
}

int examine_same_file(s32 tid, int number, int ours)
{
	long r = syscall(SYS_kcmp, tid, getpid(), CGPU_KCMP_FILE, number, ours);

	return r < 0 ? -errno : r == 0;
}

/* The kernel lists no descriptors of a process that it closes to us, so try all numbers. */
static int search_numbers(s32 tgid, int ours, int *number)
{
	int at, r = 0;

	for (at = 0; at < DESCRIPTORS_MAX && r == 0; at++) {
		r = examine_same_file(tgid, at, ours);
		if (r == 1)
			*number = at;
		r = r == -EBADF ? 0 : r;
	}
	return r == -ESRCH ? 0 : r;
}

static DIR *open_folder(s32 tid, const char *name)
{
	int fd = examine_open(tid, name, O_RDONLY | O_DIRECTORY);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);

	if (fd < 0)
		errno = -fd;
	else if (!folder)
		close(fd);
	return folder;
}

/* The next entry that is a number; -1: there is none. */
static int next_number(DIR *folder)
{
	const struct dirent *entry;

	while ((entry = readdir(folder)))
		if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
			return (int)strtol(entry->d_name, NULL, 10);
	return -1;
}

static int search_thread(s32 tid, int ours, int *number)
{
	DIR *folder = open_folder(tid, "fd");
	u32 seen = 0;
	int r = 0, at;

	if (!folder)
		return errno == ENOENT ? 0 : errno == EACCES ? search_numbers(tid, ours, number) : -errno;
	while (r == 0 && (at = next_number(folder)) >= 0) {
		if (++seen > DESCRIPTORS_MAX) {
			r = -E2BIG;
			break;
		}
		*number = at;
		r = examine_same_file(tid, at, ours);
		/* The descriptor has just been closed, or its thread has ended. */
		r = r == -EBADF || r == -ESRCH ? 0 : r;
	}
	closedir(folder);
	return r;
}

/* A process outlives the thread that it is named by. */
static int leader_has_ended(s32 tgid)
{
	char text[1024];
	const char *at = stat_after_name(tgid, text, sizeof(text));

	return at && (at[1] == ' ') && (at[2] == 'Z' || at[2] == 'X');
}

int examine_has_file(s32 tgid, int ours, int *number)
{
	int r = search_thread(tgid, ours, number), tid;
	DIR *folder;

	if (r || !leader_has_ended(tgid))
		return r;
	folder = open_folder(tgid, "task");
	if (!folder)
		return errno == ENOENT || errno == ESRCH ? 0 : -errno;
	while (r == 0 && (tid = next_number(folder)) >= 0)
		r = search_thread(tid, ours, number);
	closedir(folder);
	return r;
}

int examine_files(s32 tgid, file_fn each, void *ctx)
{
	DIR *folder = open_folder(tgid, "fd");
	int seen = 0, r = 0, at;

	if (!folder)
		return -errno;
	while (r == 0 && seen++ < DESCRIPTORS_MAX && (at = next_number(folder)) >= 0)
		r = each(ctx, at);
	closedir(folder);
	return r;
}
