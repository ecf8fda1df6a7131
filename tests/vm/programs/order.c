// SPDX-License-Identifier: Apache-2.0
/*
 * order BYTES: frees memory from one thread and allocates it anew under the same handle from another, while the first call
 * has done its work in the driver and has not come back from there. Before the second it waits for a line on its input.
 * Then it rests with what it holds.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "client.h"

#define HANDLE 0x5c000001u

static struct session session;

static void *give_back(void *argument)
{
	*(uint32_t *)argument = session_free(&session, HANDLE);
	return NULL;
}

int main(int argc, char **argv)
{
	struct settings settings;
	uint32_t status, freed = NV_OK;
	pthread_t thread;
	uint64_t bytes;

	client_begin(&settings, &argc, &argv, 0);
	bytes = argc == 1 ? strtoull(argv[0], NULL, 0) : 0;
	if (!bytes)
		return 2;
	client_open(&session, &settings);
	if (client_memory(&session, HANDLE, bytes) != NV_OK)
		return 1;
	printf("ready\n");
	getchar();
	if (pthread_create(&thread, NULL, give_back, &freed))
		return 1;
	getchar();
	status = client_memory(&session, HANDLE, bytes);
	pthread_join(thread, NULL);
	printf("resting freed=%u taken=%u\n", freed, status);
	client_rest();
}
