// SPDX-License-Identifier: Apache-2.0
/*
 * escape WAY... -- PROGRAM [ARGUMENT...]
 *
 * Changes what a process could be known by, one way after the other, then becomes the program:
 *   user pid mount cgroup uts ipc net time   a namespace of its own of this kind
 *   join=DIR   moves itself into a control group
 *   into=DIR   a child that is born in that group (clone3)
 *   thread     a second thread goes on, and takes the place of the first
 *   fork       a child
 * A child's exit status becomes our own. A way that is not open ends it with status 9.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rm_client.h"

#define NOT_OPEN 9

static const struct {
	const char *name;
	int flag;
} namespaces[] = {
	{ "user", CLONE_NEWUSER },
	{ "pid", CLONE_NEWPID },
	{ "mount", CLONE_NEWNS },
	{ "cgroup", CLONE_NEWCGROUP },
	{ "uts", CLONE_NEWUTS },
	{ "ipc", CLONE_NEWIPC },
	{ "net", CLONE_NEWNET },
	{ "time", CLONE_NEWTIME },
};

static void not_open(const char *way)
{
	fprintf(stderr, "escape: %s: not open: %s\n", way, strerror(errno));
	exit(NOT_OPEN);
}

/* The child goes on; the parent ends as it does. */
static void follow(pid_t child, const char *way)
{
	int status;

	if (child < 0)
		not_open(way);
	if (child == 0)
		return;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void join(const char *directory)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", directory);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, "0", 1) != 1)
		not_open(path);
	close(fd);
}

static void into(const char *directory)
{
	struct clone_args arguments = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD };
	int fd = open(directory, O_RDONLY | O_DIRECTORY);

	arguments.cgroup = (uint64_t)fd;
	if (fd < 0)
		not_open(directory);
	follow((pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments)), directory);
}

static char **rest;

static void *go_on(void *unused)
{
	(void)unused;
	execv(rest[0], rest);
	_exit(NOT_OPEN);
}

static void second_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, go_on, NULL))
		not_open("thread");
	for (;;)
		pause();
}

static void write_map(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		not_open(path);
	close(fd);
}

/* A process that is nobody in its namespace cannot make the next one. */
static void map_root(void)
{
	write_map("/proc/self/setgroups", "deny");
	write_map("/proc/self/uid_map", "0 0 1");
	write_map("/proc/self/gid_map", "0 0 1");
}

static void take(const char *way)
{
	size_t i;

	for (i = 0; i < sizeof(namespaces) / sizeof(namespaces[0]); i++) {
		if (strcmp(way, namespaces[i].name) != 0)
			continue;
		if (unshare(namespaces[i].flag))
			not_open(way);
		if (namespaces[i].flag == CLONE_NEWUSER)
			map_root();
		if (namespaces[i].flag == CLONE_NEWPID || namespaces[i].flag == CLONE_NEWTIME)
			follow(fork(), way);
		return;
	}
	if (strncmp(way, "join=", 5) == 0)
		join(way + 5);
	else if (strncmp(way, "into=", 5) == 0)
		into(way + 5);
	else if (strcmp(way, "fork") == 0)
		follow(fork(), way);
	else if (strcmp(way, "thread") == 0)
		second_thread();
	else
		errno = EINVAL, not_open(way);
}

int main(int argc, char **argv)
{
	int at, end = 1;

	while (end < argc && strcmp(argv[end], "--") != 0)
		end++;
	if (end + 1 >= argc)
		return fprintf(stderr, "usage: escape WAY... -- PROGRAM [ARGUMENT...]\n"), 2;
	rest = argv + end + 1;
	for (at = 1; at < end; at++)
		take(argv[at]);
	execv(rest[0], rest);
	not_open(rest[0]);
}
