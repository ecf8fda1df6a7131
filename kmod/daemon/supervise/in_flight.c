// SPDX-License-Identifier: Apache-2.0
/* The table of calls in flight: places, stages, and answers that wait for their thread. */
#define _GNU_SOURCE

#include "clock.h"
#include "in_flight.h"

void in_flight_set_stage(struct in_flight *e, enum stage stage)
{
	/* The next engine reads this after our death: earlier writes must not be reordered behind it. */
	__atomic_store_n(&e->stage, stage, __ATOMIC_RELEASE);
}

u64 in_flight_address(const struct in_flight *e, u32 n)
{
	return n ? e->call.segment[n - 1].address : e->top_address;
}

u32 in_flight_bytes(const struct in_flight *e, u32 n)
{
	return n ? e->call.segment[n - 1].bytes : e->call.bytes;
}

/* The oldest of the container that has most in this stage: no container's answers are dropped for those of another one. */
static struct in_flight *oldest_of_most(const struct in_flight_table *x, enum stage stage)
{
	u16 held[CGPU_MAX_CONTAINERS] = { 0 }, most = 0;
	struct in_flight *oldest = NULL;
	u32 i;

	for (i = 0; i < IN_FLIGHT_MAX; i++) {
		u32 slot = x->at[i].call.slot % CGPU_MAX_CONTAINERS;

		if (!x->busy[i] && x->at[i].stage == stage && ++held[slot] > most)
			most = held[slot];
	}
	for (i = 0; i < IN_FLIGHT_MAX; i++) {
		struct in_flight *e = &x->at[i];

		if (!x->busy[i] && e->stage == stage && held[e->call.slot % CGPU_MAX_CONTAINERS] == most &&
			(!oldest || e->age < oldest->age))
			oldest = e;
	}
	return oldest;
}

/* The first at or after an index that no worker has, of some stages, and (tid 0: of any) of one thread. */
static struct in_flight *find_idle(const struct in_flight_table *x, enum stage from, enum stage to, s32 tid, u32 index)
{
	u32 i;

	for (i = index; i < IN_FLIGHT_MAX; i++) {
		if (!x->busy[i] && x->at[i].stage >= from && x->at[i].stage <= to && (!tid || x->thread[i] == tid))
			return &x->at[i];
	}
	return NULL;
}

/* A worker has it from now on. for_thread: it works for the same thread already; else that thread waits. */
static struct in_flight *take(struct in_flight_table *x, struct in_flight *e, int for_thread)
{
	if (!e)
		return NULL;
	x->busy[e->index] = 1;
	if (for_thread)
		x->thread[e->index] = 0;
	if (e->stage == STAGE_KEPT)
		atomic_fetch_sub(&x->kept, 1);
	return e;
}

/* No worker has it any more. */
static void put(struct in_flight_table *x, struct in_flight *e, enum stage stage)
{
	in_flight_set_stage(e, stage);
	x->thread[e->index] = stage == STAGE_FREE ? 0 : (s32)e->notif.pid;
	x->busy[e->index] = 0;
	if (stage == STAGE_KEPT)
		atomic_fetch_add(&x->kept, 1);
	pthread_cond_broadcast(&x->changed);
}

struct in_flight *in_flight_take(struct in_flight_table *x)
{
	struct in_flight *e;

	pthread_mutex_lock(&x->lock);
	e = find_idle(x, STAGE_FREE, STAGE_FREE, 0, 0);
	e = take(x, e ? e : oldest_of_most(x, STAGE_SENT), 1);
	if (e)
		in_flight_set_stage(e, STAGE_FREE);
	pthread_mutex_unlock(&x->lock);
	if (!e)
		return NULL;
	memset(&e->notif_space, 0, sizeof(e->notif_space));
	in_flight_reset(e);
	return e;
}

void in_flight_rebase(struct in_flight *e)
{
	u32 i;

	e->call.top = e->copy[0];
	for (i = 0; i < CGPU_MAX_SEGMENTS; i++)
		e->call.segment[i].data = e->copy[1 + i];
}

void in_flight_reset(struct in_flight *e)
{
	memset(&e->call, 0, sizeof(e->call));
	in_flight_rebase(e);
	e->undone = 0;
	e->repeated = 0;
	e->chosen = 0;
	e->again = 0;
	e->counted = 0;
	e->result = 0;
	e->top_address = 0;
	in_flight_set_stage(e, STAGE_RECEIVING);
}

