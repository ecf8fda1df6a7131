// SPDX-License-Identifier: Apache-2.0
/*
 * Takes a notification, and answers it. The path of a driver call is: read, plan and fetch, judge, run, settle. What ends
 * a call on its way says so in a struct reply, and settle_call() alone answers the thread.
 */
#define _GNU_SOURCE
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "reply_cache.h"
#include "driver_call.h"
#include "processes.h"
#include "request.h"
#include "supervise.h"
#include "task.h"

/* The answer to the waiting thread. */
enum reply_kind {
	REPLY_RESULT, /* nothing but the result of its system call */
	REPLY_GO_ON, /* the thread runs its own call */
	REPLY_STATUS, /* the top-level struct, with the core's answer */
	REPLY_COPIES, /* all copies, as the driver has left them */
	REPLY_EARLIER, /* those of the same call a moment ago */
	REPLY_NOBODY, /* the thread no longer waits */
};

struct reply {
	enum reply_kind kind;
	s32 error; /* of the result: negative errno, or 0 */
	u32 ran; /* 1: the driver has run the call */
	struct in_flight
		*earlier; /* the same call a moment ago, whose answer may have been lost; NULL: there is none */
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

static struct notice notice_of(const struct listener *listener, const struct in_flight *flight)
{
	return (struct notice){ .listener = listener->fd, .id = flight->notif.id };
}

static int is_waited_for(const struct listener *listener, const struct in_flight *flight)
{
	struct notice notice = notice_of(listener, flight);

	return notice_stands(&notice);
}

/* 0, or -ENOENT when the thread no longer waits. */
static int answer_thread(
	const struct listener *listener, const struct in_flight *flight, struct task *task, s32 error, u32 flags)
{
	union {
		struct seccomp_notif_resp resp;
		u8 space[NOTIF_BYTES_MAX];
	} out = { .resp = { .id = flight->notif.id, .error = error, .flags = flags } };

	task_close_files(task);
	return ioctl(listener->fd, SECCOMP_IOCTL_NOTIF_SEND, &out) < 0 ? -errno : 0;
}

/* --- settling --- */

/* The caller cannot learn of its new object: free the object, if that can be done. */
static void undo_unheard(struct cgpud *d, struct in_flight *flight, struct task *task)
{
	if (task->file >= 0 || (task->driver_node && task_copy(d, task) == 0))
		call_undo(d, flight, task->file);
}

/* Hand over the answer of a call that was run, and release its place. */
static void deliver_answer(struct cgpud *d, const struct listener *listener, struct in_flight *flight,
	struct task *task, enum cgpu_outcome outcome)
{
	/* Open the memory before the check that the thread still waits: it is the thread's memory then. */
	task_open_memory(task);
	if (!is_waited_for(listener, flight)) {
		in_flight_took(&d->in_flight, flight, outcome);
		reply_keep(d, flight);
		return;
	}
	in_flight_set_stage(flight, STAGE_ANSWERING);
	/* The driver copies out also when it says EINVAL (kernel-open/nvidia/nv.c, nvidia_ioctl). */
	if ((flight->result == 0 || flight->result == -EINVAL) &&
		call_write(flight, task, 1 + flight->call.segments) < 0) {
		atomic_fetch_add(&d->counters.faults, 1);
		undo_unheard(d, flight, task);
		flight->result = -EFAULT;
	}
	in_flight_took(&d->in_flight, flight, outcome);
	if (answer_thread(listener, flight, task, flight->result, 0) == -ENOENT)
		reply_keep(d, flight);
	else
		reply_sent(d, flight);
}

/* Deliver an earlier answer in place of this call's own. */
static void deliver_earlier(struct cgpud *d, const struct listener *listener, struct in_flight *flight,
	struct task *task, const struct reply *reply)
{
	struct in_flight *earlier = reply->earlier;

