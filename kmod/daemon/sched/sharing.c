// SPDX-License-Identifier: Apache-2.0
/* The thread of each GPU that carries out the core's decisions on GPU time. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "descriptors.h"
#include "engine.h"
#include "sharing.h"
#include "timeslice.h"
#include "task.h"

#define SECOND 1000000000ull
/* Changes that come faster are handled together: a container can cause them by its calls. */
#define GAP_NS 200000ull
/* ... and for as long as handling them has taken, so that they take half of a processor at most. */
#define GAP_MOST_NS 1000000ull
/* The thread leaves the lock for so long to a worker that waits for it. */
#define YIELD_NS 50000ull
/* The shortest sleep; a scheduling round is longer. */
#define LEAST_NS 10000ull
#define ROUNDS 4 /* decisions in a row, where carrying one out takes longer than it lasts */
#define START_MS 3000
#define NICE_MOST (-20)

static u64 earlier(u64 a, u64 b)
{
	return a < b ? a : b;
}

u64 sharing_clock(void *ctx)
{
	(void)ctx;
	return clock_ns();
}

static void wake(struct sharing_gpu *own)
{
	if (!atomic_exchange(&own->due, 1))
		syscall(SYS_futex, &own->due, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* With a condition variable each round makes a second system call: its mutex counts as contended after a timeout.
 * Returns whether there is something to do before the time. at: NULL is never. */
static int await_due(struct sharing_gpu *own, const struct timespec *at)
{
	while (!atomic_load(&own->due)) {
		long r = syscall(SYS_futex, &own->due, FUTEX_WAIT_BITSET_PRIVATE, 0, at, NULL, FUTEX_BITSET_MATCH_ANY);

		if (r < 0 && errno == ETIMEDOUT)
			return 0;
	}
	return 1;
}

void sharing_wake(void *ctx, u32 gpu)
{
	struct cgpud *d = ctx;

	if (gpu < CGPU_MAX_GPUS)
		wake(&d->sharing.at[gpu]);
}

void sharing_init(struct cgpud *d)
{
	u32 gpu;

	sem_init(&d->sharing.begun, 0, 0);
	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		struct sharing_gpu *own = &d->sharing.at[gpu];

		own->d = d;
		own->gpu = gpu;
		atomic_init(&own->due, 1);
		own->sched_client.fd = -1;
		pthread_mutex_init(&own->door, NULL);
		pthread_mutex_init(&own->lock, NULL);
	}
}

static void lock(struct sharing_gpu *own)
{
	atomic_fetch_add(&own->waiting, 1);
	pthread_mutex_lock(&own->door);
	pthread_mutex_lock(&own->lock);
	pthread_mutex_unlock(&own->door);
	atomic_fetch_sub(&own->waiting, 1);
}

/* The driver is gone, or its answer is not understood: the changes stay due. */
static void give_up(struct sharing_gpu *own, u64 now, int error)
{
	own->retry = now + SECOND;
	atomic_fetch_add(&own->d->sharing.failed, 1);
	events_log(&own->d->events, LOG_LEVEL_WARNING,
		"GPU %u: channels cannot be enabled or disabled, they stay as they are: %s; tried again each second",
		own->gpu, strerror(-error));
}

/* Channels stay as they are, and the core is told that the change failed. */
static void leave_channels(struct sharing_gpu *own)
{
	struct cgpu_channel_batch batch;

	if (cgpu_channels_next(&own->d->core, own->gpu, &batch) == 0)
		cgpu_channels_done(&own->d->core, &batch, CGPU_CONTROL_FAILED);
}

static void set_channels(struct sharing_gpu *own, u64 now)
{
	struct cgpud *d = own->d;
	struct cgpu_channel_batch batch;
	int r = sched_client_open(d, &own->sched_client, own->gpu);

	while (r >= 0 && cgpu_channels_next(&d->core, own->gpu, &batch) == 0) {
		r = sched_client_set_channels(d, &own->sched_client, &batch);
		if (r < 0)
			break;
		cgpu_channels_done(&d->core, &batch, (u32)r);
		atomic_fetch_add(&d->sharing.changed, batch.count);
	}
	if (r < 0) {
		leave_channels(own);
		give_up(own, now, r);
	} else {
		own->retry = 0;
	}
}

/* Under the lock. Returns when to retry failed changes; CGPU_ROUND_NEVER: none has failed. */
static u64 apply(struct sharing_gpu *own, struct cgpu_round *decision)
{
	if (cgpu_round(&own->d->core, own->gpu, decision) < 0)
		return CGPU_ROUND_NEVER;
	atomic_fetch_add(&own->d->sharing.rounds, 1);
	if (!decision->channels)
		own->retry = 0;
	else if (decision->now >= own->retry)
		set_channels(own, decision->now);
	return own->retry ? own->retry : CGPU_ROUND_NEVER;
}

static void decide_now(struct sharing_gpu *own)
{
	struct cgpu_round decision;

	lock(own);
	apply(own, &decision);
	pthread_mutex_unlock(&own->lock);
}

static void read_samples(struct sharing_gpu *own, u64 now)
{
	struct sched_client *sc = &own->sched_client;
	/* Sample without the lock: enabling and disabling channels must not wait for it. */
	int r = sched_client_sample(own->d, sc, own->gpu);

	if (r == 0) {
		own->sample_due = now + sc->sampling.after;
	} else if (r != -EAGAIN && r != -EOPNOTSUPP) {
		pthread_mutex_lock(&own->lock);
		close_one(&sc->fd);
		pthread_mutex_unlock(&own->lock);
	}
}

/* Returns when the next samples are due. */
static u64 sample(struct sharing_gpu *own, u64 now)
{
	int r;

	if (own->sched_client.no_samples)
		return CGPU_ROUND_NEVER;
	if (now < own->sample_due)
		return own->sample_due;
	pthread_mutex_lock(&own->lock);
	r = sched_client_open(own->d, &own->sched_client, own->gpu);
	pthread_mutex_unlock(&own->lock);
	own->sample_due = now + CGPU_SAMPLES_NS;
	if (r == 0)
		read_samples(own, now);
	return own->sample_due;
}

/* Timeslices are set by a worker, which a container can hold up: it is not waited for. Returns when to check on it. */
static u64 leave_timeslices(struct sharing_gpu *own, u64 now)
{
	struct cgpu_timeslice slice;
	u32 cursor = 0;

	if ((atomic_load(&own->d->timeslices.posted) >> own->gpu & 1) && now < own->posted + SECOND)
		return own->posted + SECOND;
	if (cgpu_timeslices_next(&own->d->core, own->gpu, 0, &cursor, &slice) < 0) {
		if (!atomic_load(&own->d->timeslices.left))
			return CGPU_ROUND_NEVER;
		/* A worker sets the slices that are left. */
		if (now < own->posted + SECOND)
			return own->posted + SECOND;
	}
	own->posted = now;
	timeslice_post(own->d, own->gpu);
	return now + SECOND;
}

/* Run a scheduling round. Returns when the next one is due. */
static u64 run_round(struct sharing_gpu *own)
{
	struct cgpu_round decision = { .channels = 1 };
	u64 retry = CGPU_ROUND_NEVER, until;
	u32 round;

	pthread_mutex_lock(&own->lock);
	if (own->retry)
		close_one(&own->sched_client.fd);
	/* Changing channels takes time, which is added to the grant: its end is known afterwards. */
	for (round = 0; round < ROUNDS && decision.channels && retry == CGPU_ROUND_NEVER; round++)
		retry = apply(own, &decision);
	pthread_mutex_unlock(&own->lock);
	/* No grant ends while channels cannot be changed. */
	until = retry == CGPU_ROUND_NEVER ? decision.until : retry;
	if (decision.timeslices)
		until = earlier(until, leave_timeslices(own, decision.now));
	if (decision.samples)
		until = earlier(until, sample(own, decision.now));
	return until;
}

static void sleep_to(u64 ns)
{
	struct timespec at = clock_time(ns);

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* took: ns that the round has taken. */
static void sleep_until(struct sharing_gpu *own, u64 until, u64 took)
{
	u64 now = clock_ns(), least = now + LEAST_NS, pause = earlier(took > GAP_NS ? took : GAP_NS, GAP_MOST_NS);
	u64 gap = earlier(until, now + pause);
	struct timespec at = clock_time(until > least ? until : least);
	int is_due = await_due(own, until == CGPU_ROUND_NEVER ? NULL : &at);

	if (is_due && gap > clock_ns() && !atomic_load(&own->d->stopping))
		sleep_to(gap);
	atomic_store(&own->due, 0);
	if (atomic_load(&own->waiting))
		sleep_to(clock_ns() + YIELD_NS);
}

/* The settings that the engine before made in the driver are not known, so decide at once. */
static void begin(struct sharing_gpu *own)
{
	decide_now(own);
	atomic_store(&own->begun, 1);
	sem_post(&own->d->sharing.begun);
}

static void *sharing_main(void *arg)
{
	struct sharing_gpu *own = arg;

	prctl(PR_SET_NAME, "cgpud-turns");
	/* Timers wake to the nanosecond; the default is up to 50 us late. */
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	/* Soon after its time also where all processors are busy. No real-time class: the driver waits for the card's firmware
	 * in a loop, and one that hangs would take a processor from everybody. Without the right it is as any thread. */
	setpriority(PRIO_PROCESS, 0, NICE_MOST);
	begin(own);
	while (!engine_must_end(own->d, &own->ending)) {
		u64 began = clock_ns(), until = run_round(own);

		sleep_until(own, until, clock_ns() - began);
	}
	return NULL;
}

/* No call is answered before the channels of all cards are set anew, except for a card that hangs. */
static void await_begun(struct cgpud *d, u32 started)
{
	struct timespec until = clock_until(START_MS);
	u32 gpu, begun = 0;

	while (begun < started) {
		if (sem_clockwait(&d->sharing.begun, CLOCK_MONOTONIC, &until) == 0)
			begun++;
		else if (errno != EINTR)
			break;
	}
	for (gpu = 0; gpu < d->driver.gpus; gpu++) {
		if (!atomic_load(&d->sharing.at[gpu].begun))
			events_log(&d->events, LOG_LEVEL_WARNING,
				"GPU %u: its channels are not set, the driver has not answered for %u seconds; not waited for",
				gpu, START_MS / 1000);
	}
}

int sharing_start(struct cgpud *d)
{
	sigset_t all, old;
	u32 gpu, started = 0;
	int r = 0;

	/* Posts of threads that were late at the last start. */
	while (sem_trywait(&d->sharing.begun) == 0)
		;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (gpu = 0; gpu < d->driver.gpus && r == 0; gpu++) {
		struct sharing_gpu *own = &d->sharing.at[gpu];

		if (own->running && own->ending)
			own->running = pthread_join(own->thread, NULL) != 0;
		/* The thread was never stopped, as the pause before was given up. */
		if (own->running)
			continue;
		own->ending = 0;
		atomic_store(&own->begun, 0);
		r = pthread_create(&own->thread, NULL, sharing_main, own);
		own->running = r == 0;
		started += own->running;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r == 0)
		await_begun(d, started);
	return -r;
}

u32 sharing_stop(struct cgpud *d, u32 ms)
{
	struct timespec until = clock_until(ms);
	u32 gpu, stuck = 0;

	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		struct sharing_gpu *own = &d->sharing.at[gpu];

		if (!own->running)
			continue;
		wake(own);
		own->running = pthread_clockjoin_np(own->thread, NULL, CLOCK_MONOTONIC, &until) != 0;
		stuck += own->running;
	}
	return stuck;
}

void sharing_close(struct cgpud *d)
{
	u32 gpu;

	sem_destroy(&d->sharing.begun);
	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		struct sharing_gpu *own = &d->sharing.at[gpu];

		close_one(&own->sched_client.fd);
		free(own->sched_client.samples);
		pthread_mutex_destroy(&own->door);
		pthread_mutex_destroy(&own->lock);
	}
}

void sharing_after_call(struct cgpud *d, const struct in_flight *e, struct task *task)
{
	if (e->call.round == 0 || e->call.round > d->driver.gpus)
		return;
	decide_now(&d->sharing.at[e->call.round - 1]);
	timeslice_after_call(d, e, task);
}
