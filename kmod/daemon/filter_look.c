// SPDX-License-Identifier: Apache-2.0
/* Gets the filters of a process from the kernel, by tracing it for a moment from a thread that ends with that. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
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
#include "filter.h"

#define WAIT_MS 500

struct look {
	s32 pid;
	const char *cgroup;
	int result;
};

/* A number may be another process's by now. Where the cgroup tells nothing the caller has to know. */
static int is_of_container(s32 pid, const char *cgroup)
{
	return strcmp(cgroup, "/") == 0 || cgroup_holds(cgroup, pid);
}

/* Until it stands. Returns the signal that it is to get when it goes on, or a negative errno. */
static int await_stop(s32 pid)
{
	struct timespec pause = { .tv_nsec = 1000000 };
	int status, ms;

	for (ms = 0; ms < WAIT_MS; ms++) {
		pid_t r = waitpid(pid, &status, __WALL | WNOHANG);

		if (r < 0)
			return -errno;
		if (r == pid && !WIFSTOPPED(status))
			return -ESRCH;
		if (r == pid)
			return status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
		nanosleep(&pause, NULL);
	}
	return -ETIMEDOUT;
}

static int get_filters(s32 pid, struct filter **filters, u32 *count)
{
	for (*count = 0; *count < FILTERS_MAX; (*count)++) {
		struct filter *one = calloc(1, sizeof(*one));
		long n;

		if (!one)
			return -ENOMEM;
		n = ptrace(PTRACE_SECCOMP_GET_FILTER, pid, (void *)(long)*count, one->code);
		if (n < 0) {
			int error = errno;

			free(one);
			/* EINVAL: it has none at all. */
			return error == ENOENT || error == EINVAL ? 0 : -error;
		}
		one->count = (u32)n;
		filters[*count] = one;
	}
	return 0;
}

/* While it stands, so that its number stays its own. A process without its filter is not let go on. */
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

static void *look_at(void *argument)
{
	struct look *look = argument;
	int signal;

	if (ptrace(PTRACE_SEIZE, look->pid, NULL, NULL) < 0 || ptrace(PTRACE_INTERRUPT, look->pid, NULL, NULL) < 0) {
		look->result = -errno;
		return NULL;
	}
	signal = await_stop(look->pid);
	look->result = signal < 0 ? signal : judge(look->pid, look->cgroup);
	if (signal >= 0)
		ptrace(PTRACE_DETACH, look->pid, NULL, (void *)(long)signal);
	return NULL;
}

int cgpud_filtered(s32 pid, const char *cgroup)
{
	struct look look = { .pid = pid, .cgroup = cgroup, .result = -EAGAIN };
	pthread_t thread;

	if (pthread_create(&thread, NULL, look_at, &look) != 0)
		return -EAGAIN;
	pthread_join(thread, NULL);
	return look.result;
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
