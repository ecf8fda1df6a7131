// SPDX-License-Identifier: Apache-2.0
/*
 * A thread is killed while its call is in the driver: its answer is taken back while the worker still holds what it
 * knows of the thread. Nothing that others have opened meanwhile may be closed with that.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../kmod/daemon/process.h" /* the core has another of this name */
#include "answers.h"
#include "task.h"

#define OPENED 8

static struct cgpud daemon_state;
static struct task_cache cache;
static struct exchange exchange;

static void check(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "not so: %s\n", what);
	exit(1);
}

static pid_t begin(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	check(pid > 0, "a process begins");
	return pid;
}

static void end(pid_t pid)
{
	check(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid, "the process ends");
}

int main(void)
{
	int opened[OPENED], null = open("/dev/null", O_RDWR | O_CLOEXEC), i;
	struct cgpud *d = &daemon_state;
	struct task task;
	pid_t pid;

	devices_init(&d->devices);
	d->pidfd_thread = process_has_thread_pidfd();
	pid = begin();
	task_init(&task, &cache, pid);
	check(task_take(d, &task, null, -1, 0) == 0, "its descriptor is copied");
	end(pid);

	exchange.notif.pid = (u32)pid;
	exchange.notif.data.args[0] = (u64)null;
	exchange.call.tgid = pid;
	d->exchanges.busy[0] = 1;
	answer_keep(d, &exchange);
	check(!d->exchanges.busy[0], "the answer is taken back");

	for (i = 0; i < OPENED; i++)
		opened[i] = fcntl(null, F_DUPFD_CLOEXEC, 0);
	task_drop(&task);
	task_cache_clear(&cache);
	for (i = 0; i < OPENED; i++)
		check(fcntl(opened[i], F_GETFD) >= 0, "what was opened meanwhile stays open");
	return 0;
}
