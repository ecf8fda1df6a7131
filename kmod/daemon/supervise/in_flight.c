// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE

#include "clock.h"
#include "in_flight.h"

void exchange_set_stage(struct exchange *e, enum stage stage)
{
	/* A successor reads this after our death: what came before must not be reordered behind it. */
	__atomic_store_n(&e->stage, stage, __ATOMIC_RELEASE);
}

u64 exchange_address(const struct exchange *e, u32 n)
{
	return n ? e->call.segment[n - 1].address : e->top_address;
}

u32 exchange_bytes(const struct exchange *e, u32 n)
{
	return n ? e->call.segment[n - 1].bytes : e->call.bytes;
}

/* The oldest of the container that has most in this stage: nobody's answers are forgotten for those of another one. */
static struct exchange *oldest_of_most(const struct exchanges *x, enum stage stage)
{
	u16 held[CGPU_MAX_CONTAINERS] = { 0 }, most = 0;
	struct exchange *oldest = NULL;
	u32 i;

	for (i = 0; i < EXCHANGES_MAX; i++) {
		u32 slot = x->at[i].call.slot % CGPU_MAX_CONTAINERS;

		if (!x->busy[i] && x->at[i].stage == stage && ++held[slot] > most)
			most = held[slot];
	}
	for (i = 0; i < EXCHANGES_MAX; i++) {
		struct exchange *e = &x->at[i];

		if (!x->busy[i] && e->stage == stage && held[e->call.slot % CGPU_MAX_CONTAINERS] == most &&
			(!oldest || e->age < oldest->age))
			oldest = e;
	}
	return oldest;
}

static struct exchange *find_place(const struct exchanges *x)
{
	u32 i;

	for (i = 0; i < EXCHANGES_MAX; i++) {
		if (!x->busy[i] && x->at[i].stage == STAGE_FREE)
			return &x->at[i];
	}
	return oldest_of_most(x, STAGE_SENT);
}

struct exchange *exchange_take(struct exchanges *x)
{
	struct exchange *e;

	pthread_mutex_lock(&x->lock);
	e = find_place(x);
	if (e) {
		exchange_set_stage(e, STAGE_FREE);
		x->busy[e->index] = 1;
		x->thread[e->index] = 0;
	}
	pthread_mutex_unlock(&x->lock);
	if (!e)
		return NULL;
	memset(&e->notif_space, 0, sizeof(e->notif_space));
	exchange_again(e);
	return e;
}

void exchange_again(struct exchange *e)
{
	memset(&e->call, 0, sizeof(e->call));
	exchange_rebase(e);
	e->undone = 0;
	e->repeated = 0;
	e->chosen = 0;
	e->again = 0;
	e->turn = 0;
	e->result = 0;
	e->top_address = 0;
	exchange_set_stage(e, STAGE_RECEIVING);
}

void exchange_unjudge(struct exchange *e)
{
	memcpy(e->copy[0], e->before[0], e->call.bytes);
	e->call.segments = 0;
	e->call.no_room = 0;
	e->call.error = 0;
	e->call.found = 0;
	memset(e->call.opaque, 0, sizeof(e->call.opaque));
}

struct exchange *exchange_take_left(struct exchanges *x)
{
	struct exchange *e = NULL;
	u32 i;

	pthread_mutex_lock(&x->lock);
	for (i = 0; x->recovered && i < EXCHANGES_MAX && !e; i++)
		if (!x->busy[i] && x->at[i].stage >= STAGE_RECEIVING && x->at[i].stage <= STAGE_ANSWERING)
			e = &x->at[i];
	if (e) {
		x->busy[e->index] = 1;
		x->thread[e->index] = 0;
	}
	pthread_mutex_unlock(&x->lock);
	return e;
}

void exchange_release(struct exchanges *x, struct exchange *e)
{
	pthread_mutex_lock(&x->lock);
	exchange_set_stage(e, STAGE_FREE);
	x->busy[e->index] = 0;
	x->thread[e->index] = 0;
	pthread_cond_broadcast(&x->changed);
	pthread_mutex_unlock(&x->lock);
}

static int thread_is_busy(const struct exchanges *x, s32 tid)
{
	u32 i;

	for (i = 0; i < EXCHANGES_MAX; i++)
		if (x->busy[i] && x->thread[i] == tid)
			return 1;
	return 0;
}

void exchange_claim(struct exchanges *x, struct exchange *e)
{
	s32 tid = (s32)e->notif.pid;

	pthread_mutex_lock(&x->lock);
	while (thread_is_busy(x, tid))
		pthread_cond_wait(&x->changed, &x->lock);
	x->thread[e->index] = tid;
	pthread_mutex_unlock(&x->lock);
}

void exchange_keep(struct exchanges *x, struct exchange *e)
{
	e->age = x->ages;
	exchange_return_kept(x, e);
}

void exchange_return_kept(struct exchanges *x, struct exchange *e)
{
	pthread_mutex_lock(&x->lock);
	x->ages++;
	exchange_set_stage(e, STAGE_KEPT);
	x->thread[e->index] = (s32)e->notif.pid;
	x->busy[e->index] = 0;
	atomic_fetch_add(&x->kept, 1);
	pthread_cond_broadcast(&x->changed);
	pthread_mutex_unlock(&x->lock);
}

void exchange_sent(struct exchanges *x, struct exchange *e)
{
	u64 now = clock_ns();

	pthread_mutex_lock(&x->lock);
	e->sent = now;
	e->age = x->ages++;
	exchange_set_stage(e, STAGE_SENT);
	x->thread[e->index] = (s32)e->notif.pid;
	x->busy[e->index] = 0;
	pthread_cond_broadcast(&x->changed);
	pthread_mutex_unlock(&x->lock);
}

struct exchange *exchange_take_sent(struct exchanges *x, s32 tid)
{
	struct exchange *e = NULL;
	u32 i;

	pthread_mutex_lock(&x->lock);
	for (i = 0; i < EXCHANGES_MAX && !e; i++)
		if (x->thread[i] == tid && !x->busy[i] && x->at[i].stage == STAGE_SENT)
			e = &x->at[i];
	if (e) {
		x->busy[e->index] = 1;
		x->thread[e->index] = 0;
	}
	pthread_mutex_unlock(&x->lock);
	return e;
}

struct exchange *exchange_take_kept(struct exchanges *x, s32 tid, u32 index)
{
	struct exchange *e = NULL;
	u32 i;

	if (!atomic_load(&x->kept))
		return NULL;
	pthread_mutex_lock(&x->lock);
	for (i = index; i < EXCHANGES_MAX && !e; i++)
		if (!x->busy[i] && x->at[i].stage == STAGE_KEPT && (!tid || x->thread[i] == tid))
			e = &x->at[i];
	if (e) {
		x->busy[e->index] = 1;
		/* Who looks for a thread's own has claimed that already. Else the thread waits until it is put back. */
		if (tid)
			x->thread[e->index] = 0;
		atomic_fetch_sub(&x->kept, 1);
	}
	pthread_mutex_unlock(&x->lock);
	return e;
}

struct exchange *exchange_take_oldest_kept(struct exchanges *x)
{
	struct exchange *e;

	pthread_mutex_lock(&x->lock);
	e = oldest_of_most(x, STAGE_KEPT);
	if (e) {
		x->busy[e->index] = 1;
		atomic_fetch_sub(&x->kept, 1);
	}
	pthread_mutex_unlock(&x->lock);
	return e;
}
