// SPDX-License-Identifier: Apache-2.0
/* Sets timeslices of channel groups, on copies of the descriptors that their clients live on. */
#define _GNU_SOURCE
#include <sys/random.h>
#include <unistd.h>

#include "cgpu_card.h"
#include "cgroup.h"
#include "clock.h"
#include "engine.h"
#include "processes.h"
#include "rm.h"
#include "timeslice.h"
#include "task.h"
#include "worker.h"

#define DESCRIPTORS_MAX 1024 /* of one process that are tried */
#define WALK_MAX 4096 /* clients that one worker goes to in a row */
/* A container can cause searches that find nothing, by its calls. */
#define SEARCH_NS 1000000000ull
#define LOCK_MS 100

/* --- the table of clients whose groups have timeslices, by handle --- */

void timeslice_init(struct cgpud *d)
{
	struct timeslices *timeslices = &d->timeslices;
	u32 i;

	pthread_mutex_init(&timeslices->lock, NULL);
	for (i = 0; i < CGPU_MAX_CONTAINERS; i++)
		pthread_mutex_init(&timeslices->busy[i], NULL);
	/* Containers may choose handles: which ones share a place is not theirs to know. */
	if (getrandom(&timeslices->seed, sizeof(timeslices->seed), GRND_NONBLOCK) != sizeof(timeslices->seed))
		timeslices->seed = 0;
}

/* Whether it is the better one to be taken for another client. */
static int is_rather(const struct timeslice_client *place, const struct timeslice_client *than)
{
	if (!place->client || !than->client)
		return !place->client;
	if (!place->left != !than->left)
		return !place->left;
	return place->order < than->order;
}

/* Find the place that a client has, or is to have. Under the lock. */
static struct timeslice_client *place_of(struct timeslices *timeslices, u32 client)
{
	u32 first = ((client ^ timeslices->seed) * 2654435761u >> 16) % TIMESLICE_CLIENTS, i;
	struct timeslice_client *found = &timeslices->at[first], *place;

	for (i = 0; i < TIMESLICE_PROBES; i++) {
		place = &timeslices->at[(first + i) % TIMESLICE_CLIENTS];
		if (place->client == client)
			return place;
		if (is_rather(place, found))
			found = place;
	}
	return found;
}

static void set_left(struct timeslices *timeslices, struct timeslice_client *place, u32 left)
{
	if (!place->left && left)
		atomic_fetch_add(&timeslices->left, 1);
	if (place->left && !left)
		atomic_fetch_sub(&timeslices->left, 1);
	place->left = left;
}

int timeslice_find(struct timeslices *timeslices, u32 client, struct timeslice_client *found)
{
	struct timeslice_client *place;
	int r = 0;

	pthread_mutex_lock(&timeslices->lock);
	place = place_of(timeslices, client);
	if (client && place->client == client) {
		*found = *place;
		r = 1;
	}
	pthread_mutex_unlock(&timeslices->lock);
	return r;
}

void timeslice_remember(struct timeslices *timeslices, const struct timeslice_client *one)
{
	struct timeslice_client *place;
	u32 left;

	pthread_mutex_lock(&timeslices->lock);
	place = place_of(timeslices, one->client);
	set_left(timeslices, place, place->client == one->client ? place->left | one->left : one->left);
	left = place->left;
	*place = *one;
	place->left = left;
	place->order = ++timeslices->order;
	pthread_mutex_unlock(&timeslices->lock);
}

void timeslice_not_left(struct timeslices *timeslices, u32 client, u32 gpus)
{
	struct timeslice_client *place;

	pthread_mutex_lock(&timeslices->lock);
	place = place_of(timeslices, client);
	if (place->client == client)
		set_left(timeslices, place, place->left & ~gpus);
	pthread_mutex_unlock(&timeslices->lock);
}

/* --- setting them --- */

