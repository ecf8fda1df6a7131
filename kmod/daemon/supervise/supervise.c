// SPDX-License-Identifier: Apache-2.0
/* Takes a notification, judges and executes its call, and answers it. */
#define _GNU_SOURCE
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cgroup.h"
#include "reply_cache.h"
#include "driver_call.h"
#include "processes.h"
#include "request.h"
#include "supervise.h"
#include "task.h"

struct reply {
	s32 error; /* negative errno, or 0 */
	u32 go_on; /* 1: the thread runs its own call */
};

int supervise_sizes(struct cgpud *d)
{
	struct seccomp_notif_sizes sizes;

	if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0)
		return -errno;
	d->notif_bytes = sizes.seccomp_notif;
	d->resp_bytes = sizes.seccomp_notif_resp;
	return d->notif_bytes > NOTIF_BYTES_MAX || d->resp_bytes > NOTIF_BYTES_MAX ? -EPROTO : 0;
}

static struct notice notice_of(const struct listener *one, const struct in_flight *e)
{
	return (struct notice){ .listener = one->fd, .id = e->notif.id };
}

static int is_waited_for(const struct listener *one, const struct in_flight *e)
{
	struct notice notice = notice_of(one, e);

	return notice_stands(&notice);
}

/* 0, or -ENOENT when the thread no longer waits. */
static int answer(const struct listener *one, const struct in_flight *e, struct task *task, struct reply reply)
{
	union {
		struct seccomp_notif_resp resp;
		u8 space[NOTIF_BYTES_MAX];
	} out = { .resp = { .id = e->notif.id,
			  .error = reply.go_on ? 0 : reply.error,
			  .flags = reply.go_on ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0 } };

	task_close_files(task);
	return ioctl(one->fd, SECCOMP_IOCTL_NOTIF_SEND, &out) < 0 ? -errno : 0;
}

static void finish(
	struct cgpud *d, const struct listener *one, struct in_flight *e, struct task *task, struct reply reply)
{
	if (reply.go_on)
		atomic_fetch_add(&d->counters.continued, 1);
	else if (reply.error)
		atomic_fetch_add(&d->counters.refused, 1);
	in_flight_took(&d->in_flight, e, reply.go_on ? CGPU_OUTCOME_CONTINUED : CGPU_OUTCOME_ANSWERED);
	answer(one, e, task, reply);
	in_flight_release(&d->in_flight, e);
}

/* The caller cannot learn of its new object: free the object, if that can be done. */
static void undo_unheard(struct cgpud *d, struct in_flight *e, struct task *task)
{
	if (task->file >= 0 || (task->driver_node && task_copy(d, task) == 0))
		call_undo(d, e, task->file);
}

/* Hand over the answer of an executed call, and release the place of the call. */
static void deliver(
	struct cgpud *d, const struct listener *one, struct in_flight *e, struct task *task, enum cgpu_outcome outcome)
{
	struct reply reply = { .error = e->result };

	/* Open the memory before the check that the thread still waits: it is the thread's memory then. */
	task_open_memory(task);
	if (!is_waited_for(one, e)) {
		in_flight_took(&d->in_flight, e, outcome);
		reply_keep(d, e);
		return;
	}
	in_flight_set_stage(e, STAGE_ANSWERING);
	/* The driver copies out also when it says EINVAL (kernel-open/nvidia/nv.c, nvidia_ioctl). */
	if ((e->result == 0 || e->result == -EINVAL) && call_write(e, task, 1 + e->call.segments) < 0) {
		atomic_fetch_add(&d->counters.faults, 1);
		undo_unheard(d, e, task);
		reply.error = e->result = -EFAULT;
	}
	in_flight_took(&d->in_flight, e, outcome);
	if (answer(one, e, task, reply) == -ENOENT)
		reply_keep(d, e);
	else
		reply_sent(d, e);
}

/* Deliver an earlier answer in place of e's own. outcome: e's. */
static void deliver_earlier(struct cgpud *d, const struct listener *one, struct task *task, struct in_flight *earlier,
	struct in_flight *e, enum cgpu_outcome outcome)
{
	earlier->notif = e->notif;
	earlier->listener = one->serial;
	in_flight_set_stage(earlier, STAGE_EXECUTED);
	in_flight_set_stage(e, STAGE_FREE);
	d->in_flight.received[earlier->index] = d->in_flight.received[e->index];
	deliver(d, one, earlier, task, outcome);
	/* No other call of the thread is answered until here. */
	in_flight_release(&d->in_flight, e);
}

/* Full, or a client of another container: the ledger may have objects that the driver no longer has. Compare the
 * two, and judge once more. Memory of a process that has just ended is about to come back: wait a moment for it. */
static enum cgpu_verdict judge_again(struct cgpud *d, struct in_flight *e, struct task *task)
{
	useconds_t wait_us;

