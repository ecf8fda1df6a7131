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

#include "rm_client.h"

#define STACK_BYTES (64u << 10)
#define FIRST_MEMORY 0x10000000u

static struct settings settings = { .dev = "/dev", .magic = NV_IOCTL_MAGIC, .direction = 3, .own_handles = true };
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
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &settings.abi->NV_MEMORY_ALLOCATION_PARAMS;
	uint32_t handle = FIRST_MEMORY + number, status;
	uint8_t params[256] = { 0 };

	put32(params, at->owner, 0xcafe0001u);
	put32(params, at->attr, NVOS32_ATTR_PAGE_SIZE_BIG << NVOS32_ATTR_PAGE_SIZE_SHIFT);
	put64(params, at->size, bytes);
	status = session_alloc(&session, session.device, NV01_MEMORY_LOCAL_USER, params, at->bytes, &handle);
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
	uint32_t count = argc == 3 ? (uint32_t)strtoul(argv[1], NULL, 0) : 0, i;
	pthread_t *threads = calloc(count + 1, sizeof(*threads));
	int ctl = driver_open(&settings, "nvidiactl");

	session_init(&session, &settings, 0);
	if (!threads || count == 0 || ctl < 0 || !driver_version(&settings, ctl) || session_open(&session) != NV_OK) {
		perror("sleepers N BYTES");
		return 1;
	}
	bytes = strtoull(argv[2], NULL, 0);
	printf("ready\n");
	fflush(stdout);
	/* The driver is told to sleep now. */
	getchar();
	if (!start(count, threads)) {
		perror("pthread_create");
		return 1;
	}
	printf("inside=%u ended=%llu\n", count,
		atomic_load(&granted) + atomic_load(&refused) + atomic_load(&told) + atomic_load(&wrong));
	fflush(stdout);
	for (i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("resting granted=%llu refused=%llu told=%llu wrong=%llu most=%llu\n", atomic_load(&granted),
		atomic_load(&refused), atomic_load(&told), atomic_load(&wrong), atomic_load(&most));
	fflush(stdout);
	for (;;)
		pause();
}
