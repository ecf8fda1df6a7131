// SPDX-License-Identifier: Apache-2.0
/*
 * racing [--dev DIR] dup|free: one thread allocates, others duplicate the memory while it is being made, or free its
 * handle while it is being given out again. Prints "done" after two seconds and holds what it has.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client.h"

#define RACERS 2
#define SECONDS 2
#define FIRST_BYTES (256ull << 20)
#define PAGE_BYTES (64ull << 10)

static struct session session;
static bool by_free;
static atomic_uint source, copy = 0x200000;
static atomic_bool ended;

static void *race(void *unused)
{
	while (!atomic_load(&ended)) {
		if (by_free)
			session_free(&session, atomic_load(&source));
		else if (client_dup(&session, atomic_load(&copy), session.client, atomic_load(&source)) == NV_OK)
			atomic_fetch_add(&copy, 1);
	}
	return unused;
}

int main(int argc, char **argv)
{
	uint32_t handle = 0x1000, status;
	uint64_t bytes = FIRST_BYTES;
	struct settings settings;
	pthread_t racer[RACERS];
	time_t end;
	int i;

	client_begin(&settings, &argc, &argv, 1);
	by_free = strcmp(argv[0], "free") == 0;
	client_open(&session, &settings);
	for (i = 0; i < RACERS; i++)
		pthread_create(&racer[i], NULL, race, NULL);
	for (end = time(NULL) + SECONDS; time(NULL) < end; handle++) {
		atomic_store(&source, handle);
		status = client_memory(&session, handle, bytes);
		if (!by_free)
			session_free(&session, handle);
		if (status == NV_ERR_NO_MEMORY)
			bytes = bytes / 2 > PAGE_BYTES ? bytes / 2 : PAGE_BYTES;
	}
	atomic_store(&ended, true);
	for (i = 0; i < RACERS; i++)
		pthread_join(racer[i], NULL);
	printf("done\n");
	client_next();
	return 0;
}
