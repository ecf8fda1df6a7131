// SPDX-License-Identifier: Apache-2.0
/* Order in which containers are served, with eventfds in the place of listeners. */
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bench.h"
#include "listener.h"

#define SHARE 2
#define LIMITED_FROM 16
#define WAITING 3

static struct listeners listeners;

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

	CHECK(is_ready());
	event = listener_wait(&listeners, &events);
	CHECK(event >= 0 && event != LISTENER_WAKE);
	return (u64)event;
}

static int add(u64 serial)
{
	int fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);

	CHECK(listener_add(&listeners, fd, &(struct listener_facts){ .generation = 1, .serial = serial }, NULL) == 0);
	return fd;
}

/* A call has been received, or has gone away. */
static void silence(int fd)
{
	u64 n;

	CHECK(read(fd, &n, sizeof(n)) == sizeof(n));
}

static __attribute__((constructor)) void open_all(void)
{
	CHECK(listeners_open(&listeners, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) == 0);
	listeners.share = SHARE;
	listeners.limited_from = LIMITED_FROM;
}

/* All but the last of those that wait are interrupted before anybody comes. */
TEST(interrupted_calls_hold_nobody_up)
{
	struct listener *busy[SHARE];
	int fd[WAITING];
	u32 i;

	for (i = 0; i < SHARE; i++) {
		int call = add(1 + i);

		busy[i] = listener_get(&listeners, next());
		CHECK(busy[i] != NULL);
		silence(call);
	}
	for (i = 0; i < WAITING; i++)
		fd[i] = add(100 + i);
	for (i = 0; i < WAITING; i++)
		CHECK(!listener_get(&listeners, next()));
	CHECK(!is_ready());

	for (i = 0; i < WAITING - 1; i++)
		silence(fd[i]);
	for (i = 0; i < SHARE; i++)
		listener_put(&listeners, busy[i]);
	busy[0] = listener_get(&listeners, next());
	CHECK(busy[0] && busy[0]->serial == 100 + WAITING - 1);
	listener_put(&listeners, busy[0]);
}

/* A worker has heard of one that another worker closes; a new one is at the same place. */
TEST(a_late_worker_leaves_the_next_alone)
{
	struct listener *one;
	u64 event;

	add(1);
	event = next();
	one = listener_find(&listeners, 1);
	CHECK(one != NULL);
	listener_kill(&listeners, one);
	listener_put(&listeners, one);
	add(2);
	CHECK(listener_find(&listeners, 2) == one);
	listener_put(&listeners, one);
	CHECK(!listener_get(&listeners, event));
	event = next();
	CHECK(listener_get(&listeners, event) == one);
}

static int add_new(struct fair fair, u32 slot, u64 serial)
{
	struct listener_facts facts = { .slot = slot, .generation = slot + 1, .serial = serial };

	return listener_add(&listeners, eventfd(0, EFD_CLOEXEC), &facts, &fair);
}

/* A container does not get the places that others have not taken. */
TEST(nobody_has_more_than_a_share)
{
	struct fair fair = { .containers = 2 };
	u64 serial = 1000;
	u32 n;

	for (n = 0; n < 2; n++)
		fair.generation[n] = n + 1;
	for (n = 0; n < LISTENERS_SHARE; n++)
		CHECK(add_new(fair, 0, serial++) == 0);
	CHECK(add_new(fair, 0, serial++) == -EDQUOT);
	CHECK(add_new(fair, 1, serial++) == 0);
	/* One that the engine before has served stays. */
	add(serial++);
}

/* With many containers, each gets its part of half of the table, whatever the others do. */
TEST(each_of_many_gets_its_part)
{
	struct fair fair = { .containers = CGPU_MAX_CONTAINERS };
	u32 share = LISTENERS_NEW / 2 / CGPU_MAX_CONTAINERS, n, slot;
	u64 serial = 1000;

	for (n = 0; n < CGPU_MAX_CONTAINERS; n++)
		fair.generation[n] = n + 1;
	for (slot = 0; slot < 64; slot++)
		for (n = 0; n < LISTENERS_SHARE; n++)
			add_new(fair, slot, serial++);
	for (slot = 64; slot < CGPU_MAX_CONTAINERS; slot++)
		for (n = 0; n < share; n++)
			CHECK(add_new(fair, slot, serial++) == 0);
}
