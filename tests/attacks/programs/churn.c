// SPDX-License-Identifier: Apache-2.0
/*
 * churn [--dev DIR]: threads that allocate, duplicate and free in clients of their own without a pause, to be killed
 * in the midst of it. Prints "churning" when each has had some.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "client.h"

#define THREADS 4
#define SIZES 5
#define ROUNDS_FIRST 4

static struct settings settings;
static atomic_int ready;

static void one_round(struct session *session, unsigned int round)
{
	struct grant grant;

	memory_alloc(session, 1ull << 20 << round % SIZES * 2, &grant);
	memory_dup(session, &grant);
	if (session->count > 2)
		memory_free_at(session, round % session->count);
	if (session->count > 8)
		session_close(session);
	session_open(session);
}

static void *churn(void *unused)
{
	struct session session;
	unsigned int round;

	(void)unused;
	client_open(&session, &settings);
	for (round = 0;; round++) {
		one_round(&session, round);
		if (round == ROUNDS_FIRST && atomic_fetch_add(&ready, 1) == THREADS - 1)
			printf("churning\n");
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int i;

	client_begin(&settings, &argc, &argv, 0);
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&thread, NULL, churn, NULL))
			return 1;
	client_next();
	return 0;
}
