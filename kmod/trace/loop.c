// SPDX-License-Identifier: Apache-2.0
/* Waiting for tasks to stop, and letting them go on. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder.h"

#define SYSCALL_STOP (SIGTRAP | 0x80)

static void go_on(struct recorder *r, const struct task *task, int signal)
{
	bool at_end = r->every_call || task->pending.op != OP_NONE;

	ptrace(at_end ? PTRACE_SYSCALL : PTRACE_CONT, task->tid, 0, (long)signal);
}

static void begin(struct recorder *r, struct task *task, uint32_t arch, uint64_t number, const uint64_t *args)
{
	struct pending *pending = &task->pending;
	unsigned int i;

	pending->op = op_of(arch, number);
	pending->arch = arch;
	pending->number = number;
	for (i = 0; i < 6; i++)
		pending->args[i] = args[i];
	if (pending->op != OP_NONE && !event_begin(r, task))
		pending->op = OP_NONE;
}

static void at_call(struct recorder *r, struct task *task)
{
	struct __ptrace_syscall_info info = { 0 };

	if (ptrace(PTRACE_GET_SYSCALL_INFO, task->tid, sizeof(info), &info) <= 0)
		return;
	if (info.op == PTRACE_SYSCALL_INFO_SECCOMP)
		begin(r, task, info.arch, info.seccomp.nr, info.seccomp.args);
	else if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
		begin(r, task, info.arch, info.entry.nr, info.entry.args);
	else if (info.op == PTRACE_SYSCALL_INFO_EXIT && task->pending.op != OP_NONE)
		event_end(r, task, info.exit.rval);
}

/* The parent stops here before its call returns, so that its descriptors are those of the child. */
static void at_fork(struct recorder *r, const struct task *task)
{
	unsigned long child = 0;

	if (ptrace(PTRACE_GETEVENTMSG, task->tid, 0, &child) == 0 && !task_find(r, (pid_t)child))
		task_add(r, (pid_t)child, task);
}

/* The command runs: write the first line. */
static void recording_begin(struct recorder *r)
{
	const char *slash = strrchr(r->options->command[0], '/');

	r->begun = true;
	/* An older trace is cut only when the command runs. A pipe cannot be cut, and need not be. */
	if (ftruncate(r->output.fd, 0) && errno != EINVAL)
		r->output.error = errno;
	r->output.ready = true;
	put_header(&r->output, &r->version, r->options, slash ? slash + 1 : r->options->command[0]);
}

/* The thread that called has the number of its process now, and its descriptors. */
static void at_exec(struct recorder *r, struct task *task)
{
	unsigned long former = 0;
	struct task *caller;

	if (ptrace(PTRACE_GETEVENTMSG, task->tid, 0, &former) == 0 && (pid_t)former != task->tid) {
		caller = task_find(r, (pid_t)former);
		if (caller && caller->table != task->table) {
			struct table *table = caller->table;

			caller->table = task->table;
			task->table = table;
		}
	}
	if (task->tid == r->root && !r->begun)
		recording_begin(r);
	task_exec(r, task->tid);
}

static bool is_stop_signal(int signal)
{
	return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
}

static void stopped(struct recorder *r, struct task *task, int status)
{
	int signal = WSTOPSIG(status), event = status >> 16;

	if (signal == SYSCALL_STOP || event == PTRACE_EVENT_SECCOMP)
		at_call(r, task);
	else if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE)
		at_fork(r, task);
	else if (event == PTRACE_EVENT_EXEC)
		at_exec(r, task);
	else if (event == PTRACE_EVENT_STOP && is_stop_signal(signal)) {
		ptrace(PTRACE_LISTEN, task->tid, 0, 0);
		return;
	}
	go_on(r, task, event == 0 && signal != SYSCALL_STOP ? signal : 0);
}

/* False when no task is left. */
static bool reap(struct recorder *r)
{
	int status;
	pid_t tid;

	/* Without __WALL, which would report the reader of memory.c too. The observed are reported in any case. */
	while ((tid = waitpid(-1, &status, WNOHANG)) != 0) {
		struct task *task;

		if (tid < 0 && errno == EINTR)
			continue;
		if (tid < 0)
			return false;
		task = task_find(r, tid);
		if (WIFSTOPPED(status)) {
			if (!task)
				task = task_add(r, tid, NULL);
			if (task)
				stopped(r, task, status);
			else
				ptrace(PTRACE_DETACH, tid, 0, 0);
		} else if (task) {
			task_gone(r, task, status);
		}
	}
	return true;
}

/* A terminal sends its signals to the command as well; what was sent to us alone is passed on. */
static void pass_on(struct recorder *r, const siginfo_t *info)
{
	if (info->si_signo != SIGCHLD && info->si_code <= 0 && task_find(r, r->root))
		kill(r->root, info->si_signo);
}

void loop_run(struct recorder *r)
{
	siginfo_t info;
	sigset_t set;

	signals_of_interest(&set);
	while (reap(r)) {
		if (sigwaitinfo(&set, &info) > 0)
			pass_on(r, &info);
	}
}
