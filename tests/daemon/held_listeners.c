// SPDX-License-Identifier: Apache-2.0
/* Listeners of one container that has its share of the workers, as eventfds: what waits is served at last. */
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

/* Returns the entry of the one that has something to say. */
static u32 next(void)
{
	u32 events;
	s64 index;

	check(is_ready(), "somebody is to be served");
	index = listener_wait(&listeners, &events);
	check(index >= 0 && index != LISTENER_WAKE, "it is a listener");
	return (u32)index;
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

int main(void)
{
	struct listener *busy[SHARE];
	int fd[WAITING];
	u32 i;

	check(listeners_open(&listeners, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) == 0, "epoll works");
	listeners.share = SHARE;
	listeners.crowd = CROWD;
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

	/* All but the last are interrupted before anybody comes. */
	for (i = 0; i < WAITING - 1; i++)
		silence(fd[i]);
	for (i = 0; i < SHARE; i++)
		listener_put(&listeners, busy[i]);
	busy[0] = listener_get(&listeners, next());
	check(busy[0] && busy[0]->serial == 100 + WAITING - 1, "the one that still waits is served");
	listener_put(&listeners, busy[0]);
	return 0;
}
