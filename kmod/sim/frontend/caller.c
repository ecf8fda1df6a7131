// SPDX-License-Identifier: Apache-2.0
/* A calling task's facts, from the kernel. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim.h"

/* pidfd_open(2): a descriptor of one thread, from Linux 6.9 on. */
#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

/* A line of /proc/PID/status after its name, or false. */
static bool status_line(pid_t pid, const char *name, char *out, size_t room)
{
	char path[48], text[4096];
	const char *at, *end;
	ssize_t size;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	size = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (size <= 0)
		return false;
	text[size] = '\0';
	at = strstr(text, name);
	if (!at)
		return false;
	at += strlen(name);
	end = strchrnul(at, '\n');
	if ((size_t)(end - at) >= room)
		return false;
	memcpy(out, at, (size_t)(end - at));
	out[end - at] = '\0';
	return true;
}

pid_t caller_process(const struct caller *caller)
{
	char line[64];

	if (!status_line(caller->thread, "\nTgid:", line, sizeof(line)))
		return 0;
	return (pid_t)strtol(line, NULL, 10);
}

/* The driver asks capable(): the initial user namespace, and the effective set of the task. */
static bool has_any(const struct caller *caller, uint64_t capabilities)
{
	char line[64], path[48];
	struct stat theirs, ours;

	if (!status_line(caller->thread, "\nCapEff:", line, sizeof(line)))
		return false;
	if (!(strtoull(line, NULL, 16) & capabilities))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/ns/user", caller->thread);
	if (stat(path, &theirs) || stat("/proc/self/ns/user", &ours))
		return false;
	return theirs.st_ino == ours.st_ino && theirs.st_dev == ours.st_dev;
}

bool caller_is_admin(const struct caller *caller)
{
	return has_any(caller, 1ull << CAP_SYS_ADMIN);
}

/* rs_access_rights.c:46, os-interface.c:383 */
bool caller_is_nice(const struct caller *caller)
{
	return has_any(caller, 1ull << CAP_SYS_NICE | 1ull << CAP_SYS_ADMIN);
}

int caller_descriptor(const struct caller *caller, int fd)
{
	pid_t leader;
	int pidfd, copy;

	if (fd < 0)
		return -1;
	pidfd = (int)syscall(SYS_pidfd_open, caller->thread, PIDFD_THREAD);
	if (pidfd < 0 && errno == EINVAL) {
		/* An older kernel: the leader's table is the thread's own only when they share it. */
		leader = caller_process(caller);
		if (leader != caller->thread && syscall(SYS_kcmp, leader, caller->thread, KCMP_FILES, 0, 0) != 0)
			return -1;
		pidfd = (int)syscall(SYS_pidfd_open, leader, 0);
	}
	if (pidfd < 0)
		return -1;
	copy = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	close(pidfd);
	return copy;
}