/* Workers hold the lock for no longer than the driver takes, except where a container keeps one for ever. */
static int lock_container(struct cgpud *d, u32 slot)
{
	struct timespec until = clock_until(LOCK_MS);

	return -pthread_mutex_clocklock(&d->timeslices.busy[slot % CGPU_MAX_CONTAINERS], CLOCK_MONOTONIC, &until);
}

/* Set all timeslices of a client that are due, on a file that may be the one it lives on. Under its container's lock.
 * 0, or an errno in place of the driver's answer. */
static int set_all(struct cgpud *d, u32 gpu, u32 client, int file)
{
	struct cgpu_timeslice slice;
	u32 cursor = 0, bytes;
	u8 buf[128];
	int r;

	while (cgpu_timeslices_next(&d->core, gpu, client, &cursor, &slice) == 0) {
		bytes = cgpu_card_timeslice(d->core.abi, &slice, buf, sizeof(buf));
		r = rm_control(file, d->core.abi, client, slice.group, NVA06C_CTRL_CMD_SET_TIMESLICE, buf, bytes);
		if (r < 0 || r == NV_ERR_INVALID_CLIENT)
			return r < 0 ? r : -EBADF;
		cgpu_timeslices_done(&d->core, &slice, (u32)r);
		atomic_fetch_add(&d->timeslices.set, 1);
	}
	return 0;
}

/* --- on a descriptor that is searched for --- */

/* Try one descriptor of a task: copy it for this moment if it is the control node. */
static int try_number(struct cgpud *d, u32 gpu, const struct timeslice_client *known, s32 tid, int pidfd, int number)
{
	struct asker asker = asker_soon(&d->looks, known->slot, known->generation);
	struct task task;
	int fd, r;

	task_init(&task, &asker, NULL, tid);
	r = task_inspect_number(&task, number, &task.identity);
	if (r < 0 || !target_is_control_node(d, &task.identity))
		return -EBADF;
	fd = look_copy(&asker, pidfd, number, &task.identity);
	if (fd < 0)
		return fd;
	r = set_all(d, gpu, known->client, fd);
	close(fd);
	return r;
}

static int try_known(struct cgpud *d, u32 gpu, const struct timeslice_client *known)
{
	struct asker asker = asker_soon(&d->looks, known->slot, known->generation);
	s32 tid = d->pidfd_thread ? known->tid : known->tgid;
	int pidfd = process_open(tid, d->pidfd_thread), r = -EBADF;

	if (pidfd < 0)
		return pidfd;
	/* Another one may have its number by now. */
	if ((d->pidfd_thread ? known->mark : known->started) == look_mark(&asker, tid))
		r = try_number(d, gpu, known, tid, pidfd, known->number);
	close(pidfd);
	return r;
}

/*
 * A client outlives its process where another one has its file. Its number may then be that of a process outside of the
 * container, whose files are none of ours to take. Where the container's cgroup does not tell, it must be the very process
 * that made the client's calls, if that is known: it is not after a restart.
 */
static int is_of_container(struct cgpud *d, const struct timeslice_client *known, s32 tgid, int pidfd)
{
	struct asker asker = asker_soon(&d->looks, known->slot, known->generation);
	struct cgpu_container_info info;
	int r = 1;

	if (known->tgid == tgid && known->started)
		r = known->started == look_mark(&asker, tgid);
	if (cgpu_container_next(&d->core, known->slot, &info) < 0 || info.slot != known->slot)
		return 0;
	if (strlen(info.cgroup) > 1)
		r = cgroup_holds(info.cgroup, tgid) || (r && known->tgid == tgid && known->started);
	/* The process has its number as long as it has not ended. */
	return r && !process_ended(pidfd);
}

/* The descriptor is found, or the process cannot be searched. */
static int is_end_of_search(int r)
{
	return r == 0 || r == -ESRCH || r == -EPERM || r == -ETIMEDOUT || r == -EAGAIN || r == -EPIPE;
}

