// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <stdlib.h>
#include <linux/seccomp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "listener.h"

int listeners_open(struct listeners *l, int wake_fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = LISTENER_WAKE };
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
		if (l->at[i].fd >= 0)
			close(l->at[i].fd);
	if (l->epoll >= 0)
		close(l->epoll);
	pthread_mutex_destroy(&l->lock);
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

int listener_add(struct listeners *l, int fd, u32 slot, u64 generation, u64 serial)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT };
	struct listener *one;
	int error = 0;

	/* Only faster: older kernels do without. */
	ioctl(fd, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
	pthread_mutex_lock(&l->lock);
	one = add_locked(l, serial, &error);
	if (one) {
		*one = (struct listener){ .fd = fd, .slot = slot, .generation = generation, .serial = serial };
		event.data.u32 = (u32)(one - l->at);
		error = epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
		if (error)
			one->fd = -1;
		else
			l->count++;
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
	return event.data.u32;
}

int listener_arm(struct listeners *l, u32 index)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLONESHOT, .data.u32 = index };

	return epoll_ctl(l->epoll, EPOLL_CTL_MOD, l->at[index].fd, &event) < 0 ? -errno : 0;
}

void listener_share(struct listeners *l, struct listener *one)
{
	pthread_mutex_lock(&l->lock);
	one->held = one->users >= l->share;
	if (!one->held)
		listener_arm(l, (u32)(one - l->at));
	pthread_mutex_unlock(&l->lock);
}

struct listener *listener_get(struct listeners *l, u32 index)
{
	struct listener *one = NULL;

	pthread_mutex_lock(&l->lock);
	if (index < LISTENERS_MAX && l->at[index].fd >= 0 && !l->at[index].dead) {
		one = &l->at[index];
		one->users++;
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
		one->users++;
	pthread_mutex_unlock(&l->lock);
	return one;
}

void listener_put(struct listeners *l, struct listener *one)
{
	int fd = -1;

	pthread_mutex_lock(&l->lock);
	if (--one->users == 0 && one->dead) {
		fd = one->fd;
		one->fd = -1;
		l->count--;
	} else if (one->held && one->users < l->share) {
		one->held = 0;
		listener_arm(l, (u32)(one - l->at));
	}
	pthread_mutex_unlock(&l->lock);
	if (fd >= 0)
		close(fd);
}

void listener_kill(struct listeners *l, struct listener *one)
{
	pthread_mutex_lock(&l->lock);
	one->dead = 1;
	pthread_mutex_unlock(&l->lock);
	epoll_ctl(l->epoll, EPOLL_CTL_DEL, one->fd, NULL);
}
