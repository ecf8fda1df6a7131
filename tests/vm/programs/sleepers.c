// SPDX-License-Identifier: Apache-2.0
/*
 * sleepers N BYTES: N threads, each in one call of the driver at the same time: every other one asks for the card's memory,
 * the others allocate BYTES each. Tells when all are in, and what came of it; rests with what it holds.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client.h"

#define STACK_BYTES (64u << 10)
#define FIRST_MEMORY 0x10000000u

static struct session session;
static uint64_t bytes;
static atomic_ullong calling, granted, refused, told, wrong, most;

static void ask(void)
{
	struct sizes sizes;
	uint64_t before;

	if (info_v2(&session, &sizes) != NV_OK) {
		atomic_fetch_add(&wrong, 1);
		return;
	}
	atomic_fetch_add(&told, 1);
	before = atomic_load(&most);
	while (before < sizes.total && !atomic_compare_exchange_weak(&most, &before, sizes.total))
		continue;
}

static void allocate(uint32_t number)
{
	uint32_t status = client_memory(&session, FIRST_MEMORY + number, bytes);

	if (status == NV_OK)
		atomic_fetch_add(&granted, 1);
	else
		atomic_fetch_add(status == NV_ERR_NO_MEMORY ? &refused : &wrong, 1);
}

static void *call(void *argument)
{
	uint32_t number = (uint32_t)(uintptr_t)argument;

	atomic_fetch_add(&calling, 1);
	if (number % 2)
		ask();
	else
		allocate(number);
	return NULL;
}

static bool start(uint32_t count, pthread_t *threads)
{
	pthread_attr_t attributes;
	uint32_t i;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	for (i = 0; i < count; i++) {
		if (pthread_create(&threads[i], &attributes, call, (void *)(uintptr_t)i))
			return false;
	}
	while (atomic_load(&calling) < count)
		usleep(1000);
	return true;
}

int main(int argc, char **argv)
{
	struct settings settings;
	pthread_t *threads;
	uint32_t count, i;

	client_begin(&settings, &argc, &argv);
	count = argc == 2 ? (uint32_t)strtoul(argv[0], NULL, 0) : 0;
	threads = calloc(count + 1, sizeof(*threads));
	if (!threads || count == 0)
		return 2;
	client_open(&session, &settings);
	bytes = strtoull(argv[1], NULL, 0);
	printf("ready\n");
	/* The driver is told to sleep now. */
	getchar();
	if (!start(count, threads)) {
		perror("pthread_create");
		return 1;
	}
	printf("inside=%u ended=%llu\n", count,
		atomic_load(&granted) + atomic_load(&refused) + atomic_load(&told) + atomic_load(&wrong));
	for (i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("resting granted=%llu refused=%llu told=%llu wrong=%llu most=%llu\n", atomic_load(&granted),
		atomic_load(&refused), atomic_load(&told), atomic_load(&wrong), atomic_load(&most));
	client_rest();
}
