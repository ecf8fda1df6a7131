// SPDX-License-Identifier: Apache-2.0
/* Opens the thread behind a notification, its memory and its file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "copies.h"
#include "privilege.h"
#include "processes.h"
#include "target.h"
#include "task.h"

void task_init(struct task *task, struct task_cache *cache, s32 tid)
{
	*task = (struct task){ .cache = cache,
		.tid = tid,
		.pidfd = -1,
		.memory = -1,
		.number = -1,
		.file = -1,
		.target = -1,
		.kind = CGPU_DEVICE_OTHER };
}

static void cache_drop(struct task_cache *cache, u32 place)
{
	if (cache->at[place].tid)
		close(cache->at[place].pidfd);
	cache->at[place].tid = 0;
}

void task_cache_clear(struct task_cache *cache)
{
	u32 i;

	for (i = 0; i < TASK_CACHE; i++)
		cache_drop(cache, i);
}

static int is_cached(const struct task *task)
{
	u32 place = (u32)task->tid % TASK_CACHE;

	return task->cache && task->cache->at[place].tid == task->tid && task->cache->at[place].pidfd == task->pidfd;
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void task_drop(struct task *task)
{
	target_drop(task);
	close_one(&task->file);
	close_one(&task->memory);
	if (is_cached(task))
		task->pidfd = -1;
	close_one(&task->pidfd);
}

static int file_error(int r)
{
	return r == -EBADF || r == -ENOENT ? -EBADF : r == -ESRCH ? -ENOENT : -EPERM;
}

int task_inspect_number(const struct task *task, int fd, struct identity *identity)
{
	char path[64];
	int r;

	if (task->tid <= 0)
		return -EPERM;
	/* The link leads to the open file itself: no file system is asked on the way (fs/proc/base.c, proc_pid_get_link). */
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", task->tid, fd);
	r = identity_of(AT_FDCWD, path, identity);
	/* The folder of another user's. Or a file system that shows nothing to others: then nobody can tell what it is. */
	if (r == -EACCES && privilege_raise() == 0) {
		r = identity_of(AT_FDCWD, path, identity);
		privilege_lower();
	}
	return r < 0 ? file_error(r) : 0;
}

int task_inspect(struct cgpud *d, struct task *task, int fd)
{
	int r = task_inspect_number(task, fd, &task->identity);

	task->number = fd;
	task->driver_node = r == 0 && devices_identify(&d->devices, &task->identity, &task->kind, &task->gpu) ? 1 : 0;
	return r;
}

/* Kernels before 6.9: only the leader's table can be copied from. A thread with a table of its own gets nothing on the
 * driver's nodes. */
static int open_leader(struct task *task)
{
	task->tgid = process_tgid(-1, task->tid);
	if (task->tgid <= 0)
		return -ENOENT;
	task->pidfd = process_open(task->tgid, 0);
	if (task->pidfd < 0)
		return -EPERM;
	return process_same_files(task->tid, task->tgid) == 1 ? 0 : -EPERM;
}

/* An entry whose thread lives is that of its number. */
static int from_cache(struct task *task)
{
	u32 place = (u32)task->tid % TASK_CACHE;

	if (!task->cache || task->cache->at[place].tid != task->tid || process_ended(task->cache->at[place].pidfd))
		return 0;
	task->pidfd = task->cache->at[place].pidfd;
	task->tgid = task->cache->at[place].tgid;
	return 1;
}

static int open_thread(struct task *task)
{
	u32 place = (u32)task->tid % TASK_CACHE;

	if (from_cache(task))
		return 0;
	if (task->cache)
		cache_drop(task->cache, place);
	task->pidfd = process_open(task->tid, 1);
	if (task->pidfd < 0)
		return file_error(task->pidfd);
	task->tgid = process_tgid(task->pidfd, task->tid);
	if (task->tgid <= 0)
		return -ENOENT;
	if (task->cache) {
		task->cache->at[place].tid = task->tid;
		task->cache->at[place].tgid = task->tgid;
		task->cache->at[place].pidfd = task->pidfd;
	}
	return 0;
}

static int open_process(struct cgpud *d, struct task *task)
{
	if (task->pidfd >= 0)
		return 0;
	return d->pidfd_thread ? open_thread(task) : open_leader(task);
}

int task_open_memory(struct task *task)
{
	if (task->memory < 0)
		task->memory = process_open_memory(task->tid);
	return task->memory >= 0 ? 0 : task->memory == -ENOENT || task->memory == -ESRCH ? -ENOENT : -EPERM;
}

int task_open(struct cgpud *d, struct task *task)
{
	int r = open_process(d, task);

	return r < 0 ? r : task_open_memory(task);
}

int task_copy(struct cgpud *d, struct task *task)
{
	int r;

	if (task->file >= 0)
		return 0;
	r = copies_take(task->pidfd, task->number, &task->identity, &d->stopping, 0);
	if (r >= 0)
		task->file = r;
	else if (r != -EBADF && r != -ESRCH && r != -EINTR)
		events_log(&d->events, LOG_LEVEL_WARNING, "process %d: a descriptor of it cannot be copied: %s",
			task->tgid, strerror(-r));
	return r < 0 ? file_error(r) : 0;
}

int task_take(struct cgpud *d, struct task *task, int fd)
{
	int r = task_inspect(d, task, fd);

	if (r == 0 && !task->driver_node)
		r = -EBADF;
	if (r == 0)
		r = open_process(d, task);
	return r < 0 ? r : task_copy(d, task);
}
