// SPDX-License-Identifier: Apache-2.0
/* Makes looks by the helpers of containers, and gives up those without an answer in time. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "descriptors.h"
#include "asking.h"
#include "processes.h"

_Static_assert(STUCK_ROOM >= STUCK_MAX + LOOKS_PLACES, "each helper may get stuck");

int looks_open(struct looks *looks, struct cgpu_core *core, struct events *events)
{
	u64 inode;
	u32 i;

	looks->core = core;
	looks->events = events;
	looks->inodes = process_inode((s32)getpid(), &inode) == 0;
	stuck_open(&looks->stuck);
	for (i = 0; i < LOOKS_PLACES; i++) {
		pthread_mutex_init(&looks->at[i].lock, NULL);
		looks->at[i].helper = (struct helper){ NULL, -1, -1 };
	}
	return spawner_open(&looks->spawner);
}

/* --- helpers that have been given up --- */

/* 1 when the place is that of a container that is there. */
static int find_container(const struct looks *looks, const struct looks_place *place, struct cgpu_container_info *info)
{
	return place->slot < CGPU_MAX_CONTAINERS && cgpu_container_next(looks->core, place->slot, info) == 0 &&
		info->slot == place->slot && info->generation == place->generation;
}

static void find_owner(struct looks *looks, struct looks_place *place)
{
	struct cgpu_container_info info;

	place->owner =
		find_container(looks, place, &info) ? stuck_owner_of(&info) : stuck_owner_gone(place->generation);
}

static void say_late(struct looks *looks, const struct looks_place *place, u64 waited_ms)
{
	struct cgpu_container_info info;

	if (find_container(looks, place, &info))
		events_log(looks->events, LOG_LEVEL_WARNING,
			"container %s: one of its processes kept the engine's look at it waiting for %llu ms: calls that need such a "
			"look fail",
			info.id, (unsigned long long)waited_ms);
}

static void say_no_helper(struct looks *looks, const struct looks_place *place, int error)
{
	struct cgpu_container_info info;

	if (find_container(looks, place, &info))
		events_log(looks->events, LOG_LEVEL_WARNING,
			"container %s: no process that looks at its processes can be started: %s", info.id,
			strerror(error));
}

/* With the place's lock. */
static void give_up(struct looks *looks, struct looks_place *place)
{
	u64 waited_ms = place->since ? clock_ms() - place->since : 0;
	int pidfd = helper_kill(&place->helper);

	place->since = 0;
	if (pidfd < 0)
		return;
	atomic_fetch_add(&looks->late, 1);
	stuck_add(&looks->stuck, &place->owner, pidfd);
	say_late(looks, place, waited_ms);
}

/* --- the place that a look is made by --- */

static void end_helper(struct looks *looks, struct looks_place *place)
{
	if (place->since)
		give_up(looks, place);
	else
		helper_end(&place->helper);
}

/* A thread that others need does not wait again for the lock of a place that it has just waited for in vain: threads of the
 * container's own could have the lock nearly all the time. */
static int lock_in_time(struct looks_place *place, const struct asker *asker, const struct timespec *until)
{
	int soon = asker->wait_ms < LOOKS_MS, r;

	if (soon && clock_ms() < atomic_load(&place->crowded))
		return -ETIMEDOUT;
	r = pthread_mutex_clocklock(&place->lock, CLOCK_MONOTONIC, until);
	if (r && soon)
		atomic_store(&place->crowded, clock_ms() + LOOKS_REST_MS);
	return -r;
}

/* A container's place is its slot. Once another container has the slot, the removed one has a place elsewhere. */
static int lock_place(struct look_under_way *look)
{
	const struct asker *asker = look->asker;
	struct timespec time = clock_time(look->until * 1000000);
	struct looks *looks = asker->looks;
	int r;

	if (asker->slot < CGPU_MAX_CONTAINERS) {
		look->place = &looks->at[asker->slot];
		r = lock_in_time(look->place, asker, &time);
		if (r < 0 || look->place->generation <= asker->generation)
			return r;
		pthread_mutex_unlock(&look->place->lock);
	}
	look->place = &looks->at[CGPU_MAX_CONTAINERS + asker->generation % CGPU_MAX_CONTAINERS];
	return lock_in_time(look->place, asker, &time);
}

static int is_inspection(const struct look_under_way *look)
{
	return look->request.what == LOOK_FILTERS;
}

/* Lock a free place. No thread waits while it has the lock of such a place. */
static int lock_inspection(struct look_under_way *look)
{
	struct looks *looks = look->asker->looks;
	u32 i;

	for (i = LOOKS_CONTAINERS; i < LOOKS_PLACES; i++) {
		look->place = &looks->at[i];
		if (pthread_mutex_trylock(&look->place->lock) == 0)
			return 0;
	}
	return -EAGAIN;
}