	if (e->call.no_room == CGPU_NO_ROOM_OWNERSHIP) {
		reaper_drop_stale_client(d, e->call.slot, e->call.client);
	} else {
		managed_recount(d, e->call.slot, e->call.generation, task->tid);
		external_sweep(d, (s64)e->call.slot);
		for (wait_us = 500; reaper_reconcile(d, (s64)e->call.slot) && wait_us < 20000; wait_us *= 2) {
			usleep(wait_us);
			external_sweep(d, (s64)e->call.slot);
		}
	}
	in_flight_unjudge(e);
	return call_judge(d, e, task);
}

/* earlier: the answer to the same call a moment ago, or NULL. */
static void execute(
	struct cgpud *d, const struct listener *one, struct in_flight *e, struct task *task, struct in_flight *earlier)
{
	call_execute(d, e, task);
	reaper_watch(d, e->call.slot, e->call.tgid);
	if (earlier && reply_stands(d, e)) {
		earlier->counted = e->counted;
		deliver_earlier(d, one, task, earlier, e, CGPU_OUTCOME_EXECUTED);
		return;
	}
	if (earlier)
		in_flight_release(&d->in_flight, earlier);
	deliver(d, one, e, task, CGPU_OUTCOME_EXECUTED);
}

static void settle(
	struct cgpud *d, const struct listener *one, struct in_flight *e, struct task *task, struct in_flight *earlier)
{
	struct reply reply = { 0 };
	enum cgpu_verdict verdict;

	timeslice_before_call(d, e, task);
	verdict = call_judge(d, e, task);

	if (verdict == CGPU_ANSWER && e->call.no_room)
		verdict = judge_again(d, e, task);
	if (verdict == CGPU_EXECUTE) {
		execute(d, one, e, task, earlier);
		return;
	}
	if (earlier)
		in_flight_release(&d->in_flight, earlier);
	target_drop(task);
	switch (verdict) {
	case CGPU_CONTINUE:
		reaper_watch(d, e->call.slot, e->call.tgid);
		reply.go_on = 1;
		break;
	case CGPU_ANSWER:
		if (is_waited_for(one, e) && call_write(e, task, 1) < 0)
			reply.error = -EFAULT;
		break;
	default:
		reply.error = e->call.error > 0 ? -e->call.error : -EPERM;
		break;
	}
	finish(d, one, e, task, reply);
}

/* Each time: of one container the log lets few warnings through. */
static void say_unknown(struct cgpud *d, const struct listener *one, const struct in_flight *e)
{
	struct cgpu_container_info info;

	if (cgpu_container_next(&d->core, one->slot, &info) == 0 && info.slot == one->slot)
		events_log(&d->events, LOG_LEVEL_WARNING,
			"container %s: system call %d of architecture 0x%x is not known here and was refused", info.id,
			e->notif.data.nr, e->notif.data.arch);
}

/* Each time, as above. */
static void say_refused_node(struct cgpud *d, const struct listener *one, const struct task *task)
{
	struct cgpu_container_info info;

	if (cgpu_container_next(&d->core, one->slot, &info) == 0 && info.slot == one->slot)
		events_log(&d->events, LOG_LEVEL_WARNING,
			"container %s: calls on device %u:%u are refused: memory that they allocate would be charged to nobody",
			info.id, task->identity.major, task->identity.minor);
}

/* An ioctl on one of the driver's nodes. */
static void supervise_driver_call(struct cgpud *d, const struct listener *one, struct in_flight *e, struct task *task,
	const struct request *request)
{
	struct in_flight *earlier;
	u32 sure;
	int r;

	atomic_fetch_add(&d->counters.supervised, 1);
	/* Facts that were seen before may be older than the first run's answer. */
	if (in_flight_await_thread(&d->in_flight, e))
		task_forget_seen(task);
	r = task_open(d, task);
	/* Another task may have the number, or the call was interrupted, and its restart may have been answered. */
	if (!is_waited_for(one, e)) {
		in_flight_release(&d->in_flight, e);
		return;
	}
	if (r < 0) {
		finish(d, one, e, task, (struct reply){ .error = r });
		return;
	}
	earlier = reply_find(d, e, task, &sure);
	if (earlier && sure) {
		deliver_earlier(d, one, task, earlier, e, CGPU_OUTCOME_ANSWERED);
		return;
	}
	if (task->kind == CGPU_DEVICE_OTHER && atomic_load(&d->enforce))
		say_refused_node(d, one, task);
	e->again = earlier != NULL;
	e->call.slot = one->slot;
	e->call.generation = one->generation;
	e->call.tgid = task->tgid;
	e->call.finds_files = d->files.epoll >= 0;
	e->call.no_room = CGPU_CALL_LOOKS;
	managed_recount_stale(d, one->slot, one->generation, task->tid);
	r = call_read(d, e, task, request->cmd, request->address);
	if (r == 0) {
		settle(d, one, e, task, earlier);
		return;
	}
	if (earlier)
		in_flight_release(&d->in_flight, earlier);
	finish(d, one, e, task, (struct reply){ .error = r });
}

