// SPDX-License-Identifier: Apache-2.0
/* Opens processes and their memory, and tells whether they have ended, by numbers that are checked. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cgpu_core.h"
#include "descriptors.h"
#include "privilege.h"
#include "processes.h"

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

int notice_stands(const struct notice *notice)
{
	u64 id = notice->id;

	return ioctl(notice->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

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

	close_any(fd);
	return ended;
}

long read_text(const char *path, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t have = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	while (have < bytes - 1 && (n = read(fd, text + have, bytes - 1 - have)) > 0)
		have += (size_t)n;
	close(fd);
	text[have] = 0;
	return (long)have;
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

/* What follows the name in proc_pid_stat(5): field 3 is the state. NULL when the thread has ended. */
static const char *stat_after_name(s32 tid, char *text, size_t bytes)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	return read_text(path, text, bytes) < 0 ? NULL : strrchr(text, ')');
}

/* A field of proc_pid_stat(5), counted from 1. 0 also when it has ended. */
static u64 stat_field(s32 tid, int wanted)
{
	char text[1024];
	const char *at = stat_after_name(tid, text, sizeof(text));
	int field;

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

/* Another user's directory is closed to a thread that has given up its rights. The numbers have no gaps to speak of. */
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
	char text[1024];
	const char *at = stat_after_name(tgid, text, sizeof(text));

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

int process_open_file(s32 tid, const char *name, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", tid, name);
	fd = open(path, flags | O_CLOEXEC);
	if (fd < 0 && errno == EACCES && privilege_raise() == 0) {
		fd = open(path, flags | O_CLOEXEC);
		fd = fd < 0 ? -errno : fd;
		privilege_lower();
		return fd;
	}
	return fd < 0 ? -errno : fd;
}

/*
 * By memory of this thread's own: a page that a container serves itself can keep the kernel here until long after this process
 * was killed, and the memory that it then writes to must not be what the next daemon works with.
 */
static _Thread_local u8 between[CGPU_SEGMENT_MAX];

/* fs/proc/base.c, mem_rw(): what cannot be reached ends it early; nothing is reached where nobody uses the address space. */
int process_read(int memory, u64 address, void *data, size_t bytes)
{
	if (!bytes)
		return 0;
	if (bytes > sizeof(between) || pread(memory, between, bytes, (off_t)address) != (ssize_t)bytes)
		return -EFAULT;
	memcpy(data, between, bytes);
	return 0;
}

int process_write(int memory, u64 address, const void *data, size_t bytes)
{
	if (!bytes)
		return 0;
	if (bytes > sizeof(between))
		return -EFAULT;
	memcpy(between, data, bytes);
	return pwrite(memory, between, bytes, (off_t)address) == (ssize_t)bytes ? 0 : -EFAULT;
}