	if (reply->ran)
		earlier->counted = flight->counted;
	earlier->notif = flight->notif;
	earlier->listener = listener->serial;
	in_flight_set_stage(earlier, STAGE_EXECUTED);
	in_flight_set_stage(flight, STAGE_FREE);
	d->in_flight.received[earlier->index] = d->in_flight.received[flight->index];
	deliver_answer(d, listener, earlier, task, reply->ran ? CGPU_OUTCOME_EXECUTED : CGPU_OUTCOME_ANSWERED);
	/* No other call of the thread is answered until here. */
	in_flight_release(&d->in_flight, flight);
}

/* Answer a call that the engine has not run. */
static void finish_call(struct cgpud *d, const struct listener *listener, struct in_flight *flight, struct task *task,
	struct reply reply)
{
	u32 goes_on = reply.kind == REPLY_GO_ON;

	if (reply.kind == REPLY_STATUS && is_waited_for(listener, flight) && call_write(flight, task, 1) < 0)
		reply.error = -EFAULT;
	if (goes_on)
		atomic_fetch_add(&d->counters.continued, 1);
	else if (reply.error)
		atomic_fetch_add(&d->counters.refused, 1);
	in_flight_took(&d->in_flight, flight, goes_on ? CGPU_OUTCOME_CONTINUED : CGPU_OUTCOME_ANSWERED);
	answer_thread(listener, flight, task, reply.error, goes_on ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0);
	in_flight_release(&d->in_flight, flight);
}

/* The one end of each call: its thread is answered, and its place is released. */
static void settle_call(struct cgpud *d, const struct listener *listener, struct in_flight *flight, struct task *task,
	struct reply reply)
{
	if (reply.earlier && reply.kind != REPLY_EARLIER)
		in_flight_release(&d->in_flight, reply.earlier);
	switch (reply.kind) {
	case REPLY_COPIES:
		deliver_answer(d, listener, flight, task, CGPU_OUTCOME_EXECUTED);
		break;
	case REPLY_EARLIER:
		deliver_earlier(d, listener, flight, task, &reply);
		break;
	case REPLY_NOBODY:
		in_flight_release(&d->in_flight, flight);
		break;
	default:
		finish_call(d, listener, flight, task, reply);
	}
}

/* --- judging and running --- */

/* The ledger may have objects that the driver no longer has: compare the two. Memory of a process that has just ended is about to
 * come back: wait a moment for it. */
static void make_room(struct cgpud *d, struct in_flight *flight, const struct task *task)
{
	useconds_t wait_us;

	managed_recount(d, flight->call.slot, flight->call.generation, task->tid);
	external_sweep(d, (s64)flight->call.slot);
	for (wait_us = 500; reaper_reconcile(d, (s64)flight->call.slot) && wait_us < 20000; wait_us *= 2) {
		usleep(wait_us);
		external_sweep(d, (s64)flight->call.slot);
	}
}

static int fetch_or_make_room(struct cgpud *d, struct in_flight *flight, struct task *task)
{
	int r = call_fetch(d, flight, task);

	if (r != -ENOSPC)
		return r;
	make_room(d, flight, task);
	return call_fetch(d, flight, task);
}

/* Where there is no room, or another container has the client, the driver is asked, and the call is judged once more. */
static enum cgpu_verdict judge_or_make_room(struct cgpud *d, struct in_flight *flight, struct task *task)
{
	enum cgpu_verdict verdict = call_judge(d, flight, task);

	if (verdict != CGPU_ANSWER || !flight->call.no_room)
		return verdict;
	if (flight->call.no_room == CGPU_NO_ROOM_OWNERSHIP)
		reaper_drop_stale_client(d, flight->call.slot, flight->call.client);
	else
		make_room(d, flight, task);
	in_flight_unjudge(flight);
	return call_judge(d, flight, task);
}

static enum cgpu_verdict fetch_and_judge(struct cgpud *d, struct in_flight *flight, struct task *task)
{
	int r = fetch_or_make_room(d, flight, task);

