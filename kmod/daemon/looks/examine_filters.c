// SPDX-License-Identifier: Apache-2.0
/* Examines the seccomp filters of a process, by tracing it for a moment. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cgroup.h"
#include "clock.h"
#include "examine.h"
#include "filter.h"
#include "looks.h"
#include "privilege.h"
#include "processes.h"

#define WAIT_MS 500
#define FIRST_PAUSE_NS 20000
#define LAST_PAUSE_NS 1000000

/* Wait until the process stands still. Returns the signal that it is to get when it goes on, or a negative errno. */
static int await_stop(s32 pid)
{
	struct timespec pause = { .tv_nsec = FIRST_PAUSE_NS };
	u64 end = clock_ms() + WAIT_MS;
	int status;

	for (;;) {
		pid_t r = waitpid(pid, &status, __WALL | WNOHANG);

		if (r < 0)
			return -errno;
		if (r == pid && !WIFSTOPPED(status))
			return -ESRCH;
		if (r == pid)
			return status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
		if (clock_ms() >= end)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
		/* A process that stands still soon goes on soon: a container's first one is on its way to its program. */
		pause.tv_nsec = pause.tv_nsec * 2 < LAST_PAUSE_NS ? pause.tv_nsec * 2 : LAST_PAUSE_NS;
	}
}

/* The kernel counts from the oldest one on. */
static int count_filters(s32 pid, u32 *count)
{
	u32 low = 0, high = ALL_FILTERS_MAX;

	while (low < high) {
		u32 middle = (low + high) / 2;

		if (ptrace(PTRACE_SECCOMP_GET_FILTER, pid, (void *)(long)middle, NULL) >= 0)
			low = middle + 1;
		/* EINVAL: it has none at all. */
		else if (errno == ENOENT || errno == EINVAL)
			high = middle;
		else
			return -errno;
	}
	*count = low;
	return 0;
}

static int get_filters(s32 pid, struct filter **filters, u32 *count)
{
	u32 all = 0, first;
	int r = count_filters(pid, &all);

	*count = 0;
	if (r)
		return r;
	for (first = all > FILTERS_MAX ? all - FILTERS_MAX : 0; first < all; first++) {
		struct filter *one = calloc(1, sizeof(*one));
		long n;

		if (!one)
			return -ENOMEM;
		n = ptrace(PTRACE_SECCOMP_GET_FILTER, pid, (void *)(long)first, one->code);
		if (n < 0) {
			r = -errno;
			free(one);
			return r;
		}
		one->count = (u32)n;
		filters[(*count)++] = one;
	}
	return 0;
}

static int share_namespace(s32 pid, s32 other, const char *namespace)
{
	struct stat of_one, of_other;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, namespace);
	if (stat(path, &of_one))
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/ns/%s", other, namespace);
	return stat(path, &of_other) == 0 && of_one.st_dev == of_other.st_dev && of_one.st_ino == of_other.st_ino;
}

/* group: a cgroup, or LOOK_BESIDE and a process. */
static int is_of(s32 pid, const char *group)
{
	s32 other;

	if (sscanf(group, LOOK_BESIDE "%d", &other) != 1)
		return cgroup_holds(group, pid);
	return share_namespace(pid, other, "pid") && share_namespace(pid, other, "mnt");
}

/* The process stands still, so that its number stays its own. A process without its filter is not resumed. */
static int judge(s32 pid, const char *group)
{
	struct filter *filters[FILTERS_MAX];
	u32 count, i;
	u64 salt = 0;
	int r;

	if (!is_of(pid, group))
		return -ESRCH;
	r = get_filters(pid, filters, &count);
	if (getrandom(&salt, sizeof(salt), GRND_NONBLOCK) < 0)
		salt = (u64)pid;
	if (r == 0)
		r = filters_hold((const struct filter *const *)filters, count, salt);
	for (i = 0; i < count; i++)
		free(filters[i]);
	if (r == 0)
		kill(pid, SIGKILL);
	return r;
}

static int trace(s32 pid, const char *cgroup)
{
	int signal, r;

	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0 || ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0)
		return -errno;
	signal = await_stop(pid);
	r = signal < 0 ? signal : judge(pid, cgroup);
	if (signal >= 0)
		ptrace(PTRACE_DETACH, pid, NULL, (void *)(long)signal);
	return r;
}

/*
 * The kernel refuses (EPERM) to trace a process that has ended as it refuses others. A process whose first thread alone
 * has ended goes on by the other threads.
 */
static int trace_if_alive(s32 pid, const char *cgroup)
{
	int pidfd = process_open(pid, 0);
	int r;

	if (pidfd < 0)
		return pidfd;
	r = trace(pid, cgroup);
	if (r == -EPERM && process_ends(pidfd, WAIT_MS))
		r = -ESRCH;
	close(pidfd);
	return r;
}

int examine_filters(s32 pid, const char *cgroup)
{
	int r = privilege_raise(PRIVILEGE_TRACING);

	if (r == 0)
		r = trace_if_alive(pid, cgroup);
	privilege_lower();
	return r;
}
