// SPDX-License-Identifier: Apache-2.0
/* The table of seccomp listeners, and which of them a worker may serve next. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <linux/seccomp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "descriptors.h"
#include "listener.h"

int listeners_open(struct listeners *l, int wake_fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = LISTENER_WAKE };
	u32 i;

	memset(l, 0, sizeof(*l));
	pthread_mutex_init(&l->lock, NULL);
	for (i = 0; i < LISTENERS_MAX; i++)
		l->at[i].fd = -1;
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (l->epoll < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, wake_fd, &event) < 0)
		return -errno;
	return 0;
}

void listeners_close(struct listeners *l)
{
	u32 i;

	for (i = 0; i < LISTENERS_MAX; i++)
		close_any(l->at[i].fd);
	close_any(l->epoll);
	pthread_mutex_destroy(&l->lock);
}

/* A listener's place, and its serial, which tells it from other listeners of the place. Never negative. */
static u64 event_of(const struct listeners *l, const struct listener *one)
{
	return (one->serial & 0x7fffffff) << 32 | (u64)(one - l->at);
}

/* The account of a registration: that of its other listeners, or a free one. */
static u32 account_locked(const struct listeners *l, u32 slot, u64 generation)
{
	u32 i, unused = 0;

	for (i = 0; i < LISTENERS_MAX; i++) {
		const struct listener *other = &l->at[i];

		if (other->fd >= 0 && other->slot == slot && other->generation == generation)
			return other->account;
		if (!l->account[i].listeners)
			unused = i;
	}
	return unused;
}

static struct listener *add_locked(struct listeners *l, u64 serial, int *error)
{
	struct listener *unused = NULL;
	u32 i;

	for (i = 0; i < LISTENERS_MAX; i++) {
		if (l->at[i].fd < 0)
			unused = unused ? unused : &l->at[i];
		else if (l->at[i].serial == serial) {
			*error = -EEXIST;
			return NULL;
		}
	}
	*error = -ENOSPC;
	return unused;
}

/* Since 6.6, include/uapi/linux/seccomp.h: the waiting thread hands its processor to us. */
#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#endif
#ifndef SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP (1ul << 0)
#endif

/* Each exec by a runtime makes a listener, which lives as long as the processes that the exec leaves behind. */
static int has_room_locked(const struct listeners *l, const struct listener_facts *facts, struct fair *fair)
{
	u32 i;

	for (i = 0; i < LISTENERS_MAX; i++) {
		if (l->at[i].fd >= 0)
			fair_count(fair, l->at[i].slot, l->at[i].generation);
	}
	return fair_has_room(fair, facts->slot, LISTENERS_NEW, LISTENERS_SHARE);
}

int listener_add(struct listeners *l, int fd, const struct listener_facts *facts, struct fair *fair)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT };
	struct listener *one;
	u32 account;
	int error = 0;

	/* The flag only makes answers faster: older kernels do without. */
	ioctl(fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
	pthread_mutex_lock(&l->lock);
	one = add_locked(l, facts->serial, &error);
	if (one && fair && !has_room_locked(l, facts, fair)) {
		one = NULL;
		error = -EDQUOT;
	}
	if (one) {
		account = account_locked(l, facts->slot, facts->generation);
		*one = (struct listener){ .fd = fd,
			.slot = facts->slot,
			.generation = facts->generation,
			.serial = facts->serial,
			.account = account };
		event.data.u64 = event_of(l, one);
		error = epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
		if (error) {
			one->fd = -1;
		} else {
			l->count++;
			l->account[account].listeners++;
		}
	}
	pthread_mutex_unlock(&l->lock);
	if (error)
		close(fd);
	return error;
}

s64 listener_wait(struct listeners *l, u32 *events)
{
	struct epoll_event event;
	int n = epoll_wait(l->epoll, &event, 1, -1);

	if (n < 0)
		return -errno;
	if (n == 0)
		return -EAGAIN;
	*events = event.events;
	return (s64)event.data.u64;
}

