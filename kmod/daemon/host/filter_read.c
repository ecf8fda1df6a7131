// SPDX-License-Identifier: Apache-2.0
/* Gets the filters of a process from the kernel, by tracing it for a moment from a thread that ends with that. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cgpud.h"
#include "cgroup.h"
#include "clock.h"
#include "filter.h"

#define WAIT_MS 500
#define FIRST_PAUSE_NS 20000
#define LAST_PAUSE_NS 1000000
#define GIVE_UP_MS 800
#define ABANDONED_MAX 256u

enum state { RUNNING, DONE, ABANDONED };

struct inspection {
	s32 pid;
	char cgroup[CGPU_CGROUP_BYTES];
	int result;
	_Atomic int state; /* the second of the two threads frees it */
};

/*
 * Inspections that nobody waits for any more. The kernel lets nobody attach to a process that executes a program, for as long as
 * that takes, and the process can make it last; no signal ends the wait but the end of this process, or of that one.
 */
static _Atomic u32 abandoned;

/* A number may be another process's by now. Where the cgroup tells nothing the caller has to know. */
static int is_of_container(s32 pid, const char *cgroup)
{
	return strcmp(cgroup, "/") == 0 || cgroup_holds(cgroup, pid);
}

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

/* While the process stands still, so that its number stays its own. One without its filter is not resumed. */
static int judge(s32 pid, const char *cgroup)
{
	struct filter *filters[FILTERS_MAX];
	u32 count, i;
	u64 salt = 0;
	int r;

	if (!is_of_container(pid, cgroup))
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

static int inspect(const struct inspection *inspection)
{
	int signal, r;

	if (ptrace(PTRACE_SEIZE, inspection->pid, NULL, NULL) < 0 ||
		ptrace(PTRACE_INTERRUPT, inspection->pid, NULL, NULL) < 0)
		return -errno;
	signal = await_stop(inspection->pid);
	r = signal < 0 ? signal : judge(inspection->pid, inspection->cgroup);
	if (signal >= 0)
		ptrace(PTRACE_DETACH, inspection->pid, NULL, (void *)(long)signal);
	return r;
}

static void *inspection_main(void *argument)
{
	struct inspection *inspection = argument;

	inspection->result = inspect(inspection);
	if (atomic_exchange(&inspection->state, DONE) == ABANDONED) {
		free(inspection);
		atomic_fetch_sub(&abandoned, 1);
	}
	return NULL;
}

static int await_inspection(pthread_t thread, struct inspection *inspection)
{
	struct timespec until = clock_until(GIVE_UP_MS);
	int r = -ETIMEDOUT;

	if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) != 0) {
		pthread_detach(thread);
		atomic_fetch_add(&abandoned, 1);
		if (atomic_exchange(&inspection->state, ABANDONED) != DONE)
			return r;
		atomic_fetch_sub(&abandoned, 1);
	}
	r = inspection->result;
	free(inspection);
	return r;
}

int cgpud_filtered(s32 pid, const char *cgroup)
{
	struct inspection *inspection;
	pthread_t thread;

	if (atomic_load(&abandoned) >= ABANDONED_MAX || strlen(cgroup) >= sizeof(inspection->cgroup))
		return -EAGAIN;
	inspection = calloc(1, sizeof(*inspection));
	if (!inspection)
		return -ENOMEM;
	inspection->pid = pid;
	strcpy(inspection->cgroup, cgroup);
	if (pthread_create(&thread, NULL, inspection_main, inspection) != 0) {
		free(inspection);
		return -EAGAIN;
	}
	return await_inspection(thread, inspection);
}

int cgpud_end_process(s32 pid, const char *cgroup)
{
	int handle = (int)syscall(SYS_pidfd_open, pid, 0), r = -ESRCH;

	if (handle < 0)
		return -errno;
	/* The handle stays with one process: what it is now it stays. */
	if (is_of_container(pid, cgroup))
		r = syscall(SYS_pidfd_send_signal, handle, SIGKILL, NULL, 0) < 0 ? -errno : 0;
	close(handle);
	return r;
}
