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
#include <unistd.h>

#include "rm_client.h"

#define HANDLE 0x5c000001u

static struct settings settings = { .dev = "/dev", .magic = NV_IOCTL_MAGIC, .direction = 3, .own_handles = true };
static struct session session;

static uint32_t take(uint64_t bytes)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &settings.abi->NV_MEMORY_ALLOCATION_PARAMS;
	uint8_t params[256] = { 0 };
	uint32_t handle = HANDLE;

	put32(params, at->owner, 0xcafe0001u);
	put32(params, at->attr, NVOS32_ATTR_LOCATION_VIDMEM << NVOS32_ATTR_LOCATION_SHIFT);
	put64(params, at->size, bytes);
	return session_alloc(&session, session.device, NV01_MEMORY_LOCAL_USER, params, 0, &handle);
}

static void *give_back(void *argument)
{
	*(uint32_t *)argument = session_free(&session, HANDLE);
	return NULL;
}

int main(int argc, char **argv)
{
	uint64_t bytes = argc == 2 ? strtoull(argv[1], NULL, 0) : 0;
	uint32_t status, freed = NV_OK;
	pthread_t thread;
	int ctl;

	if (!bytes)
		return 2;
	ctl = driver_open(&settings, "nvidiactl");
	if (ctl < 0 || !driver_version(&settings, ctl))
		return 1;
	session_init(&session, &settings, 0);
	if (session_open(&session) != NV_OK || take(bytes) != NV_OK)
		return 1;
	printf("ready\n");
	fflush(stdout);
	getchar();
	if (pthread_create(&thread, NULL, give_back, &freed))
		return 1;
	getchar();
	status = take(bytes);
	pthread_join(thread, NULL);
	printf("resting freed=%u taken=%u\n", freed, status);
	fflush(stdout);
	for (;;)
		pause();
}