int listener_arm(struct listeners *l, const struct listener *one)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT, .data.u64 = event_of(l, one) };

	return epoll_ctl(l->epoll, EPOLL_CTL_MOD, one->fd, &event) < 0 ? -errno : 0;
}

static u32 may_have_more(const struct listeners *l, const struct listener *one)
{
	return l->account[one->account].busy < (l->busy < l->limited_from ? l->share : 1);
}

static void hold_locked(struct listeners *l, struct listener *one)
{
	one->held = 1;
	l->account[one->account].held++;
	l->held++;
}

static void unhold_locked(struct listeners *l, struct listener *one)
{
	if (!one->held)
		return;
	one->held = 0;
	l->account[one->account].held--;
	l->held--;
}

static void take_locked(struct listeners *l, struct listener *one)
{
	one->users++;
	l->account[one->account].busy++;
	l->busy++;
}

void listener_share(struct listeners *l, struct listener *one)
{
	pthread_mutex_lock(&l->lock);
	if (may_have_more(l, one))
		listener_arm(l, one);
	else if (!one->held && !one->dead)
		hold_locked(l, one);
	pthread_mutex_unlock(&l->lock);
}

struct listener *listener_get(struct listeners *l, u64 event)
{
	u32 index = (u32)event;
	struct listener *one = index < LISTENERS_MAX ? &l->at[index] : NULL;

	pthread_mutex_lock(&l->lock);
	if (one && (one->fd < 0 || one->dead || event_of(l, one) != event))
		one = NULL;
	if (one) {
		if (may_have_more(l, one)) {
			take_locked(l, one);
		} else {
			if (!one->held)
				hold_locked(l, one);
			one = NULL;
		}
	}
	pthread_mutex_unlock(&l->lock);
	return one;
}

struct listener *listener_find(struct listeners *l, u64 serial)
{
	struct listener *one = NULL;
	u32 i;

	pthread_mutex_lock(&l->lock);
	for (i = 0; i < LISTENERS_MAX && !one; i++)
		if (l->at[i].fd >= 0 && !l->at[i].dead && l->at[i].serial == serial)
			one = &l->at[i];
	if (one)
		take_locked(l, one);
	pthread_mutex_unlock(&l->lock);
	return one;
}

/* A worker of this one's container is free again: let the next of its waiting listeners have it. A signal may have
 * withdrawn the notification that a listener waited with: when no other worker is busy, ask all of them. */
static void rearm_locked(struct listeners *l, const struct listener *one)
{
	struct account *account = &l->account[one->account];
	u32 from = (u32)(one - l->at), i, asked = 0;

	if (!may_have_more(l, one))
		return;
	for (i = 1; i <= LISTENERS_MAX && account->held && !(asked && account->busy); i++) {
		struct listener *next = &l->at[(from + i) % LISTENERS_MAX];

		if (next->fd < 0 || !next->held || next->account != one->account)
			continue;
		unhold_locked(l, next);
		listener_arm(l, next);
		asked++;
	}
}

void listener_put(struct listeners *l, struct listener *one)
{
	int fd = -1;

	pthread_mutex_lock(&l->lock);
	l->account[one->account].busy--;
	l->busy--;
	rearm_locked(l, one);
	if (--one->users == 0 && one->dead) {
		fd = one->fd;
		one->fd = -1;
		l->count--;
		l->account[one->account].listeners--;
	}
	pthread_mutex_unlock(&l->lock);
	close_any(fd);
}

void listener_kill(struct listeners *l, struct listener *one)
{
	pthread_mutex_lock(&l->lock);
	one->dead = 1;
	unhold_locked(l, one);
	pthread_mutex_unlock(&l->lock);
	epoll_ctl(l->epoll, EPOLL_CTL_DEL, one->fd, NULL);
}