static struct reply judge_managed(struct cgpud *d, const struct listener *one, const struct in_flight *e,
	struct task *task, const struct request *request)
{
	struct managed_map map = { .slot = one->slot,
		.generation = one->generation,
		.notice = notice_of(one, e),
		.tid = task->tid,
		.start = request->address,
		.bytes = request->bytes };
	int r = task_open(d, task);

	map.tgid = task->tgid;
	if (r == 0)
		r = managed_map(d, &map);
	if (r == 0)
		reaper_watch(d, map.slot, map.tgid);
	return (struct reply){ .error = r, .go_on = r == 0 };
}

static struct reply judge_map(struct cgpud *d, const struct listener *one, const struct in_flight *e, struct task *task,
	const struct request *request)
{
	if (task->kind == CGPU_DEVICE_UVM)
		return judge_managed(d, one, e, task, request);
	/* Nothing is done on these nodes, so there is nothing to map. */
	if (task->kind == CGPU_DEVICE_OTHER && atomic_load(&d->enforce))
		return (struct reply){ .error = -EPERM };
	return (struct reply){ .go_on = 1 };
}

static int read_old_map(
	const struct listener *one, const struct in_flight *e, struct task *task, struct request *request)
{
	u32 args[REQUEST_OLD_ARGS];
	int r = task_open_memory(task);

	if (r == 0 && !is_waited_for(one, e))
		r = -ENOENT;
	if (r == 0)
		r = task_read(task, request->address, args, sizeof(args));
	if (r == 0)
		request_decode_old(args, request);
	return r;
}

/* Inspect the call's file. 0, or the negative errno with which the call must fail. */
static int inspect(struct cgpud *d, const struct listener *one, const struct in_flight *e, struct task *task,
	struct request *request)
{
	struct call_wish wish;
	int r = 0;

	request_decode(&e->notif, request);
	if (request->kind == REQUEST_OLD_MAP)
		r = read_old_map(one, e, task, request);
	if (r == 0 && request->kind == REQUEST_UNKNOWN && atomic_load(&d->enforce)) {
		say_unknown(d, one, e);
		return -ENOSYS;
	}
	if (r < 0 || request->kind < REQUEST_IOCTL)
		return r;
	if (request->kind != REQUEST_IOCTL)
		return task_inspect(d, task, request->fd);
	wish = foresee_call(d->core.abi, request->cmd, request->address);
	return task_inspect_call(d, task, request->fd, &wish);
}

/* Each time, as above. */
static void say_unproven(struct cgpud *d, const struct cgpu_container_info *info, const struct in_flight *e)
{
	events_log(&d->events, LOG_LEVEL_WARNING,
		"container %s: a call of process %d is refused: its listener came from a process that had ended, and it is "
		"in no control group of the container's own",
		info->id, e->notif.pid);
}

/* Whether a listener is the container's. All processes under a filter descend from the one that has installed it, so one of
 * the container's group proves it for all. A group that is the whole machine's proves nothing. */
static int is_proven(struct cgpud *d, struct listener *one, const struct in_flight *e)
{
	struct cgpu_container_info info;

	if (!atomic_load(&one->unproven))
		return 1;
	if (cgpu_container_next(&d->core, one->slot, &info) < 0 || info.slot != one->slot ||
		info.generation != one->generation)
		return 0;
	/* The number is the caller's as long as that waits. */
	if (!strcmp(info.cgroup, "/") || !cgroup_holds(info.cgroup, (s32)e->notif.pid) || !is_waited_for(one, e)) {
		say_unproven(d, &info, e);
		return 0;
	}
	atomic_store(&one->unproven, 0);
	return 1;
}

static void supervise(struct cgpud *d, struct listener *one, struct task_cache *cache, struct in_flight *e)
{
	struct asker asker = asker_of(&d->looks, one->slot, one->generation);
	struct request request;
	struct task task;
	int r;

	cgpu_notified(&d->core);
	task_init(&task, &asker, cache, (s32)e->notif.pid);
	r = is_proven(d, one, e) ? inspect(d, one, e, &task, &request) : -EPERM;
	if (r < 0)
		finish(d, one, e, &task, (struct reply){ .error = r });
	else if (!task.driver_node)
		finish(d, one, e, &task, (struct reply){ .go_on = 1 });
	else if (request.kind == REQUEST_SHARED_MAP)
		finish(d, one, e, &task, judge_map(d, one, e, &task, &request));
	else
		supervise_driver_call(d, one, e, &task, &request);
	task_drop(&task);
}

