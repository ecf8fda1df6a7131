// SPDX-License-Identifier: Apache-2.0
/* The command, from its fork to the moment when it runs under observation. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "recorder.h"

void signals_of_interest(sigset_t *set)
{
	static const int passed[] = { SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
	size_t i;

	sigemptyset(set);
	for (i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
		sigaddset(set, passed[i]);
}

/* An older seccomp filter may hand calls to somebody else before the filter of the recorder sees them. */
static bool is_filtered(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	int mode = 0;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Seccomp: %d", &mode) == 1)
			break;
	}
	if (file)
		fclose(file);
	return mode != 0;
}

struct start {
	int go[2], failure[2];
	sigset_t mask;
};

static void child(struct recorder *r, const struct start *start)
{
	int error;
	char byte;

	close(start->go[1]);
	if (read(start->go[0], &byte, 1) != 1)
		_exit(EXIT_OWN);
	sigprocmask(SIG_SETMASK, &start->mask, NULL);
	error = !r->every_call && filter_install() ? -errno : 0;
	if (error == 0) {
		execvp(r->options->command[0], r->options->command);
		error = errno;
	}
	if (write(start->failure[1], &error, sizeof(error)) != sizeof(error))
		_exit(EXIT_OWN);
	_exit(EXIT_NOT_FOUND);
}

static int failed(const char *what, int error)
{
	fprintf(stderr, "cgpu-recorder: %s: %s\n", what, strerror(error));
	return EXIT_OWN;
}

static int observe(struct recorder *r)
{
	int error;

	if (ptrace(PTRACE_SEIZE, r->root, 0, TRACE_OPTIONS) == 0)
		return 0;
	error = errno;
	kill(r->root, SIGKILL);
	waitpid(r->root, NULL, 0);
	fprintf(stderr,
		"cgpu-recorder: the command cannot be observed: %s; expected a kernel.yama.ptrace_scope below 3, and in "
		"a container CAP_SYS_PTRACE\n",
		strerror(error));
	return EXIT_OWN;
}

int start_command(struct recorder *r)
{
	struct start start;
	sigset_t set;

	signal(SIGCHLD, SIG_DFL);
	signals_of_interest(&set);
	sigprocmask(SIG_BLOCK, &set, &start.mask);
	r->every_call = r->options->every_call || is_filtered();
	if (pipe2(start.go, O_CLOEXEC) || pipe2(start.failure, O_CLOEXEC | O_NONBLOCK))
		return failed("pipe", errno);
	r->failure = start.failure[0];
	r->root = fork();
	if (r->root < 0)
		return failed("fork", errno);
	if (r->root == 0)
		child(r, &start);
	close(start.go[0]);
	close(start.failure[1]);
	if (observe(r))
		return EXIT_OWN;
	if (!task_add(r, r->root, NULL))
		return failed("memory", ENOMEM);
	if (write(start.go[1], "", 1) != 1)
		return failed("pipe", errno);
	close(start.go[1]);
	return 0;
}

/* After the end: whether the command never ran. 0 when it did. */
int start_failure(const struct recorder *r)
{
	const char *command = r->options->command[0];
	int error = 0;

	if (read(r->failure, &error, sizeof(error)) != sizeof(error))
		return 0;
	if (error < 0)
		return failed("the command's calls cannot be filtered", -error);
	if (error == ENOENT)
		fprintf(stderr, "cgpu-recorder: %s: is not found; expected a program on PATH, or its path\n", command);
	else
		fprintf(stderr, "cgpu-recorder: %s: cannot be run: %s\n", command, strerror(error));
	return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}
