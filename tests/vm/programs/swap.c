// SPDX-License-Identifier: Apache-2.0
/*
 * swap ROUNDS: memory is exported to a descriptor that another thread makes lead to one file and to another all the time,
 * and imported from it. Each round ends with the close of one of the files. Rests with the others.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client.h"

#define DESCRIPTOR 50
#define TURNS 12u
#define KEPT 200
#define PAGE 65536ull

static struct settings settings;
static atomic_int file[2], ended;

static void *flip(void *argument)
{
	uint32_t turn;

	for (turn = 0; !atomic_load(&ended); turn++)
		dup3(atomic_load(&file[turn & 1]), DESCRIPTOR, O_CLOEXEC);
	return argument;
}

/* Sizes differ, so that what is booked on the wrong file shows. */
static uint32_t turn(struct session *session, uint32_t number, uint32_t *done)
{
	struct grant grant;
	uint32_t status = memory_alloc(session, PAGE * (1 + number % 7), &grant);

	if (status != NV_OK)
		return status;
	*done += export_to(session, DESCRIPTOR, 1) == NV_OK;
	memory_free_at(session, session->count - 1);
	if (number % 3 == 0)
		*done += import_memory(session, DESCRIPTOR, 1) == NV_OK;
	return NV_OK;
}

static uint32_t play(struct session *session, uint32_t round, uint32_t *done)
{
	int old[2] = { atomic_load(&file[0]), atomic_load(&file[1]) };
	uint32_t status = NV_OK, i;

	for (i = 0; i < 2; i++)
		atomic_store(&file[i], client_control_file(&settings));
	/* The other thread may still be about to use them. */
	usleep(1000);
	close(old[round & 1]);
	fcntl(old[!(round & 1)], F_DUPFD_CLOEXEC, KEPT);
	close(old[!(round & 1)]);
	for (i = 0; i < TURNS && status == NV_OK; i++)
		status = turn(session, round * TURNS + i, done);
	while (session->count > 1)
		memory_free_at(session, 0);
	return status;
}

int main(int argc, char **argv)
{
	uint32_t rounds, status = NV_OK, round, done = 0;
	struct session session;
	pthread_t thread;

	client_begin(&settings, &argc, &argv, 0);
	rounds = argc == 1 ? (uint32_t)strtoul(argv[0], NULL, 10) : 0;
	if (rounds == 0)
		return 2;
	client_open(&session, &settings);
	atomic_store(&file[0], client_control_file(&settings));
	atomic_store(&file[1], client_control_file(&settings));
	if (pthread_create(&thread, NULL, flip, NULL))
		return 2;
	for (round = 0; round < rounds && status == NV_OK; round++)
		status = play(&session, round, &done);
	atomic_store(&ended, 1);
	pthread_join(thread, NULL);
	close(DESCRIPTOR);
	printf("resting status=%u done=%u\n", status, done);
	client_rest();
}