/* The descriptor that an answer has announced. 0 or -EPROTO. */
static int take_file(struct look_under_way *look)
{
	struct message message = { 0 };
	int r = message_receive(look->place->helper.files, &message, MSG_DONTWAIT);

	if (r == 0 && message.serial == look->answer.serial && message.files == 1) {
		look->opened = message.file[0];
		return 0;
	}
	while (r == 0 && message.files)
		close(message.file[--message.files]);
	return -EPROTO;
}

static int take_answer(struct look_under_way *look)
{
	const struct mailbox *box = look->place->helper.box;

	look->answer = box->answer;
	if (look->in && look->answer.bytes > look->room)
		return -EPROTO;
	if (look->in)
		memcpy(look->in, box->data, look->answer.bytes);
	return look->answer.sent ? take_file(look) : 0;
}

/* Milliseconds to wait before a check whether the helper lives. */
static u32 time_to_wait(const struct look_under_way *look)
{
	u64 now = clock_ms(), left = look->until > now ? look->until - now : 1;

	return left < LOOKS_SOON_MS / 2 ? (u32)left : LOOKS_SOON_MS / 2;
}

/* The next answer, to whichever request. -ETIMEDOUT: there was none in time; -ESRCH: the helper has ended; other negative
 * errno: there will be none. */
static int receive(struct look_under_way *look)
{
	const struct helper *helper = &look->place->helper;

	look->opened = -1;
	while (mailbox_await(helper->box, TURN_ASKER, time_to_wait(look)) < 0) {
		if (process_ended(helper->pidfd))
			return -ESRCH;
		if (clock_ms() >= look->until)
			return -ETIMEDOUT;
	}
	return take_answer(look);
}

/* Whether a look has had its time. An asker that had to wait for another one may leave it somewhat early. */
static int had_long_enough(const struct looks_place *place)
{
	return clock_ms() + LOOKS_SOON_MS >= place->since + LOOKS_MS;
}

/* An asker did not wait, so the helper closes the memory that it opened for it with the next request. */
static void release_unclaimed(struct looks_place *place, const struct look_under_way *look)
{
	u32 number = (u32)place->helper.box->request.memory;

	if (!look->answer.memory || number >= LOOK_MEMORIES)
		return;
	place->memories |= 1u << number;
	atomic_fetch_or(&place->released, 1ull << number);
}

/* An earlier asker did not wait for its answer. 0 when there is nothing to wait for any more. */
static int finish_earlier(const struct look_under_way *later)
{
	struct looks_place *place = later->place;
	struct look_under_way look = { .place = place, .until = later->until };
	int r = 0;

	while (place->since && r == 0) {
		r = receive(&look);
		close_any(look.opened);
		if (r == 0 && look.answer.more) {
			mailbox_pass(place->helper.box, TURN_HELPER);
		} else if (r == 0) {
			release_unclaimed(place, &look);
			place->since = 0;
		}
		if (r == -ETIMEDOUT && !had_long_enough(place))
			return r;
	}
	if (r < 0)
		give_up(later->asker->looks, place);
	return 0;
}

static int start_helper(struct look_under_way *look)
{
	enum helper_kind kind = is_inspection(look) ? HELPER_TRACES : HELPER_LOOKS;
	struct looks *looks = look->asker->looks;
	struct looks_place *place = look->place;
	int r;

	find_owner(looks, place);
	if (!stuck_has_room(&looks->stuck, &place->owner))
		return -EAGAIN;
	r = helper_start(&looks->spawner, kind, &place->helper);
	if (r < 0)
		say_no_helper(looks, place, -r);
	place->memories = 0;
	atomic_store(&place->released, (u64)(atomic_fetch_add(&looks->instances, 1) + 1) << 32);
	return r;
}

/* A helper is there that has nothing to do. */
static int prepare(struct look_under_way *look)
{
	struct looks_place *place = look->place;
	const struct asker *asker = look->asker;
	int r;

	place->slot = asker->slot;
	if (place->generation != asker->generation) {
		end_helper(asker->looks, place);
		place->generation = asker->generation;
		place->rests = 0;
	}
	if (asker->wait_ms < LOOKS_MS && clock_ms() < place->rests)
		return -ETIMEDOUT;
	r = place->since ? finish_earlier(look) : 0;
	return r == 0 && !place->helper.box ? start_helper(look) : r;
}

/* --- memories of threads that the helper has open --- */

static u32 instance_of(const struct looks_place *place)
{
	return (u32)(atomic_load(&place->released) >> 32);
}

/* Free number for the memory that the helper may open; -1: there is none. */
static s32 choose_memory(const struct looks_place *place)
{
	u32 number = 0;

	while (number < LOOK_MEMORIES && place->memories >> number & 1)
		number++;
	return number < LOOK_MEMORIES ? (s32)number : -1;
}

/* Name the memory that is meant, and those to be closed. 0, or -EFAULT when there is another helper by now. */
static int name_memory(struct look_under_way *look)
{
	const struct look_memory *memory = look->memory;
	struct looks_place *place = look->place;
	u64 instance = (u64)instance_of(place) << 32;

	if (memory && (memory->place != place || memory->instance != instance_of(place)))
		return -EFAULT;
	/* The helper frees closed numbers only with its answer, so this request may not choose one of them. */
	look->request.memory = memory ? (s32)memory->number : look->opens_memory ? choose_memory(place) : -1;
	look->request.closed = (u32)atomic_exchange(&place->released, instance);
	place->memories &= ~look->request.closed;
	return 0;
}

