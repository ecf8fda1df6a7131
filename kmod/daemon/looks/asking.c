// SPDX-License-Identifier: Apache-2.0
/* Makes looks by the helpers of containers, and gives up what is not answered in time. */
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
		looks->at[i].helper = (struct helper){ -1, -1, -1 };
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

/* A container's place is its slot. Once another one has the slot, what is left of the container has a place elsewhere. */
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

/* A free one. Nobody waits with the lock of such a place. */
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

static void close_files(struct message *message)
{
	while (message->files)
		close(message->file[--message->files]);
}

/* The copy that an answer has announced. 0 or -EPROTO. */
static int take_copy(struct look_under_way *look)
{
	u64 of = 0;
	struct message message = { .head = &of, .head_bytes = sizeof(of) };
	int r = message_receive(look->place->helper.files, &message, MSG_DONTWAIT);

	if (r == 0 && of == look->answer.serial && message.files == 1 && message.data_bytes == 0) {
		look->copy = message.file[0];
		return 0;
	}
	close_files(&message);
	return -EPROTO;
}

static int receive_once(struct look_under_way *look)
{
	struct message message = {
		.head = &look->answer, .head_bytes = sizeof(look->answer), .data = look->in, .data_bytes = look->room
	};
	int r = message_receive(look->place->helper.results, &message, 0);

	if (r < 0)
		return r;
	if (message.data_bytes != look->answer.bytes || message.files > 1 ||
		(look->answer.copy && take_copy(look) < 0)) {
		close_files(&message);
		return -EPROTO;
	}
	look->opened = message.files ? message.file[0] : -1;
	return 0;
}

/* The next answer, to whichever request. -ETIMEDOUT: there was none in time; other negative errno: there will be none. */
static int receive(struct look_under_way *look)
{
	int r;

	look->opened = look->copy = -1;
	for (;;) {
		r = receive_once(look);
		if (r != -EAGAIN && r != -EINTR)
			return r;
		if (clock_ms() >= look->until)
			return -ETIMEDOUT;
	}
}

/* Whether a look has had its time. An asker that had to wait for another one may leave it somewhat early. */
static int had_long_enough(const struct looks_place *place)
{
	return clock_ms() + LOOKS_SOON_MS >= place->since + LOOKS_MS;
}

/* An earlier asker did not wait for its answer. 0 when there is nothing to wait for any more. */
static int finish_earlier(const struct look_under_way *later)
{
	struct looks_place *place = later->place;
	u8 data[LOOK_DATA_MAX];
	struct look_under_way look = { .place = place, .until = later->until, .in = data, .room = sizeof(data) };
	int r = 0;

	while (place->since && r == 0) {
		r = receive(&look);
		close_any(look.opened);
		close_any(look.copy);
		if (r == 0 && look.answer.serial == place->serial && !look.answer.more)
			place->since = 0;
		if (r == -ETIMEDOUT && !had_long_enough(place))
			return r;
	}
	if (r < 0)
		give_up(later->asker->looks, place);
	return 0;
}

static int start_helper(struct look_under_way *look)
{
	struct timeval poll_time = { .tv_usec = LOOKS_SOON_MS * 1000 / 2 };
	struct looks *looks = look->asker->looks;
	struct helper *helper = &look->place->helper;
	int r;

	find_owner(looks, look->place);
	if (!stuck_has_room(&looks->stuck, &look->place->owner))
		return -EAGAIN;
	r = helper_start(&looks->spawner, is_inspection(look) ? HELPER_TRACES : HELPER_LOOKS, helper);
	if (r == 0 && setsockopt(helper->results, SOL_SOCKET, SO_RCVTIMEO, &poll_time, sizeof(poll_time)) < 0) {
		r = -errno;
		helper_end(helper);
	}
	if (r < 0)
		say_no_helper(looks, look->place, -r);
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
	if (r == 0 && place->helper.results < 0)
		r = start_helper(look);
	return r;
}

static int send_request(struct look_under_way *look)
{
	struct looks_place *place = look->place;
	struct message message = { .head = &look->request,
		.head_bytes = sizeof(look->request),
		.data = (void *)(uintptr_t)look->data,
		.data_bytes = look->data ? look->request.bytes : 0,
		.file = { look->given },
		.files = look->given >= 0 };
	int tries, r = -EPIPE;

	look->request.serial = ++place->serial;
	for (tries = 0; tries < 2 && r == -EPIPE; tries++) {
		r = place->helper.results < 0 ? start_helper(look) : 0;
		if (r == 0)
			r = message_send(place->helper.results, &message);
		/* Somebody has killed it. */
		if (r < 0)
			helper_end(&place->helper);
	}
	if (r == 0)
		place->since = clock_ms();
	return r;
}

/* Returns 0 with the first answer, and with the place's lock unless that is the last; else a negative errno. */
static int next_answer(struct look_under_way *look)
{
	struct looks_place *place = look->place;
	int r = receive(look);

	if (r == 0 && look->answer.serial != place->serial) {
		close_one(&look->opened);
		close_one(&look->copy);
		r = -EPROTO;
	}
	if (r == 0) {
		if (!look->answer.more)
			place->since = 0;
		return 0;
	}
	if (look->asker->wait_ms < LOOKS_MS)
		place->rests = clock_ms() + LOOKS_REST_MS;
	if (r != -ETIMEDOUT || had_long_enough(place))
		give_up(look->asker->looks, place);
	return r == -ETIMEDOUT ? r : -EPIPE;
}

int make_look(struct look_under_way *look, answer_fn each, void *ctx)
{
	int r;

	look->opened = look->copy = -1;
	look->until = clock_ms() + look->asker->wait_ms;
	r = is_inspection(look) ? lock_inspection(look) : lock_place(look);
	if (r < 0)
		return r;
	r = prepare(look);
	if (r == 0)
		r = send_request(look);
	while (r == 0) {
		r = next_answer(look);
		if (r == 0 && each)
			each(ctx, look);
		if (!look->answer.more)
			break;
	}
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
		if (place->helper.results >= 0 && !find_container(looks, place, &info))
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
