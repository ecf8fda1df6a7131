// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "process.h"

/* include/uapi/linux/pidfd.h of newer kernels than the build machine's may be. */
#define CGPU_PIDFD_THREAD O_EXCL
#define CGPU_PIDFD_GET_INFO _IOWR(0xff, 11, struct pidfd_info_v0)
#define CGPU_PIDFD_INFO_PID 1u
/* include/uapi/linux/kcmp.h */
#define CGPU_KCMP_FILE 0
#define CGPU_KCMP_FILES 2

/* proc_pid_stat(5) */
#define STAT_FLAGS 9
#define STAT_STARTED 22
/* include/linux/sched.h */
#define CGPU_PF_EXITING 4u

#define DESCRIPTORS_MAX 4096 /* of one process that are looked at */

struct pidfd_info_v0 {
	u64 mask;
	u64 cgroupid;
	u32 pid, tgid, ppid;
	u32 ids[8];
	u32 spare;
};

u32 process_has_thread_pidfd(void)
{
	int fd = process_open((s32)syscall(SYS_gettid), 1);

	if (fd < 0)
		return 0;
	close(fd);
	return 1;
}

int process_open(s32 pid, u32 thread)
{
	long fd = syscall(SYS_pidfd_open, pid, thread ? CGPU_PIDFD_THREAD : 0);

	return fd < 0 ? -errno : (int)fd;
}

int process_take_fd(int pidfd, int fd)
{
	long copy = syscall(SYS_pidfd_getfd, pidfd, fd, 0);

	return copy < 0 ? -errno : (int)copy;
}

int process_ended(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

int process_has_ended(s32 tgid)
{
	int fd = process_open(tgid, 0);
	int ended = fd == -ESRCH || (fd >= 0 && process_ended(fd));

	if (fd >= 0)
		close(fd);
	return ended;
}

static long read_text(const char *path, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, text, bytes - 1);
	close(fd);
	if (n < 0)
		return -errno;
	text[n] = 0;
	return n;
}

s32 process_tgid(int pidfd, s32 tid)
{
	struct pidfd_info_v0 info = { .mask = CGPU_PIDFD_INFO_PID };
	char path[64], text[2048];
	const char *at;

	if (pidfd >= 0 && ioctl(pidfd, CGPU_PIDFD_GET_INFO, &info) == 0 && info.tgid)
		return (s32)info.tgid;
	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	if (read_text(path, text, sizeof(text)) < 0)
		return -ESRCH;
	/* The name comes first and is escaped: no newline in it can forge this line. */
	at = strstr(text, "\nTgid:");
	if (!at)
		return -ESRCH;
	return (s32)strtol(at + 6, NULL, 10);
}

/* A field of proc_pid_stat(5), counted from 1. 0 also when it has ended. */
static u64 stat_field(s32 tid, int wanted)
{
	char path[64], text[1024];
	const char *at;
	int field;

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	if (read_text(path, text, sizeof(text)) < 0)
		return 0;
	at = strrchr(text, ')');
	/* After the name: field 3 is the state. */
	for (field = 2; at && field < wanted; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at + 1, NULL, 10) : 0;
}

u64 process_started(s32 tid)
{
	return stat_field(tid, STAT_STARTED);
}

int process_is_exiting(s32 tid)
{
	return (stat_field(tid, STAT_FLAGS) & CGPU_PF_EXITING) != 0;
}

int process_same_files(s32 tid, s32 other)
{
	long r;

	if (tid == other)
		return 1;
	r = syscall(SYS_kcmp, tid, other, CGPU_KCMP_FILES, 0, 0);
	return r < 0 ? -errno : r == 0;
}

int process_same_file(s32 tid, int fd, int ours)
{
	long r = syscall(SYS_kcmp, tid ? tid : getpid(), getpid(), CGPU_KCMP_FILE, fd, ours);

	return r < 0 ? -errno : r == 0;
}

/* Of another user the directory is closed to who has given up its rights. The numbers have no gaps to speak of. */
static int search_numbers(s32 tgid, int ours, int *number)
{
	int at, r = 0;

	for (at = 0; at < DESCRIPTORS_MAX && r == 0; at++) {
		r = process_same_file(tgid, at, ours);
		if (r == 1)
			*number = at;
		r = r == -EBADF ? 0 : r;
	}
	return r == -ESRCH ? 0 : r;
}

static int search_thread(s32 tid, int ours, int *number)
{
	struct dirent *entry;
	char path[64];
	DIR *folder;
	u32 seen = 0;
	int r = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", tid);
	folder = opendir(path);
	if (!folder)
		return errno == ENOENT ? 0 : errno == EACCES ? search_numbers(tid, ours, number) : -errno;
	while (r == 0 && (entry = readdir(folder))) {
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
			continue;
		if (++seen > DESCRIPTORS_MAX) {
			r = -E2BIG;
			break;
		}
		*number = (int)strtol(entry->d_name, NULL, 10);
		r = process_same_file(tid, *number, ours);
		/* It has just been closed, or its thread has ended. */
		r = r == -EBADF || r == -ESRCH ? 0 : r;
	}
	closedir(folder);
	return r;
}

/* A process outlives the thread that it is named by. */
static int leader_has_ended(s32 tgid)
{
	char path[64], text[1024];
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d/stat", tgid);
	if (read_text(path, text, sizeof(text)) < 0)
		return 0;
	at = strrchr(text, ')');
	return at && (at[1] == ' ') && (at[2] == 'Z' || at[2] == 'X');
}

int process_has_file(s32 tgid, int ours, int *number)
{
	int r = search_thread(tgid, ours, number);
	struct dirent *entry;
	char path[64];
	DIR *folder;

	if (r || !leader_has_ended(tgid))
		return r;
	snprintf(path, sizeof(path), "/proc/%d/task", tgid);
	folder = opendir(path);
	while (folder && r == 0 && (entry = readdir(folder))) {
		if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
			r = search_thread((s32)strtol(entry->d_name, NULL, 10), ours, number);
	}
	if (folder)
		closedir(folder);
	return r;
}

int process_read(s32 pid, u64 address, void *data, size_t bytes)
{
	struct iovec here = { .iov_base = data, .iov_len = bytes };
	struct iovec there = { .iov_base = (void *)(uintptr_t)address, .iov_len = bytes };

	if (!bytes)
		return 0;
	return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)bytes ? 0 : -EFAULT;
}

int process_write(s32 pid, u64 address, const void *data, size_t bytes)
{
	struct iovec here = { .iov_base = (void *)(uintptr_t)data, .iov_len = bytes };
	struct iovec there = { .iov_base = (void *)(uintptr_t)address, .iov_len = bytes };

	if (!bytes)
		return 0;
	return process_vm_writev(pid, &here, 1, &there, 1, 0) == (ssize_t)bytes ? 0 : -EFAULT;
}
