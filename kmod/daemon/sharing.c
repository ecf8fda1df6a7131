// SPDX-License-Identifier: Apache-2.0
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
#include "engine.h"
#include "sharing.h"
#include "slicing.h"
#include "task.h"

#define SECOND 1000000000ull
/* Changes that come faster are dealt with together: a container can cause them by its calls. */
#define GAP_NS 200000ull
/* ... and for as long as dealing with them has taken, so that they take half of a processor at most. */
#define GAP_MOST_NS 1000000ull
/* Who waits for the lock has it before the thread takes it again. */
#define MANNERS_NS 50000ull
/* A turn is longer. */
#define LEAST_NS 10000ull
#define ROUNDS 4 /* changes of gates in a row, where one takes longer than a turn */
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

/* With a condition variable each turn has a second call of the kernel: its mutex counts as contended after a timeout.
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
		gating_init(&own->gating);
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

/* The driver is gone, or says what nobody understands: what is to be done stays to be done. */
static void give_up(struct sharing_gpu *own, u64 now, int error)
{
	own->retry = now + SECOND;
	atomic_fetch_add(&own->d->sharing.failed, 1);
	events_log(&own->d->events, LOG_LEVEL_WARNING,
		"GPU %u: gates cannot be set, they stay as they are: %s; tried again each second", own->gpu,
		strerror(-error));
}

/* They stay as they are, and the core knows. */
static void leave_gates(struct sharing_gpu *own)
{
	struct cgpu_channel_batch gates;

	if (cgpu_channels_next(&own->d->core, own->gpu, &gates) == 0)
		cgpu_channels_done(&own->d->core, &gates, CGPU_CONTROL_FAILED);
}

static void set_gates(struct sharing_gpu *own, u64 now)
{
	struct cgpud *d = own->d;
	struct cgpu_channel_batch gates;
	int r = gating_open(d, &own->gating, own->gpu);

	while (r >= 0 && cgpu_channels_next(&d->core, own->gpu, &gates) == 0) {
		r = gating_tell(d, &own->gating, &gates);
		if (r < 0)
			break;
		cgpu_channels_done(&d->core, &gates, (u32)r);
		atomic_fetch_add(&d->sharing.gates, gates.count);
	}
	if (r < 0) {
		leave_gates(own);
		give_up(own, now, r);
	} else {
		own->retry = 0;
	}
}

/* Under the lock. Returns when to try again what could not be done; CGPU_ROUND_NEVER: all is. */
static u64 apply(struct sharing_gpu *own, struct cgpu_round *turn)
{
	if (cgpu_round(&own->d->core, own->gpu, turn) < 0)
		return CGPU_ROUND_NEVER;
	atomic_fetch_add(&own->d->sharing.turns, 1);
	if (!turn->channels)
		own->retry = 0;
	else if (turn->now >= own->retry)
		set_gates(own, turn->now);
	return own->retry ? own->retry : CGPU_ROUND_NEVER;
}

static void look_at_samples(struct sharing_gpu *own, u64 now)
{
	struct gating_use use[GATING_PROCESSES];
	struct cgpud *d = own->d;
	enum cgpu_samples_kind look;
	int n, i;

	/* Not under the lock: a gate is not to wait for it. */
	n = gating_sample(d, &own->gating, use, &look);
	/* The driver is there, and says nothing now. */
	if (n == -EAGAIN)
		return;
	if (n < 0) {
		pthread_mutex_lock(&own->lock);
		gating_close(&own->gating);
		pthread_mutex_unlock(&own->lock);
		return;
	}
	cgpu_samples_begin(&d->core, own->gpu, cgpu_sampling_add(&own->gating.looks, look, now));
	own->look = now + own->gating.looks.after;
	for (i = 0; i < n; i++)
		cgpu_ran(&d->core, own->gpu, use[i].tgid, use[i].ns);
}

/* Returns when to look again. */
static u64 sample(struct sharing_gpu *own, u64 now)
{
	int r;

	if (own->gating.no_samples)
		return CGPU_ROUND_NEVER;
	if (now < own->look)
		return own->look;
	pthread_mutex_lock(&own->lock);
	r = gating_open(own->d, &own->gating, own->gpu);
	pthread_mutex_unlock(&own->lock);
	own->look = now + CGPU_SAMPLES_NS;
	if (r == 0)
		look_at_samples(own, now);
	return own->look;
}

/* Time slices are a worker's work. One that a container holds up is not waited for. Returns when to look after it. */
static u64 leave_slices(struct sharing_gpu *own, u64 now)
{
	struct cgpu_timeslice slice;
	u32 cursor = 0;

	if (slicing_is_posted(own->d, own->gpu) && now < own->posted + SECOND)
		return own->posted + SECOND;
	if (cgpu_timeslices_next(&own->d->core, own->gpu, 0, &cursor, &slice) < 0) {
		if (!atomic_load(&own->d->slicing.left))
			return CGPU_ROUND_NEVER;
		/* A worker sees to what is left. */
		if (now < own->posted + SECOND)
			return own->posted + SECOND;
	}
	own->posted = now;
	slicing_post(own->d, own->gpu);
	return now + SECOND;
}