	if (r == -ENOSPC)
		return target_no_room(d, flight);
	flight->call.error = -r;
	return r < 0 ? CGPU_REFUSE : judge_or_make_room(d, flight, task);
}

/* Have a call that was read judged, and run it if the verdict is to. */
static void judge_and_run(struct cgpud *d, struct in_flight *flight, struct task *task, struct reply *reply)
{
	enum cgpu_verdict verdict = fetch_and_judge(d, flight, task);

	switch (verdict) {
	case CGPU_EXECUTE:
		call_execute(d, flight, task);
		reply->ran = 1;
		reply->kind = reply->earlier && reply_stands(d, flight) ? REPLY_EARLIER : REPLY_COPIES;
		break;
	case CGPU_CONTINUE:
		reply->kind = REPLY_GO_ON;
		break;
	case CGPU_ANSWER:
		reply->kind = REPLY_STATUS;
		break;
	default:
		reply->error = flight->call.error > 0 ? -flight->call.error : -EPERM;
	}
	if (verdict == CGPU_EXECUTE || verdict == CGPU_CONTINUE)
		reaper_watch(d, flight->call.slot, flight->call.tgid);
}

/* Each time: of one container the log lets few warnings through. */
static void say_unknown(struct cgpud *d, const struct listener *listener, const struct in_flight *flight)
{
	struct cgpu_container_info info;

	if (cgpu_container_next(&d->core, listener->slot, &info) == 0 && info.slot == listener->slot)
		events_log(&d->events, LOG_LEVEL_WARNING,
			"container %s: system call %d of architecture 0x%x is not known here and was refused", info.id,
			flight->notif.data.nr, flight->notif.data.arch);
}

/* Each time, as above. */
static void say_refused_node(struct cgpud *d, const struct listener *listener, const struct task *task)
{
	struct cgpu_container_info info;

	if (cgpu_container_next(&d->core, listener->slot, &info) == 0 && info.slot == listener->slot)
		events_log(&d->events, LOG_LEVEL_WARNING,
			"container %s: calls on device %u:%u are refused: memory that they allocate would be charged to nobody",
			info.id, task->identity.major, task->identity.minor);
}

/* Open the task behind the call, and find out whether it still waits. */
static struct reply open_caller(
	struct cgpud *d, const struct listener *listener, struct in_flight *flight, struct task *task)
{
	struct reply reply = { REPLY_RESULT };

	/* Facts that were seen before may be older than the first run's answer. */
	if (in_flight_await_thread(&d->in_flight, flight))
		task_forget_seen(task);
	reply.error = task_open(d, task);
	/* Another task may have the number, or the call was interrupted, and its restart may have been answered. */
	if (!is_waited_for(listener, flight))
		reply.kind = REPLY_NOBODY;
	return reply;
}

static void describe_call(
	struct cgpud *d, const struct listener *listener, struct in_flight *flight, const struct task *task)
{
	flight->call.slot = listener->slot;
	flight->call.generation = listener->generation;
	flight->call.tgid = task->tgid;
	flight->call.finds_files = d->files.epoll >= 0;
	flight->call.no_room = CGPU_CALL_LOOKS;
}

/* An ioctl on one of the driver's nodes. */
static struct reply supervise_driver_call(struct cgpud *d, const struct listener *listener, struct in_flight *flight,
	struct task *task, const struct request *request)
{
	struct reply reply;
	u32 sure;

	atomic_fetch_add(&d->counters.supervised, 1);
	reply = open_caller(d, listener, flight, task);
	if (reply.kind == REPLY_NOBODY || reply.error)
		return reply;
	reply.earlier = reply_find(d, flight, task, &sure);
	flight->again = reply.earlier != NULL;
	if (reply.earlier && sure) {
		reply.kind = REPLY_EARLIER;
		return reply;
	}
	if (task->kind == CGPU_DEVICE_OTHER && atomic_load(&d->enforce))
		say_refused_node(d, listener, task);
	describe_call(d, listener, flight, task);
	managed_recount_stale(d, listener->slot, listener->generation, task->tid);
	reply.error = call_read(d, flight, task, request->cmd, request->address);
	if (reply.error)
		return reply;
	timeslice_before_call(d, flight, task);
	judge_and_run(d, flight, task, &reply);
	return reply;
}

static struct reply judge_managed(struct cgpud *d, const struct listener *listener, const struct in_flight *flight,
	struct task *task, const struct request *request)
{
	struct managed_map map = { .slot = listener->slot,
		.generation = listener->generation,
		.notice = notice_of(listener, flight),
		.tid = task->tid,
		.start = request->address,
		.bytes = request->bytes };
	int r = task_open(d, task);

