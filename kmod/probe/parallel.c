// SPDX-License-Identifier: Apache-2.0
/* Several processes or threads allocate at the same time, and keep their memory until all are done. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe.h"

#define MAX_MEMBERS 256u

struct order {
	uint64_t members;
	uint64_t size;
	bool fill;
	bool nested;
};

struct result {
	uint32_t status;
	uint32_t error;
	uint64_t bytes;
	uint64_t count;
};

struct member {
	const struct order *order;
	struct session session;
	struct result result;
	pthread_barrier_t *done;
	pthread_t thread;
};

/* N:SIZE[:fill][:nest] */
static bool parse(const char *value, struct order *order)
{
	if (!parse_size(&value, &order->members) || *value++ != ':' || !parse_size(&value, &order->size))
		return false;
	while (*value == ':') {
		size_t length = strcspn(++value, ":");

		if (length == 4 && strncmp(value, "fill", 4) == 0)
			order->fill = true;
		else if (length == 4 && strncmp(value, "nest", 4) == 0)
			order->nested = true;
		else
			return false;
		value += length;
	}
	return *value == '\0' && order->members >= 1 && order->members <= MAX_MEMBERS;
}

static void work(const struct order *order, struct session *session, struct result *result)
{
	struct grant grant = { 0 };

	result->status = session_open(session);
	if (result->status == NV_OK && order->fill) {
		result->status = memory_fill(session, order->size, &result->bytes, &result->count);
		if (result->status == NV_ERR_NO_MEMORY)
			result->status = NV_OK;
	} else if (result->status == NV_OK) {
		result->status = memory_alloc(session, order->size, &grant);
		result->bytes = result->status == NV_OK ? grant.size : 0;
		result->count = result->status == NV_OK;
	}
	result->error = (uint32_t)errno;
}

static void child(const struct order *order, struct session *session, int results, int hold)
{
	struct result result = { 0 };
	char byte;
	pid_t inner;

	if (order->nested) {
		inner = fork();
		if (inner != 0) {
			if (inner > 0)
				waitpid(inner, NULL, 0);
			_exit(0);
		}
	}
	work(order, session, &result);
	if (write(results, &result, sizeof(result)) == sizeof(result) && read(hold, &byte, 1) == 0)
		session_close(session);
	_exit(0);
}

static uint32_t tell(const char *kind, uint64_t index, const struct result *result)
{
	errno = (int)result->error;
	return report(result->status, "%s %llu bytes=%llu count=%llu", kind, LLU(index), LLU(result->bytes),
		LLU(result->count));
}

static uint32_t run_processes(struct session *from, const struct order *order)
{
	int results[2], hold[2];
	struct result result;
	struct session session;
	uint32_t status = NV_OK, one;
	uint64_t i;

	if (pipe2(results, O_CLOEXEC) || pipe2(hold, O_CLOEXEC))
		return RM_ERRNO;
	fflush(stdout);
	for (i = 0; i < order->members; i++) {
		session_init(&session, from->settings, from->gpu);
		if (fork() == 0) {
			close(hold[1]);
			close(results[0]);
			child(order, &session, results[1], hold[0]);
		}
	}
	close(results[1]);
	close(hold[0]);
	for (i = 0; i < order->members; i++) {
		if (read(results[0], &result, sizeof(result)) != sizeof(result))
			result = (struct result){ .status = RM_ERRNO, .error = ECHILD };
		one = tell("fork", i, &result);
		status = one != NV_OK ? one : status;
	}
	close(hold[1]);
	close(results[0]);
	while (wait(NULL) > 0)
		;
	return status;
}

static void *thread(void *argument)
{
	struct member *member = argument;

	work(member->order, &member->session, &member->result);
	pthread_barrier_wait(member->done);
	session_close(&member->session);
	return NULL;
}

static uint32_t run_threads(struct session *from, const struct order *order)
{
	struct member *members = calloc(order->members, sizeof(*members));
	pthread_barrier_t done;
	uint32_t status = NV_OK, one;
	uint64_t i, started;

	if (!members || pthread_barrier_init(&done, NULL, (unsigned int)order->members))
		return RM_ERRNO;
	for (started = 0; started < order->members; started++) {
		struct member *member = &members[started];

		member->order = order;
		member->done = &done;
		session_init(&member->session, from->settings, from->gpu);
		if (pthread_create(&member->thread, NULL, thread, member))
			break;
	}
	/* Too few for the barrier: the threads wait for ever, until the process ends. */
	if (started < order->members)
		return RM_ERRNO;
	for (i = 0; i < started; i++)
		pthread_join(members[i].thread, NULL);
	for (i = 0; i < started; i++) {
		one = tell("thread", i, &members[i].result);
		status = one != NV_OK ? one : status;
	}
	free(members);
	return status;
}

uint32_t step_parallel(struct probe *probe, const char *value)
{
	struct session *from = probe_session(probe);
	bool threads = strcmp(probe->step, "threads") == 0;
	struct order order = { 0 };

	if (!parse(value, &order) || (threads && order.nested))
		return NOT_UNDERSTOOD;
	return threads ? run_threads(from, &order) : run_processes(from, &order);
}
