// SPDX-License-Identifier: Apache-2.0
/*
 * racing --dev DIR dup|free: one thread allocates, others duplicate the memory while it is being made, or free its
 * handle while it is being given out again. Prints "done" after two seconds and holds what it has.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "rm_calls.h"

#define RACERS 2
#define SECONDS 2
#define FIRST_BYTES (256ull << 20)
#define PAGE_BYTES (64ull << 10)

static struct rm rm;
static int by_free;
static atomic_uint source, copy = 0x200000;
static atomic_int ended;

static void *race(void *unused)
{
	uint32_t to;

	while (!atomic_load(&ended)) {
		if (by_free) {
			rm_free(&rm, atomic_load(&source));
			continue;
		}
		to = atomic_load(&copy);
		if (rm_dup(&rm, to, rm.client, atomic_load(&source)) == NV_OK)
			atomic_fetch_add(&copy, 1);
	}
	return unused;
}

int main(int argc, char **argv)
{
	uint32_t handle = 0x1000, status;
	uint64_t bytes = FIRST_BYTES;
	pthread_t racer[RACERS];
	char line[16];
	time_t end;
	int i;

	if (argc < 4)
		return 2;
	by_free = !strcmp(argv[3], "free");
	if (rm_open(&rm, argv[2]))
		return 1;
	for (i = 0; i < RACERS; i++)
		pthread_create(&racer[i], NULL, race, NULL);
	for (end = time(NULL) + SECONDS; time(NULL) < end; handle++) {
		atomic_store(&source, handle);
		status = rm_memory(&rm, handle, bytes);
		if (!by_free)
			rm_free(&rm, handle);
		if (status == NV_ERR_NO_MEMORY)
			bytes = bytes / 2 > PAGE_BYTES ? bytes / 2 : PAGE_BYTES;
	}
	atomic_store(&ended, 1);
	for (i = 0; i < RACERS; i++)
		pthread_join(racer[i], NULL);
	printf("done\n");
	fflush(stdout);
	/* Until the end of standard input, or a line. */
	return fgets(line, sizeof(line), stdin) && !line[0];
}