static int search(struct cgpud *d, u32 gpu, const struct timeslice_client *known, s32 tgid)
{
	int pidfd = process_open(tgid, 0), number, r = -EBADF;

	if (pidfd < 0)
		return pidfd;
	if (!is_of_container(d, known, tgid, pidfd))
		r = -ESRCH;
	for (number = 0; number < DESCRIPTORS_MAX && !is_end_of_search(r); number++)
		r = try_number(d, gpu, known, tgid, pidfd, number);
	close(pidfd);
	return r;
}

/* The container that a process has clients in. */
static int find_container(struct cgpud *d, s32 tgid, struct timeslice_client *known)
{
	struct cgpu_container_info info;
	u32 at, cursor;
	s32 one;

	for (at = 0; cgpu_container_next(&d->core, at, &info) == 0; at = info.slot + 1) {
		for (cursor = 0; cgpu_process_known(&d->core, info.slot, &cursor, &one) == 0;) {
			if (one != tgid)
				continue;
			known->slot = info.slot;
			known->generation = info.generation;
			return 0;
		}
	}
	return -ENOENT;
}

/* Under the container's lock. */
static int reach(struct cgpud *d, const struct cgpu_timeslice *slice, struct timeslice_client *known, int is_known)
{
	int r = -EBADF;

	if (is_known)
		r = try_known(d, slice->gpu, known);
	if (r == 0 || (known->searched && clock_ns() - known->searched < SEARCH_NS))
		return r;
	known->searched = clock_ns();
	r = search(d, slice->gpu, known, known->tgid);
	if (r != 0 && known->tgid != slice->tgid)
		r = search(d, slice->gpu, known, slice->tgid);
	return r;
}

/* stuck: a container that holds up this walk; it is passed over from then on. */
static void serve_client(struct cgpud *d, const struct cgpu_timeslice *slice, u32 *stuck)
{
	struct timeslices *timeslices = &d->timeslices;
	struct timeslice_client known = { .client = slice->client, .tid = slice->tgid, .tgid = slice->tgid };
	int is_known = timeslice_find(timeslices, slice->client, &known), r = -EBUSY;

	if (!is_known && find_container(d, slice->tgid, &known) < 0) {
		cgpu_timeslices_done(&d->core, slice, CGPU_CONTROL_FAILED);
		return;
	}
	if (known.slot != *stuck && lock_container(d, known.slot) == 0) {
		r = reach(d, slice, &known, is_known);
		pthread_mutex_unlock(&timeslices->busy[known.slot % CGPU_MAX_CONTAINERS]);
	} else {
		*stuck = known.slot;
	}
	if (r == 0) {
		timeslice_not_left(timeslices, slice->client, 1u << slice->gpu);
		return;
	}
	cgpu_timeslices_done(&d->core, slice, CGPU_CONTROL_FAILED);
	known.left = 1u << slice->gpu;
	timeslice_remember(timeslices, &known);
}

static void serve_gpu(struct cgpud *d, u32 gpu)
{
	struct cgpu_timeslice slice;
	u32 cursor = 0, stuck = CGPU_NO_SLOT, n;

	for (n = 0; n < WALK_MAX && cgpu_timeslices_next(&d->core, gpu, 0, &cursor, &slice) == 0; n++)
		serve_client(d, &slice, &stuck);
}

void timeslice_post(struct cgpud *d, u32 gpu)
{
	atomic_fetch_or(&d->timeslices.posted, 1u << gpu);
	atomic_fetch_or(&d->timeslices.wanted, 1u << gpu);
	workers_wake(d);
}

/* Unmark clients that are gone, or have no timeslice due any more. */
static void prune(struct cgpud *d, u32 gpu)
{
	struct cgpu_timeslice slice;
	u32 i, client, cursor;

	for (i = 0; i < TIMESLICE_CLIENTS && atomic_load(&d->timeslices.left); i++) {
		pthread_mutex_lock(&d->timeslices.lock);
		client = d->timeslices.at[i].left >> gpu & 1 ? d->timeslices.at[i].client : 0;
		pthread_mutex_unlock(&d->timeslices.lock);
		cursor = 0;
		if (client && cgpu_timeslices_next(&d->core, gpu, client, &cursor, &slice) < 0)
			timeslice_not_left(&d->timeslices, client, 1u << gpu);
	}
}