/* Do what is to be done. Returns when to come back. */
static u64 go(struct sharing_gpu *own)
{
	struct cgpu_round turn = { .channels = 1 };
	u64 retry = CGPU_ROUND_NEVER, until;
	u32 round;

	pthread_mutex_lock(&own->lock);
	if (own->retry)
		gating_close(&own->gating);
	/* A change of gates takes time, which the turn gets on top: its end is known after it. */
	for (round = 0; round < ROUNDS && turn.channels && retry == CGPU_ROUND_NEVER; round++)
		retry = apply(own, &turn);
	pthread_mutex_unlock(&own->lock);
	/* Without gates the turns mean nothing. */
	until = retry == CGPU_ROUND_NEVER ? turn.until : retry;
	if (turn.timeslices)
		until = earlier(until, leave_slices(own, turn.now));
	if (turn.samples)
		until = earlier(until, sample(own, turn.now));
	return until;
}

static struct timespec timespec_of(u64 ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND) };
}

static void sleep_for(u64 ns)
{
	struct timespec at = timespec_of(clock_ns() + ns);

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* took: ns that the work before has taken. */
static void sleep_until(struct sharing_gpu *own, u64 until, u64 took)
{
	u64 now = clock_ns(), least = now + LEAST_NS, pause = earlier(took > GAP_NS ? took : GAP_NS, GAP_MOST_NS);
	u64 gap = earlier(until, now + pause);
	struct timespec at = timespec_of(until > least ? until : least);
	int is_due = await_due(own, until == CGPU_ROUND_NEVER ? NULL : &at);

	if (is_due && gap > clock_ns() && !atomic_load(&own->d->stopping)) {
		at = timespec_of(gap);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
	}
	atomic_store(&own->due, 0);
	if (atomic_load(&own->waiting))
		sleep_for(MANNERS_NS);
}

/* What the engine before told the driver is not known. */
static void begin(struct sharing_gpu *own)
{
	struct cgpu_round turn;

	lock(own);
	apply(own, &turn);
	pthread_mutex_unlock(&own->lock);
	atomic_store(&own->begun, 1);
	sem_post(&own->d->sharing.begun);
}

static void *turns_main(void *arg)
{
	struct sharing_gpu *own = arg;

	prctl(PR_SET_NAME, "cgpud-turns");
	/* To the nanosecond; 50 us late is the default. */
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	/* Soon after its time also where all processors are busy. No real-time class: the driver waits for the card's firmware
	 * in a loop, and one that hangs would take a processor from everybody. Without the right it is as any thread. */
	setpriority(PRIO_PROCESS, 0, NICE_MOST);
	begin(own);
	while (!engine_must_end(own->d, &own->ending)) {
		u64 began = clock_ns(), until = go(own);

		sleep_until(own, until, clock_ns() - began);
	}
	return NULL;
}

/* No call is answered before the gates are told anew; but one card that hangs does not keep the others from all calls. */
static void await_begun(struct cgpud *d, u32 started)
{
	struct timespec until;
	u32 gpu, begun = 0;

	clock_until(&until, START_MS);
	while (begun < started) {
		if (sem_clockwait(&d->sharing.begun, CLOCK_MONOTONIC, &until) == 0)
			begun++;
		else if (errno != EINTR)
			break;
	}
	for (gpu = 0; gpu < d->driver.gpus; gpu++) {
		if (!atomic_load(&d->sharing.at[gpu].begun))
			events_log(&d->events, LOG_LEVEL_WARNING,
				"GPU %u: its gates are not set, the driver has not answered for %u seconds; not waited for",
				gpu, START_MS / 1000);
	}
}

int sharing_start(struct cgpud *d)
{
	sigset_t all, old;
	u32 gpu, started = 0;
	int r = 0;

	/* Of a thread that came late the last time. */
	while (sem_trywait(&d->sharing.begun) == 0)
		;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (gpu = 0; gpu < d->driver.gpus && r == 0; gpu++) {
		struct sharing_gpu *own = &d->sharing.at[gpu];

		if (own->running && own->ending)
			own->running = pthread_join(own->thread, NULL) != 0;
		/* It was never stopped: after a pause that came to nothing. */
		if (own->running)
			continue;
		own->ending = 0;
		atomic_store(&own->begun, 0);
		r = pthread_create(&own->thread, NULL, turns_main, own);
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
	struct timespec until;
	u32 gpu, stuck = 0;

	clock_until(&until, ms);
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

		gating_close(&own->gating);
		free(own->gating.samples);
		pthread_mutex_destroy(&own->door);
		pthread_mutex_destroy(&own->lock);
	}
}

void sharing_after_call(struct cgpud *d, const struct exchange *e, struct task *task)
{
	struct sharing_gpu *own;
	struct cgpu_round turn;

	if (e->call.round == 0 || e->call.round > d->driver.gpus)
		return;
	own = &d->sharing.at[e->call.round - 1];
	lock(own);
	apply(own, &turn);
	pthread_mutex_unlock(&own->lock);
	slicing_after_call(d, e, task);
}
