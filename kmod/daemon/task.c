// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "process.h"
#include "target.h"
#include "task.h"

int notif_valid(int listener_fd, u64 id)
{
	return ioctl(listener_fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

void task_init(struct task *task, struct task_cache *cache, s32 tid)
{
	*task = (struct task){
		.cache = cache, .tid = tid, .pidfd = -1, .file = -1, .target = -1, .kind = CGPU_DEVICE_OTHER
	};
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

s32 task_tgid(struct task *task)
{
	u32 place = (u32)task->tid % TASK_CACHE;

	if (is_cached(task) && task->cache->at[place].tgid)
		return task->cache->at[place].tgid;
	task->tgid = process_tgid(task->pidfd, task->tid);
	if (is_cached(task) && task->tgid > 0)
		task->cache->at[place].tgid = task->tgid;
	return task->tgid;
}

void task_drop(struct task *task)
{
	target_drop(task);
	if (task->file >= 0)
		close(task->file);
	if (task->pidfd >= 0 && !is_cached(task))
		close(task->pidfd);
	task->file = -1;
	task->pidfd = -1;
}

/* Kernels before 6.9: only the leader's table can be copied from. A thread with a table of its own gets
 * nothing on the driver's nodes; where that cannot be seen it gets nothing at all. */
static int check_own_table(struct cgpud *d, struct task *task, int fd)
{
	char path[64];
	struct identity identity;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", task->tid, fd);
	r = identity_of(AT_FDCWD, path, &identity);
	if (r < 0)
		return r == -ENOENT ? -EBADF : -EPERM;
	return devices_identify(&d->devices, &identity, &task->kind, &task->gpu) ? -EPERM : 0;
}

static int open_leader(struct cgpud *d, struct task *task, int fd)
{
	s32 tgid = process_tgid(-1, task->tid);
	int r;

	if (tgid <= 0)
		return -ENOENT;
	task->pidfd = process_open(tgid, 0);
	if (task->pidfd < 0)
		return -EPERM;
	r = process_same_files(task->tid, tgid);
	if (r == 1)
		return 1;
	r = check_own_table(d, task, fd);
	return r;
}

static int file_error(int r)
{
	return r == -EBADF ? -EBADF : r == -ESRCH ? -ENOENT : -EPERM;
}

static int take_from_leader(struct cgpud *d, struct task *task, int fd, int listener_fd, u64 id)
{
	int r = open_leader(d, task, fd);

	if (r < 0)
		return r;
	/* The thread id may have been given to another task before the pidfd was made. */
	if (listener_fd >= 0 && !notif_valid(listener_fd, id))
		return -ENOENT;
	if (r == 0)
		return 0;
	r = process_take_fd(task->pidfd, fd);
	if (r < 0)
		return file_error(r);
	task->file = r;
	return 0;
}

static int open_thread(struct task *task, int listener_fd, u64 id)
{
	u32 place = (u32)task->tid % TASK_CACHE;

	if (task->cache)
		cache_drop(task->cache, place);
	task->pidfd = process_open(task->tid, 1);
	if (task->pidfd < 0)
		return file_error(task->pidfd);
	/* As above. */
	if (listener_fd >= 0 && !notif_valid(listener_fd, id))
		return -ENOENT;
	if (task->cache) {
		task->cache->at[place].tid = task->tid;
		task->cache->at[place].tgid = 0;
		task->cache->at[place].pidfd = task->pidfd;
	}
	return 0;
}

static int take_from_thread(struct task *task, int fd, int listener_fd, u64 id)
{
	u32 place = (u32)task->tid % TASK_CACHE;
	int r = -ESRCH;

	if (task->cache && task->cache->at[place].tid == task->tid) {
		task->pidfd = task->cache->at[place].pidfd;
		r = process_take_fd(task->pidfd, fd);
	}
	if (r == -ESRCH) {
		r = open_thread(task, listener_fd, id);
		if (r < 0)
			return r;
		r = process_take_fd(task->pidfd, fd);
	}
	if (r < 0)
		return file_error(r);
	task->file = r;
	return 0;
}

int task_take(struct cgpud *d, struct task *task, int fd, int listener_fd, u64 id)
{
	struct identity identity;
	int r = d->pidfd_thread ? take_from_thread(task, fd, listener_fd, id) :
				  take_from_leader(d, task, fd, listener_fd, id);

	if (r < 0 || task->file < 0)
		return r;
	if (identity_of(task->file, "", &identity) < 0)
		return -EPERM;
	task->driver_node = devices_identify(&d->devices, &identity, &task->kind, &task->gpu) ? 1 : 0;
	return 0;
}