void timeslice_serve(struct cgpud *d)
{
	u32 wanted = atomic_exchange(&d->timeslices.wanted, 0), gpu;

	for (gpu = 0; wanted; gpu++, wanted >>= 1) {
		if (!(wanted & 1))
			continue;
		serve_gpu(d, gpu);
		prune(d, gpu);
		atomic_fetch_and(&d->timeslices.posted, ~(1u << gpu));
	}
}

/* --- on a call's own descriptor --- */

/* The client that a call of the driver names first. */
static u32 client_of(const struct cgpud *d, const struct in_flight *e)
{
	const struct nv_abi *abi = d->core.abi;
	const struct {
		u32 nr, client;
	} calls[] = { { NV_ESC_RM_ALLOC, abi->NVOS21_PARAMETERS.hRoot },
		{ NV_ESC_RM_CONTROL, abi->NVOS54_PARAMETERS.hClient },
		{ NV_ESC_RM_DUP_OBJECT, abi->NVOS55_PARAMETERS.hClient },
		{ NV_ESC_RM_FREE, abi->NVOS00_PARAMETERS.hRoot } };
	size_t i;

	for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (calls[i].nr == e->call.nr)
			return e->call.bytes >= calls[i].client + 4 ? get32(e->before[0], calls[i].client) : 0;
	}
	return 0;
}

static void note(struct cgpud *d, const struct in_flight *e, const struct task *task, u32 client)
{
	struct timeslice_client one = { .client = client,
		.tid = task->tid,
		.tgid = e->call.tgid,
		.number = (s32)e->notif.data.args[0],
		.slot = e->call.slot,
		.generation = e->call.generation },
				known;

	if (timeslice_find(&d->timeslices, client, &known) && known.tid == one.tid && known.tgid == one.tgid &&
		known.number == one.number && known.slot == one.slot)
		return;
	one.mark = look_mark(&task->asker, one.tid);
	one.started = one.tid == one.tgid ? one.mark : look_mark(&task->asker, one.tgid);
	timeslice_remember(&d->timeslices, &one);
}

static int on_call(struct cgpud *d, const struct in_flight *e, const struct task *task, u32 gpu, u32 client)
{
	/* Another worker may hold the lock for ever. Slices stay due; meanwhile rounds enable and disable channels. */
	int r = lock_container(d, e->call.slot);

	if (r < 0)
		return r;
	r = set_all(d, gpu, client, task->file);
	pthread_mutex_unlock(&d->timeslices.busy[e->call.slot % CGPU_MAX_CONTAINERS]);
	return r;
}

void timeslice_after_call(struct cgpud *d, const struct in_flight *e, struct task *task)
{
	u32 client = client_of(d, e);

	if (client == 0 || task->kind != CGPU_DEVICE_CTL || task->file < 0)
		return;
	note(d, e, task, client);
	on_call(d, e, task, e->call.round - 1, client);
}

void timeslice_before_call(struct cgpud *d, const struct in_flight *e, struct task *task)
{
	struct timeslice_client known;
	u32 client, gpu;

	if (atomic_load(&d->timeslices.left) == 0 || task->kind != CGPU_DEVICE_CTL)
		return;
	client = client_of(d, e);
	if (!timeslice_find(&d->timeslices, client, &known) || known.left == 0 || known.slot != e->call.slot ||
		task_copy(d, task) < 0)
		return;
	note(d, e, task, client);
	for (gpu = 0; gpu < d->driver.gpus; gpu++) {
		if ((known.left >> gpu & 1) && on_call(d, e, task, gpu, client) == 0)
			timeslice_not_left(&d->timeslices, client, 1u << gpu);
	}
}