	map.tgid = task->tgid;
	if (r == 0)
		r = managed_map(d, &map);
	if (r == 0)
		reaper_watch(d, map.slot, map.tgid);
	return (struct reply){ .kind = r == 0 ? REPLY_GO_ON : REPLY_RESULT, .error = r };
}

static struct reply judge_map(struct cgpud *d, const struct listener *listener, const struct in_flight *flight,
	struct task *task, const struct request *request)
{
	if (task->kind == CGPU_DEVICE_UVM)
		return judge_managed(d, listener, flight, task, request);
	/* Nothing is done on these nodes, so there is nothing to map. */
	if (task->kind == CGPU_DEVICE_OTHER && atomic_load(&d->enforce))
		return (struct reply){ .error = -EPERM };
	return (struct reply){ .kind = REPLY_GO_ON };
}

static int read_old_map(
	const struct listener *listener, const struct in_flight *flight, struct task *task, struct request *request)
{
	u32 args[REQUEST_OLD_ARGS];
	int r = task_open_memory(task);

	if (r == 0 && !is_waited_for(listener, flight))
		r = -ENOENT;
	if (r == 0)
		r = task_read(task, request->address, args, sizeof(args));
	if (r == 0)
		request_decode_old(args, request);
	return r;
}

/* Inspect the call's file. 0, or the negative errno with which the call must fail. */
static int inspect_request(struct cgpud *d, const struct listener *listener, const struct in_flight *flight,
	struct task *task, struct request *request)
{
	struct call_wish wish;
	int r = 0;

	request_decode(&flight->notif, request);
	if (request->kind == REQUEST_OLD_MAP)
		r = read_old_map(listener, flight, task, request);
	if (r == 0 && request->kind == REQUEST_UNKNOWN && atomic_load(&d->enforce)) {
		say_unknown(d, listener, flight);
		return -ENOSYS;
	}
	if (r < 0 || request->kind < REQUEST_IOCTL)
		return r;
	if (request->kind != REQUEST_IOCTL)
		return task_inspect(d, task, request->fd);
	wish = foresee_call(d->core.abi, request->cmd, request->address);
	return task_inspect_call(d, task, request->fd, &wish);
}

static struct reply judge_request(
	struct cgpud *d, struct listener *listener, struct in_flight *flight, struct task *task)
{
	struct request request;
	int r = inspect_request(d, listener, flight, task, &request);

