// SPDX-License-Identifier: Apache-2.0
/* Calls under many signals, and calls of a thread with its own descriptor table. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "probe.h"

struct churn {
	uint64_t asked;
	uint64_t size;
	uint64_t microseconds;
	uint64_t granted;
	uint64_t refused;
	uint64_t interrupted;
	uint64_t bytes;
};

/* A signal handler has no other way to count. */
static volatile sig_atomic_t alarms;

static void count_alarm(int number)
{
	(void)number;
	alarms++;
}

static void send_alarms(uint64_t microseconds)
{
	struct sigaction action = { .sa_handler = count_alarm, .sa_flags = SA_RESTART };
	struct itimerval timer = { 0 };

	sigaction(SIGALRM, &action, NULL);
	timer.it_interval.tv_usec = (suseconds_t)microseconds;
	timer.it_value = timer.it_interval;
	setitimer(ITIMER_REAL, &timer, NULL);
}

static bool parse(const char *value, struct churn *churn)
{
	churn->microseconds = 200;
	if (!parse_size(&value, &churn->asked) || *value++ != ':' || !parse_size(&value, &churn->size))
		return false;
	if (*value == ':' && (value++, !parse_size(&value, &churn->microseconds)))
		return false;
	return *value == '\0' && churn->microseconds > 0 && churn->microseconds < 1000000;
}

static void run_churn(struct session *session, struct churn *churn)
{
	struct grant grant;
	uint32_t status;
	uint64_t i;

	alarms = 0;
	send_alarms(churn->microseconds);
	for (i = 0; i < churn->asked; i++) {
		status = memory_alloc(session, churn->size, &grant);
		if (status == NV_OK) {
			churn->granted++;
			churn->bytes += grant.size;
		} else if (status == RM_ERRNO && errno == EINTR) {
			churn->interrupted++;
		} else {
			churn->refused++;
		}
	}
	send_alarms(0);
}

/*
 * Each call must happen exactly once: as many grants as the card's own figure says. The driver chooses the handles, so
 * that a call made twice would leave memory that the probe does not know of.
 */
uint32_t step_churn(struct probe *probe, const char *value)
{
	struct session *session = probe_session(probe);
	bool own = probe->settings.own_handles;
	struct churn churn = { 0 };
	struct sizes before, after;
	uint32_t status;

	if (!parse(value, &churn))
		return NOT_UNDERSTOOD;
	status = session_open(session);
	if (status == NV_OK)
		status = info_v2(session, &before);
	if (status != NV_OK)
		return status;
	probe->settings.own_handles = false;
	run_churn(session, &churn);
	probe->settings.own_handles = own;
	status = info_v2(session, &after);
	printf("churn asked=%llu granted=%llu refused=%llu interrupted=%llu bytes=%llu used=%llu alarms=%ld\n",
		LLU(churn.asked), LLU(churn.granted), LLU(churn.refused), LLU(churn.interrupted), LLU(churn.bytes),
		LLU(before.free - after.free), (long)alarms);
	return status;
}

struct apart {
	struct session session;
	uint64_t size;
	struct grant grant;
	uint32_t status;
	int error;
	pthread_barrier_t ready;
	pthread_barrier_t decoy;
};

static void *apart_thread(void *argument)
{
	struct apart *apart = argument;
	bool split = unshare(CLONE_FILES) == 0;

	pthread_barrier_wait(&apart->ready);
	/* The leader now opens other files under the numbers that this thread's nodes get. */
	pthread_barrier_wait(&apart->decoy);
	apart->status = split ? session_open(&apart->session) : RM_ERRNO;
	if (apart->status == NV_OK)
		apart->status = memory_alloc(&apart->session, apart->size, &apart->grant);
	apart->error = errno;
	return NULL;
}

/* A thread with a descriptor table of its own calls through numbers that mean /dev/null to the rest of the process. */
uint32_t step_unshare(struct probe *probe, const char *value)
{
	struct apart apart = { 0 };
	int decoys[8], i;
	pthread_t thread;

	if (!parse_size(&value, &apart.size) || *value)
		return NOT_UNDERSTOOD;
	session_init(&apart.session, &probe->settings, probe->gpu);
	pthread_barrier_init(&apart.ready, NULL, 2);
	pthread_barrier_init(&apart.decoy, NULL, 2);
	if (pthread_create(&thread, NULL, apart_thread, &apart))
		return RM_ERRNO;
	pthread_barrier_wait(&apart.ready);
	for (i = 0; i < 8; i++)
		decoys[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
	pthread_barrier_wait(&apart.decoy);
	pthread_join(thread, NULL);
	for (i = 0; i < 8; i++)
		close(decoys[i]);
	free(apart.session.held);
	errno = apart.error;
	return report(apart.status, "unshare %llu size=%llu handle=0x%x", LLU(apart.size), LLU(apart.grant.size),
		apart.grant.handle);
}
