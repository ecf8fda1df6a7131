// SPDX-License-Identifier: Apache-2.0
/* Opens the thread behind a notification, its memory, its file, and the file that an export or import names. */
#define _GNU_SOURCE
#include <unistd.h>

#include "descriptors.h"
#include "engine.h"
#include "processes.h"
#include "rm.h"
#include "task.h"

void task_init(struct task *task, const struct asker *asker, struct task_cache *cache, s32 tid)
{
	*task = (struct task){ .asker = *asker,
		.cache = cache,
		.tid = tid,
		.pidfd = -1,
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

void task_close_files(struct task *task)
{
	close_one(&task->target);
	close_one(&task->file);
	look_drop_copy(&task->asker, &task->memory);
}

void task_drop(struct task *task)
{
	task_close_files(task);
	look_close_memory(&task->memory);
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
	int r = task->tid > 0 ? look_at_file(&task->asker, task->tid, fd, identity) : -EPERM;

	return r < 0 ? file_error(r) : 0;
}

static int note_file(struct cgpud *d, struct task *task, int fd, int r)
{
	task->number = fd;
	task->driver_node = r == 0 && devices_identify(&d->devices, &task->identity, &task->kind, &task->gpu) ? 1 : 0;
	return r;
}

int task_inspect(struct cgpud *d, struct task *task, int fd)
{
	return note_file(d, task, fd, task_inspect_number(task, fd, &task->identity));
}

int task_read(const struct task *task, u64 address, void *data, size_t bytes)
{
	return look_read(&task->asker, &task->memory, address, data, bytes);
}

int task_read_call(const struct task *task, u64 address, void *data, size_t bytes)
{
	if (address != task->seen_at || bytes > task->seen.bytes)
		return task_read(task, address, data, bytes);
	memcpy(data, task->seen.data, bytes);
	return 0;
}

int task_write(struct task *task, const struct part *part, u32 count)
{
	return look_write(&task->asker, &task->memory, part, count);
}

/* Kernels before 6.9: only the leader's table can be copied from. A thread with a table of its own gets nothing on the
 * driver's nodes. */
static int open_leader(struct task *task)
{
	task->tgid = look_tgid(&task->asker, -1, task->tid);
	if (task->tgid <= 0)
		return -ENOENT;
	task->pidfd = process_open(task->tgid, 0);
	if (task->pidfd < 0)
		return -EPERM;
	return look_same_files(&task->asker, task->tid, task->tgid) == 1 ? 0 : -EPERM;
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
	task->tgid = look_tgid(&task->asker, task->pidfd, task->tid);
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

int task_inspect_call(struct cgpud *d, struct task *task, int fd, const struct call_wish *wish)
{
	int r;

	task->seen_at = wish->address;
	task->seen.bytes = wish->bytes;
	task->seen.identity = d->devices.at[0].identity;
	task->seen.major = devices_major(&d->devices, CGPU_DEVICE_UVM);
	task->seen.copied = wish->copy && d->pidfd_thread;
	r = task->tid > 0 ? look_at_call(&task->asker, task->tid, fd, wish->address, &task->seen) : -EPERM;
	if (r == 0) {
		task->identity = task->seen.identity;
		task->memory = task->seen.memory;
		task->file = task->seen.copy;
	}
	return note_file(d, task, fd, r < 0 ? file_error(r) : 0);
}

void task_forget_seen(struct task *task)
{
	task->seen.bytes = 0;
	close_one(&task->file);
}

int task_open_memory(struct task *task)
{
	int r = task->memory.place ? 0 : look_open_memory(&task->asker, task->tid, &task->memory);

	return r == 0 ? 0 : r == -ENOENT || r == -ESRCH ? -ENOENT : -EPERM;
}

int task_open(struct cgpud *d, struct task *task)
{
	int r = open_process(d, task);

	return r < 0 ? r : task_open_memory(task);
}

/* The log limits lines by the container's name: by its own each process would have as many lines. */
static void say_uncopied(struct cgpud *d, const struct task *task, int error)
{
	struct cgpu_container_info info;

	if (cgpu_container_next(&d->core, task->asker.slot, &info) == 0 && info.slot == task->asker.slot)
		events_log(&d->events, LOG_LEVEL_WARNING,
			"container %s: a descriptor of process %d cannot be copied: %s", info.id, task->tgid,
			strerror(error));
}

int task_copy(struct cgpud *d, struct task *task)
{
	int r;

	if (task->file >= 0)
		return 0;
	r = look_copy(&task->asker, task->pidfd, task->number, &task->identity);
	if (r >= 0)
		task->file = r;
	else if (r != -EBADF && r != -ESRCH)
		say_uncopied(d, task, -r);
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

/* --- the descriptor inside of a call that exports or imports --- */

/* Find the descriptor's place in the parameters of such a call. 0: it is none. */
static u32 place_of(const struct nv_abi *abi, const struct in_flight *e, u32 *place)
{
	const struct {
		u32 command, fd;
	} calls[] = {
		{ NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS.fd },
		{ NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD,
			abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS.fd },
		{ NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD,
			abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS.fd },
		{ NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD,
			abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS.fd },
	};
	size_t i;

	if (e->call.nr != NV_ESC_RM_CONTROL || e->call.bytes != abi->NVOS54_PARAMETERS.bytes)
		return 0;
	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (calls[i].command != get32(e->before[0], abi->NVOS54_PARAMETERS.cmd))
			continue;
		*place = calls[i].fd;
		return calls[i].command;
	}
	return 0;
}

static int is_export(u32 command)
{
	return command == NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD ||
		command == NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD;
}

int target_is_control_node(struct cgpud *d, const struct identity *identity)
{
	enum cgpu_device kind;
	u32 gpu;

	return devices_identify(&d->devices, identity, &kind, &gpu) && kind == CGPU_DEVICE_CTL;
}

int target_find(struct cgpud *d, struct in_flight *e, struct task *task)
{
	u32 place, command = place_of(d->core.abi, e, &place);
	struct identity identity;
	int fd, r;

	target_drop(task);
	e->call.found = 1;
	e->call.target = 0;
	r = task_inspect_number(task, e->call.descriptor, &identity);
	if (r < 0)
		return r == -EBADF ? 0 : r;
	if (!target_is_control_node(d, &identity))
		return 0;
	fd = look_copy(&task->asker, task->pidfd, e->call.descriptor, &identity);
	if (fd < 0)
		return fd == -EBADF ? 0 : fd == -ESRCH ? -ENOENT : -EPERM;
	r = files_number(d, fd, is_export(command), e->call.generation, &e->call.target);
	if (r == 0) {
		task->target = fd;
		return 0;
	}
	close(fd);
	e->call.target = 0;
	e->call.found = r == -EBADF;
	return r == -EBADF ? 0 : r;
}

enum cgpu_verdict target_no_room(struct cgpud *d, struct in_flight *e)
{
	if (!atomic_load(&d->enforce))
		return CGPU_CONTINUE;
	put32(e->copy[0], d->core.abi->NVOS54_PARAMETERS.status, NV_ERR_INSUFFICIENT_RESOURCES);
	return CGPU_ANSWER;
}

void target_put(const struct nv_abi *abi, struct in_flight *e, int descriptor)
{
	u32 place;

	if (e->call.target && e->call.segments && place_of(abi, e, &place))
		put32(e->copy[1], place, (u32)descriptor);
}

void target_drop(struct task *task)
{
	close_one(&task->target);
}

int target_is_export(const struct nv_abi *abi, const struct in_flight *e)
{
	u32 place;

	return is_export(place_of(abi, e, &place));
}

int target_is_taken(const struct nv_abi *abi, const struct in_flight *e)
{
	return target_is_export(abi, e) && get32(e->copy[0], abi->NVOS54_PARAMETERS.status) == NV_ERR_STATE_IN_USE;
}