static void note_memory(struct look_under_way *look)
{
	if (!look->answer.memory || !look->opens_memory)
		return;
	look->place->memories |= 1u << look->request.memory;
	look->opened_memory = (struct look_memory){ look->place, instance_of(look->place), (u32)look->request.memory,
		look->answer.held };
	if (look->answer.held)
		look->copy = process_take_fd(look->place->helper.pidfd, look->answer.copy);
}

/* --- one look --- */

static int give(const struct look_under_way *look)
{
	struct message message = { .serial = look->request.serial, .file = { look->given }, .files = 1 };

	return look->given < 0 ? 0 : message_send(look->place->helper.files, &message);
}

static int send_request(struct look_under_way *look)
{
	struct looks_place *place = look->place;
	struct mailbox *box = place->helper.box;
	int r = name_memory(look);

	if (r < 0)
		return r;
	look->request.serial = ++place->serial;
	look->request.given = look->given >= 0;
	r = give(look);
	if (r < 0) {
		/* The helper would take the next request's descriptor for this one's. */
		helper_end(&place->helper);
		return r == -EPIPE ? -ESRCH : r;
	}
	box->request = look->request;
	if (look->data)
		memcpy(box->data, look->data, look->request.bytes);
	place->since = clock_ms();
	/* Neither others' looks nor a helper's start, as on a machine that has much to do, take of the process's time to answer. */
	if (look->asker->wait_ms >= LOOKS_MS)
		look->until = place->since + look->asker->wait_ms;
	mailbox_pass(box, TURN_HELPER);
	return 0;
}

/* Returns 0 with the next answer, or a negative errno; -ESRCH: somebody has killed the helper. */
static int next_answer(struct look_under_way *look)
{
	struct looks_place *place = look->place;
	int r = receive(look);

	if (r == 0 && look->answer.serial != place->serial) {
		close_one(&look->opened);
		r = -EPROTO;
	}
	if (r == 0) {
		note_memory(look);
		if (!look->answer.more)
			place->since = 0;
		return 0;
	}
	if (r == -ETIMEDOUT && look->asker->wait_ms < LOOKS_MS)
		place->rests = clock_ms() + LOOKS_REST_MS;
	if (r == -ESRCH) {
		place->since = 0;
		helper_end(&place->helper);
	} else if (r != -ETIMEDOUT || had_long_enough(place)) {
		give_up(look->asker->looks, place);
	}
	return r == -ETIMEDOUT || r == -ESRCH ? r : -EPIPE;
}

/* Ask until the first answer; by another helper, if a process has killed the first one. */
static int ask(struct look_under_way *look)
{
	int tries, r = -ESRCH;

	for (tries = 0; tries < 2 && r == -ESRCH; tries++) {
		r = prepare(look);
		if (r == 0)
			r = send_request(look);
		if (r == 0)
			r = next_answer(look);
	}
	return r == -ESRCH ? -EPIPE : r;
}

static int answer_all(struct look_under_way *look, answer_fn each, void *ctx)
{
	int r = ask(look);

	while (r == 0) {
		if (each)
			each(ctx, look);
		if (!look->answer.more)
			break;
		mailbox_pass(look->place->helper.box, TURN_HELPER);
		r = next_answer(look);
	}
	return r == -ESRCH ? -EPIPE : r;
}

int make_look(struct look_under_way *look, answer_fn each, void *ctx)
{
	int r;

	look->opened = look->copy = -1;
	look->opened_memory = (struct look_memory){ 0 };
	look->until = clock_ms() + look->asker->wait_ms;
	r = is_inspection(look) ? lock_inspection(look) : lock_place(look);
	if (r < 0)
		return r;
	r = answer_all(look, each, ctx);
	/* Its helper has rights that no other look needs, and there is none to wait for. */
	if (is_inspection(look))
		end_helper(look->asker->looks, look->place);
	pthread_mutex_unlock(&look->place->lock);
	return r < 0 ? r : look->answer.result;
}

/* --- the end --- */

void looks_tidy(struct looks *looks)
{
	u32 i;

	for (i = 0; i < LOOKS_PLACES; i++) {
		struct looks_place *place = &looks->at[i];
		struct cgpu_container_info info;

		if (pthread_mutex_trylock(&place->lock) != 0)
			continue;
		if (place->helper.box && !find_container(looks, place, &info))
			end_helper(looks, place);
		pthread_mutex_unlock(&place->lock);
	}
}

void looks_close(struct looks *looks)
{
	u32 i;

	for (i = 0; i < LOOKS_PLACES; i++)
		end_helper(looks, &looks->at[i]);
	stuck_close(&looks->stuck);
	spawner_close(&looks->spawner);
}
