// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "answers.h"
#include "privilege.h"
#include "supervise.h"
#include "worker.h"

static void housekeeping(struct cgpud *d, struct task_cache *cache)
{
	u64 n;

	if (read(d->wake_fd, &n, sizeof(n)) == sizeof(n))
		answers_sweep(d, cache, 0);
}

static void serve(struct cgpud *d, struct task_cache *cache, u32 index, u32 events)
{
	struct listener *one = listener_get(&d->listeners, index);
	u64 serial;

	if (!one)
		return;
	serial = one->serial;
	if (events & EPOLLIN) {
		supervise_next(d, one, cache);
	} else if (events & (EPOLLHUP | EPOLLERR)) {
		listener_kill(&d->listeners, one);
		events_gone(&d->events, serial);
	} else {
		listener_arm(&d->listeners, index);
	}
	listener_put(&d->listeners, one);
}

static void work(struct worker *worker, s64 index, u32 events)
{
	struct cgpud *d = worker->d;

	pthread_mutex_lock(&worker->busy);
	worker->served++;
	if (index == LISTENER_WAKE)
		housekeeping(d, &worker->cache);
	else if (index >= 0)
		serve(d, &worker->cache, (u32)index, events);
	pthread_mutex_unlock(&worker->busy);
}

static void *worker_main(void *arg)
{
	struct worker *worker = arg;
	struct cgpud *d = worker->d;
	struct exchange *left;
	u32 events = 0;
	s64 index;
	int r;

	prctl(PR_SET_NAME, "cgpud-worker");
	r = privilege_drop();
	if (r < 0) {
		events_log(&d->events, LOG_LEVEL_ERROR, "a worker cannot drop its capabilities: %s", strerror(-r));
		return NULL;
	}
	pthread_mutex_lock(&worker->busy);
	while ((left = exchange_take_left(&d->exchanges)))
		supervise_left(d, &worker->cache, left);
	pthread_mutex_unlock(&worker->busy);
	while (!atomic_load(&d->stopping)) {
		index = listener_wait(&d->listeners, &events);
		work(worker, index, events);
	}
	task_cache_clear(&worker->cache);
	return NULL;
}

/* A timeout in the wait would do this too, but arming its timer costs more than the wait itself. */
void workers_tidy(struct cgpud *d)
{
	u32 i;

	for (i = 0; i < d->workers; i++) {
		struct worker *worker = &d->worker[i];

		if (pthread_mutex_trylock(&worker->busy) != 0)
			continue;
		if (worker->served == worker->tidied)
			task_cache_clear(&worker->cache);
		worker->tidied = worker->served;
		pthread_mutex_unlock(&worker->busy);
	}
}

int workers_start(struct cgpud *d, char *error, size_t bytes)
{
	sigset_t all, old;
	int r = 0;

	/* A signal in the middle of a container's call would have to be told from the driver's own answer. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (d->started = 0; d->started < d->workers && r == 0; d->started += r == 0)
		r = pthread_create(&d->worker[d->started].thread, NULL, worker_main, &d->worker[d->started]);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r)
		snprintf(error, bytes, "cannot start %u worker threads: %s", d->workers, strerror(r));
	return -r;
}

void workers_stop(struct cgpud *d)
{
	u64 n = 1;

	atomic_store(&d->stopping, 1);
	while (d->started) {
		/* Each worker may take the event away from the others: write it for every one. */
		if (write(d->wake_fd, &n, sizeof(n)) != sizeof(n) && errno != EAGAIN)
			return;
		if (pthread_tryjoin_np(d->worker[d->started - 1].thread, NULL) == 0)
			d->started--;
		else
			usleep(1000);
	}
}

void workers_wake(struct cgpud *d)
{
	u64 n = 1;

	if (write(d->wake_fd, &n, sizeof(n)) != sizeof(n))
		events_log(&d->events, LOG_LEVEL_WARNING, "cannot wake a worker: %s", strerror(errno));
}