	if (r < 0)
		return (struct reply){ .error = r };
	if (!task->driver_node)
		return (struct reply){ .kind = REPLY_GO_ON };
	return request.kind == REQUEST_SHARED_MAP ? judge_map(d, listener, flight, task, &request) :
						    supervise_driver_call(d, listener, flight, task, &request);
}

static void supervise(struct cgpud *d, struct listener *listener, struct task_cache *cache, struct in_flight *flight)
{
	struct asker asker = asker_of(&d->looks, listener->slot, listener->generation);
	struct task task;

	cgpu_notified(&d->core);
	task_init(&task, &asker, cache, (s32)flight->notif.pid);
	settle_call(d, listener, flight, &task, judge_request(d, listener, flight, &task));
	task_drop(&task);
}

/* Receive one notification and answer it. Arms the listener again as soon as it has it. */
static void answer_next(struct cgpud *d, struct listener *listener, struct task_cache *cache)
{
	struct in_flight *flight = in_flight_take(&d->in_flight);
	int r;

	if (!flight) {
		reply_cache_sweep(d, 1);
		listener_share(&d->listeners, listener);
		return;
	}
	flight->listener = listener->serial;
	r = ioctl(listener->fd, SECCOMP_IOCTL_NOTIF_RECV, &flight->notif);
	listener_share(&d->listeners, listener);
	/* ENOENT: the thread was interrupted or killed before we came. */
	if (r < 0 || !flight->notif.id) {
		in_flight_release(&d->in_flight, flight);
		return;
	}
	in_flight_received(&d->in_flight, flight);
	supervise(d, listener, cache, flight);
}

/* The engine before us died while it made this call: undo what the driver may have done, as if the call
 * had never been begun. Where its handle is not known, its charge stays. */
static void unwind_left(struct cgpud *d, struct task_cache *cache, struct in_flight *flight)
{
	struct asker asker = asker_of(&d->looks, flight->call.slot, flight->call.generation);
	struct task task;

	/* UVM's work stays: the call runs again, and UVM reports that. */
	if (flight->stage == STAGE_EXECUTING && flight->call.device != CGPU_DEVICE_UVM) {
		task_init(&task, &asker, cache, (s32)flight->notif.pid);
		if (task_take(d, &task, (int)flight->notif.data.args[0]) < 0 ||
			!call_undo_unsure(d, flight, task.file)) {
			/* The driver may have made an object whose handle is not known: it stays charged, also under the
			 * engines after this one. */
			__atomic_store_n(d->in_flight.unsure, 1, __ATOMIC_RELEASE);
			task_drop(&task);
			return;
		}
		task_drop(&task);
	}
	cgpu_call_end(&d->core, &flight->call, -EINTR);
}

static void settle_left(
	struct cgpud *d, const struct listener *listener, struct task_cache *cache, struct in_flight *flight)
{
	struct asker asker = asker_of(&d->looks, listener->slot, listener->generation);
	struct task task;

	task_init(&task, &asker, cache, (s32)flight->notif.pid);
	settle_call(d, listener, flight, &task, (struct reply){ .kind = REPLY_COPIES });
	task_drop(&task);
}

static void answer_left(struct cgpud *d, struct task_cache *cache, struct in_flight *flight)
{
	struct listener *listener = listener_find(&d->listeners, flight->listener);
	u32 stage = flight->stage;

	if (stage == STAGE_RECEIVING || stage == STAGE_EXECUTING)
		unwind_left(d, cache, flight);
	if (!listener || (stage == STAGE_ANSWERING && !is_waited_for(listener, flight))) {
		in_flight_release(&d->in_flight, flight);
	} else if (stage == STAGE_EXECUTED || stage == STAGE_ANSWERING) {
		settle_left(d, listener, cache, flight);
	} else {
		in_flight_reset(flight);
		flight->repeated = stage == STAGE_EXECUTING;
		supervise(d, listener, cache, flight);
	}
	atomic_fetch_add(&d->counters.recovered, 1);
	if (listener)
		listener_put(&d->listeners, listener);
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
	struct listener *listener = listener_get(&d->listeners, event);
	u64 serial;

	if (!listener)
		return;
	serial = listener->serial;
	if (events & EPOLLIN) {
		answer_next(d, listener, cache);
	} else if (events & EPOLLHUP) {
		listener_kill(&d->listeners, listener);
		events_tell(&d->events, "gone %llu\n", (unsigned long long)serial);
	} else {
		/* EPOLLERR: the look at it was interrupted (kernel/seccomp.c, seccomp_notify_poll). */
		listener_arm(&d->listeners, listener);
	}
	listener_put(&d->listeners, listener);
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
	if (!__atomic_load_n(d->in_flight.unsure, __ATOMIC_ACQUIRE))
		cgpu_recover_finish(&d->core);
}

const struct worker_work supervise_work = {
	.serve = serve,
	.housekeeping = housekeeping,
	.take_up = take_up,
};