void in_flight_unjudge(struct in_flight *e)
{
	memcpy(e->copy[0], e->before[0], e->call.bytes);
	e->call.no_room = 0;
	e->call.error = 0;
	memset(e->call.opaque, 0, sizeof(e->call.opaque));
}

struct in_flight *in_flight_take_unanswered(struct in_flight_table *x)
{
	struct in_flight *e = NULL;

	pthread_mutex_lock(&x->lock);
	if (x->recovered)
		e = take(x, find_idle(x, STAGE_RECEIVING, STAGE_ANSWERING, 0, 0), 1);
	pthread_mutex_unlock(&x->lock);
	return e;
}

void in_flight_release(struct in_flight_table *x, struct in_flight *e)
{
	pthread_mutex_lock(&x->lock);
	put(x, e, STAGE_FREE);
	pthread_mutex_unlock(&x->lock);
}

void in_flight_received(struct in_flight_table *x, const struct in_flight *e)
{
	x->received[e->index] = clock_ns();
}

void in_flight_took(struct in_flight_table *x, const struct in_flight *e, enum cgpu_outcome outcome)
{
	struct cgpu_latency *latency = &x->latency[outcome];
	u64 since = x->received[e->index], ns;

	if (!since)
		return;
	ns = clock_ns() - since;
	__atomic_fetch_add(&latency->ns, ns, __ATOMIC_RELAXED);
	__atomic_fetch_add(&latency->calls[cgpu_latency_bucket(ns)], 1, __ATOMIC_RELAXED);
}

static int thread_is_busy(const struct in_flight_table *x, s32 tid)
{
	u32 i;

	for (i = 0; i < IN_FLIGHT_MAX; i++)
		if (x->busy[i] && x->thread[i] == tid)
			return 1;
	return 0;
}

u32 in_flight_await_thread(struct in_flight_table *x, struct in_flight *e)
{
	s32 tid = (s32)e->notif.pid;
	u32 waited = 0;

	pthread_mutex_lock(&x->lock);
	while (thread_is_busy(x, tid)) {
		waited = 1;
		pthread_cond_wait(&x->changed, &x->lock);
	}
	x->thread[e->index] = tid;
	pthread_mutex_unlock(&x->lock);
	return waited;
}

void in_flight_keep(struct in_flight_table *x, struct in_flight *e)
{
	e->age = x->ages;
	in_flight_return_kept(x, e);
}

void in_flight_return_kept(struct in_flight_table *x, struct in_flight *e)
{
	pthread_mutex_lock(&x->lock);
	x->ages++;
	put(x, e, STAGE_KEPT);
	pthread_mutex_unlock(&x->lock);
}

void in_flight_sent(struct in_flight_table *x, struct in_flight *e)
{
	u64 now = clock_ns();

	pthread_mutex_lock(&x->lock);
	e->sent = now;
	e->age = x->ages++;
	put(x, e, STAGE_SENT);
	pthread_mutex_unlock(&x->lock);
}

struct in_flight *in_flight_take_sent(struct in_flight_table *x, s32 tid)
{
	struct in_flight *e;

	pthread_mutex_lock(&x->lock);
	e = take(x, find_idle(x, STAGE_SENT, STAGE_SENT, tid, 0), 1);
	pthread_mutex_unlock(&x->lock);
	return e;
}

struct in_flight *in_flight_take_kept(struct in_flight_table *x, s32 tid, u32 index)
{
	struct in_flight *e;

	if (!atomic_load(&x->kept))
		return NULL;
	pthread_mutex_lock(&x->lock);
	/* Without tid the call's own thread waits until the call is put back. */
	e = take(x, find_idle(x, STAGE_KEPT, STAGE_KEPT, tid, index), tid != 0);
	pthread_mutex_unlock(&x->lock);
	return e;
}

struct in_flight *in_flight_take_oldest_kept(struct in_flight_table *x)
{
	struct in_flight *e;

	pthread_mutex_lock(&x->lock);
	e = take(x, oldest_of_most(x, STAGE_KEPT), 0);
	pthread_mutex_unlock(&x->lock);
	return e;
}
