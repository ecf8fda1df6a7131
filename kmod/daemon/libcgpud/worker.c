// SPDX-License-Identifier: Apache-2.0
/* The threads that answer notified calls: how they start, wait, end and are woken. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "privilege.h"
#include "worker.h"

/* Checks for the end of workers per millisecond: containers may wait. */
#define ROUNDS_PER_MS 4

static int worker_add(struct cgpud *d);

/* A call can keep its worker: there is always one more that waits for the next call. */
static void begin(struct worker *worker)
{
	pthread_mutex_lock(&worker->busy);
	if (atomic_fetch_sub(&worker->d->idle, 1) == 1)
		worker_add(worker->d);
}

static void end(struct worker *worker)
{
	atomic_fetch_add(&worker->d->idle, 1);
	pthread_mutex_unlock(&worker->busy);
}

static void *worker_main(void *arg)
{
	struct worker *worker = arg;
	struct cgpud *d = worker->d;
	u32 events = 0;
	s64 event;
	int r;

	prctl(PR_SET_NAME, "cgpud-worker");
	/* The worker may have to start threads and processes that have these in reserve. */
	r = privilege_drop(PRIVILEGES_ALL);
	if (r < 0) {
		events_log(&d->events, LOG_LEVEL_ERROR, "a worker cannot drop its capabilities: %s", strerror(-r));
		atomic_fetch_sub(&d->idle, 1);
		return NULL;
	}
	/* Begin only if needed: a worker that begins while none is idle makes another one, which would do the same. */
	if (d->in_flight.recovered) {
		begin(worker);
		d->work->take_up(d, &worker->cache);
		end(worker);
	}
	while (!engine_must_end(d, &worker->ending)) {
		event = listener_wait(&d->listeners, &events);
		begin(worker);
		worker->served++;
		if (event == LISTENER_WAKE)
			d->work->housekeeping(d);
		else if (event >= 0)
			d->work->serve(d, &worker->cache, (u64)event, events);
		end(worker);
	}
	task_cache_clear(&worker->cache);
	return NULL;
}

/* A timeout in the wait would do this too, but arming its timer costs more than the wait itself. */
void workers_tidy(struct cgpud *d)
{
	u32 i, started = atomic_load(&d->started);

	for (i = 0; i < started; i++) {
		struct worker *worker = &d->worker[i];

		if (pthread_mutex_trylock(&worker->busy) != 0)
			continue;
		if (worker->served == worker->tidied)
			task_cache_clear(&worker->cache);
		worker->tidied = worker->served;
		pthread_mutex_unlock(&worker->busy);
	}
}

static int worker_add(struct cgpud *d)
{
	struct worker *worker;
	u32 n;
	int r = 0;

	pthread_mutex_lock(&d->workers_lock);
	n = atomic_load(&d->started);
	if (n < WORKERS_MAX && !atomic_load(&d->stopping)) {
		worker = &d->worker[n];
		atomic_fetch_add(&d->idle, 1);
		r = pthread_create(&worker->thread, NULL, worker_main, worker);
		if (r)
			atomic_fetch_sub(&d->idle, 1);
		else
			atomic_store(&d->started, n + 1);
	}
	pthread_mutex_unlock(&d->workers_lock);
	if (r)
		events_log(&d->events, LOG_LEVEL_WARNING, "cannot start a worker: %s", strerror(r));
	return -r;
}

int workers_start(struct cgpud *d, char *error, size_t bytes)
{
	sigset_t all, old;
	u32 n;
	int r = 0;

	/* A signal in the middle of a container's call would have to be told from the driver's own answer. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (n = 0; n < d->workers && r == 0; n++)
		r = worker_add(d);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r)
		snprintf(error, bytes, "cannot start %u worker threads: %s", d->workers, strerror(-r));
	return r;
}

static u32 workers_left(struct cgpud *d)
{
	u32 i, left = 0, started;

	pthread_mutex_lock(&d->workers_lock);
	started = atomic_load(&d->started);
	pthread_mutex_unlock(&d->workers_lock);
	for (i = 0; i < started; i++) {
		if (!d->worker[i].joined)
			d->worker[i].joined = pthread_tryjoin_np(d->worker[i].thread, NULL) == 0;
		left += !d->worker[i].joined;
	}
	return left;
}

u32 workers_stop(struct cgpud *d, u32 rounds)
{
	u32 left, round;
	u64 n = 1;

	atomic_store(&d->stopping, 1);
	for (round = 0; (left = workers_left(d)) && round < rounds * ROUNDS_PER_MS; round++) {
		/* Each worker may take the event away from the others: write it for every one. */
		if (write(d->wake_fd, &n, sizeof(n)) != sizeof(n) && errno != EAGAIN)
			break;
		usleep(1000 / ROUNDS_PER_MS);
	}
	return left;
}

void workers_resume(struct cgpud *d)
{
	sigset_t all, old;
	u32 i, started;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_mutex_lock(&d->workers_lock);
	started = atomic_load(&d->started);
	atomic_store(&d->stopping, 0);
	for (i = 0; i < started; i++) {
		struct worker *worker = &d->worker[i];

		if (worker->ending && !worker->joined)
			worker->joined = pthread_join(worker->thread, NULL) == 0;
		if (!worker->joined)
			continue;
		worker->ending = 0;
		/* The worker has counted as idle since before its end. */
		worker->joined = pthread_create(&worker->thread, NULL, worker_main, worker) != 0;
	}
	pthread_mutex_unlock(&d->workers_lock);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void workers_wake(struct cgpud *d)
{
	u64 n = 1;

	if (write(d->wake_fd, &n, sizeof(n)) != sizeof(n))
		events_log(&d->events, LOG_LEVEL_WARNING, "cannot wake a worker: %s", strerror(errno));
}
