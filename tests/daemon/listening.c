// SPDX-License-Identifier: Apache-2.0
/* Who is served, with eventfds in the place of listeners. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "listener.h"

#define SHARE 2
#define CROWD 16
#define WAITING 3

static struct listeners listeners;

static void check(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "not so: %s\n", what);
	exit(1);
}

static int is_ready(void)
{
	struct pollfd p = { .fd = listeners.epoll, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* Returns what is heard. */
static u64 next(void)
{
	u32 events;
	s64 event;

	check(is_ready(), "somebody is to be served");
	event = listener_wait(&listeners, &events);
	check(event >= 0 && event != LISTENER_WAKE, "it is a listener");
	return (u64)event;
}

static int add(u64 serial)
{
	int fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);

	check(listener_add(&listeners, fd, 0, 1, serial) == 0, "it is added");
	return fd;
}

/* A call has been received, or has gone away. */
static void silence(int fd)
{
	u64 n;

	check(read(fd, &n, sizeof(n)) == sizeof(n), "it had a call");
}

static void open_all(void)
{
	check(listeners_open(&listeners, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) == 0, "epoll works");
	listeners.share = SHARE;
	listeners.crowd = CROWD;
}

/* All but the last of those that wait are interrupted before anybody comes. */
static void interrupted_calls_hold_nobody_up(void)
{
	struct listener *busy[SHARE];
	int fd[WAITING];
	u32 i;

	for (i = 0; i < SHARE; i++) {
		int call = add(1 + i);

		busy[i] = listener_get(&listeners, next());
		check(busy[i] != NULL, "the container has workers left");
		silence(call);
	}
	for (i = 0; i < WAITING; i++)
		fd[i] = add(100 + i);
	for (i = 0; i < WAITING; i++)
		check(!listener_get(&listeners, next()), "the container has no worker left");
	check(!is_ready(), "they wait");

	for (i = 0; i < WAITING - 1; i++)
		silence(fd[i]);
	for (i = 0; i < SHARE; i++)
		listener_put(&listeners, busy[i]);
	busy[0] = listener_get(&listeners, next());
	check(busy[0] && busy[0]->serial == 100 + WAITING - 1, "the one that still waits is served");
	listener_put(&listeners, busy[0]);
}

/* A worker has heard of one that another worker closes; a new one is at the same place. */
static void a_late_worker_leaves_the_next_alone(void)
{
	struct listener *one;
	u64 event;

	add(1);
	event = next();
	one = listener_find(&listeners, 1);
	check(one != NULL, "it is there");
	listener_kill(&listeners, one);
	listener_put(&listeners, one);
	add(2);
	check(listener_find(&listeners, 2) == one, "the next has its place");
	listener_put(&listeners, one);
	check(!listener_get(&listeners, event), "what was heard does not mean it");
	event = next();
	check(listener_get(&listeners, event) == one, "it is heard by itself");
}

int main(int argc, char **argv)
{
	open_all();
	if (argc > 1 && !strcmp(argv[1], "interrupted"))
		interrupted_calls_hold_nobody_up();
	else if (argc > 1 && !strcmp(argv[1], "late"))
		a_late_worker_leaves_the_next_alone();
	else
		return 2;
	return 0;
}