/* Receive one notification and answer it. Arms the listener again as soon as it has it. */
static void answer_next(struct cgpud *d, struct listener *one, struct task_cache *cache)
{
	struct in_flight *e = in_flight_take(&d->in_flight);
	int r;

	if (!e) {
		reply_cache_sweep(d, 1);
		listener_share(&d->listeners, one);
		return;
	}
	e->listener = one->serial;
	r = ioctl(one->fd, SECCOMP_IOCTL_NOTIF_RECV, &e->notif);
	listener_share(&d->listeners, one);
	/* ENOENT: the thread was interrupted or killed before we came. */
	if (r < 0 || !e->notif.id) {
		in_flight_release(&d->in_flight, e);
		return;
	}
	in_flight_received(&d->in_flight, e);
	supervise(d, one, cache, e);
}

/* The engine before us died while it made this call: undo what the driver may have done, as if the call
 * had never been begun. Where its handle is not known, its charge stays. */
static void unwind_left(struct cgpud *d, struct task_cache *cache, struct in_flight *e)
{
	struct asker asker = asker_of(&d->looks, e->call.slot, e->call.generation);
	struct task task;

	/* UVM's work stays: the call runs again, and UVM reports that. */
	if (e->stage == STAGE_EXECUTING && e->call.device != CGPU_DEVICE_UVM) {
		task_init(&task, &asker, cache, (s32)e->notif.pid);
		if (task_take(d, &task, (int)e->notif.data.args[0]) < 0 || !call_undo_unsure(d, e, task.file)) {
			/* The driver may have made an object whose handle is not known: it stays charged. */
			atomic_fetch_add(&d->unsure, 1);
			task_drop(&task);
			return;
		}
		task_drop(&task);
	}
	cgpu_call_end(&d->core, &e->call, -EINTR);
}

static void deliver_left(struct cgpud *d, const struct listener *one, struct task_cache *cache, struct in_flight *e)
{
	struct asker asker = asker_of(&d->looks, one->slot, one->generation);
	struct task task;

	task_init(&task, &asker, cache, (s32)e->notif.pid);
	deliver(d, one, e, &task, CGPU_OUTCOME_EXECUTED);
	task_drop(&task);
}

static void answer_left(struct cgpud *d, struct task_cache *cache, struct in_flight *e)
{
	struct listener *one = listener_find(&d->listeners, e->listener);
	u32 stage = e->stage;

	if (stage == STAGE_RECEIVING || stage == STAGE_EXECUTING)
		unwind_left(d, cache, e);
	if (!one || (stage == STAGE_ANSWERING && !is_waited_for(one, e))) {
		in_flight_release(&d->in_flight, e);
	} else if (stage == STAGE_EXECUTED || stage == STAGE_ANSWERING) {
		deliver_left(d, one, cache, e);
	} else {
		in_flight_reset(e);
		e->repeated = stage == STAGE_EXECUTING;
		supervise(d, one, cache, e);
	}
	atomic_fetch_add(&d->counters.recovered, 1);
	if (one)
		listener_put(&d->listeners, one);
}

/* --- the work of workers --- */

static void housekeeping(struct cgpud *d)
{
	u64 n;

	if (read(d->wake_fd, &n, sizeof(n)) != sizeof(n))
		return;
	reply_cache_sweep(d, 0);
	external_sweep(d, -1);
	/* Last: a container can keep us here. */
	timeslice_serve(d);
}

static void serve(struct cgpud *d, struct task_cache *cache, u64 event, u32 events)
{
	struct listener *one = listener_get(&d->listeners, event);
	u64 serial;

	if (!one)
		return;
	serial = one->serial;
	if (events & EPOLLIN) {
		answer_next(d, one, cache);
	} else if (events & EPOLLHUP) {
		listener_kill(&d->listeners, one);
		events_tell(&d->events, "gone %llu\n", (unsigned long long)serial);
	} else {
		/* EPOLLERR: the look at it was interrupted (kernel/seccomp.c, seccomp_notify_poll). */
		listener_arm(&d->listeners, one);
	}
	listener_put(&d->listeners, one);
}

/* Answer the calls that the daemon before left. The last of them ends the recovery. */
static void take_up(struct cgpud *d, struct task_cache *cache)
{
	struct in_flight *left;

	atomic_fetch_add(&d->taking_up, 1);
	while ((left = in_flight_take_unanswered(&d->in_flight)))
		answer_left(d, cache, left);
	if (atomic_fetch_sub(&d->taking_up, 1) != 1)
		return;
	/* Workers that come later find nothing. */
	d->in_flight.recovered = 0;
	if (!atomic_load(&d->unsure))
		cgpu_recover_finish(&d->core);
}

const struct worker_work supervise_work = {
	.serve = serve,
	.housekeeping = housekeeping,
	.take_up = take_up,
};
