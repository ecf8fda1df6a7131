// SPDX-License-Identifier: Apache-2.0
/*
 * spaces [--dev DIR] cross ROUNDS GROUPS: a VA space below one device, and a second device, whose group names it first; then
 * groups of the first device that name it; then the second device is freed. Rests before that and after it.
 *
 * spaces [--dev DIR] reserve class|fixed|heap|device SIZE COUNT: addresses in pages of 4 KiB, in a VA space of its own, or in that of
 * the device; nothing is mapped there, and no memory is asked for.
 *
 * spaces [--dev DIR] map LENGTH COUNT: one page of the host's memory, mapped at as many addresses as it is said to be long.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

#define SPACE 0x5d000001u
#define SECOND 0x5d100000u
#define FOREIGN 0x5e800000u
#define GROUP 0x5e000000u
#define ADDRESSES 0x5d200000u
#define RANGE 0x5d300000u

static struct settings settings;
static struct session session;

static uint32_t schedule(uint32_t group)
{
	const struct nv_layout_NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS *at =
		&settings.abi->NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS;
	uint8_t params[8] = { 0 };

	params[at->bEnable] = 1;
	return session_control(&session, group, NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, params, at->bytes);
}

static int cross(uint32_t rounds, uint32_t groups)
{
	uint32_t round, i, made = 0, alive = 0;

	if (client_space(&session, SPACE) != NV_OK)
		return 1;
	for (round = 0; round < rounds; round++) {
		client_device(&session, SECOND + round);
		client_group(&session, SECOND + round, FOREIGN + round, SPACE);
		for (i = 0; i < groups; i++)
			made += client_group(&session, session.device, GROUP + round * groups + i, SPACE) == NV_OK;
	}
	printf("made groups=%u\n", made);
	client_next();
	for (round = 0; round < rounds; round++)
		session_free(&session, SECOND + round);
	for (i = 0; i < rounds * groups; i++)
		alive += schedule(GROUP + i) == NV_OK;
	printf("resting alive=%u\n", alive);
	client_rest();
}

/* The heap's parameters have their space in front of those that all of its functions have. */
static uint32_t reserve(const char *way, uint64_t size, uint32_t handle)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &settings.abi->NV_MEMORY_ALLOCATION_PARAMS;
	uint32_t attr = NVOS32_ATTR_PAGE_SIZE_4KB << NVOS32_ATTR_PAGE_SIZE_SHIFT;
	uint8_t params[CLIENT_PARAMS] = { 0 };
	struct rm_ioctl io;

	if (strcmp(way, "heap") == 0) {
		io = rm_heap_alloc_ioctl(settings.abi, VIA_HEAP, session.client, session.device, handle, attr, size);
		put32(io.data, rm_heap_form(settings.abi, VIA_HEAP).flags,
			NVOS32_ALLOC_FLAGS_VIRTUAL | NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED);
		put32(io.data, settings.abi->NVOS32_PARAMETERS.hVASpace, SPACE);
		return driver_make(&settings, session.ctl, &io);
	}
	rm_memory_params(params, settings.abi, attr, size);
	put32(params, at->flags,
		NVOS32_ALLOC_FLAGS_VIRTUAL |
			(strcmp(way, "fixed") == 0 ? NVOS32_ALLOC_FLAGS_FIXED_ADDRESS_ALLOCATE : 0));
	put32(params, at->hVASpace, strcmp(way, "device") == 0 ? 0 : SPACE);
	return session_alloc(&session, session.device, NV50_MEMORY_VIRTUAL, params, at->bytes, &handle);
}

static int reserve_many(const char *way, uint64_t size, uint32_t count)
{
	uint32_t i, made = 0, status = NV_OK;

	if (client_space(&session, SPACE) != NV_OK)
		return 1;
	for (i = 0; i < count; i++) {
		status = reserve(way, size, ADDRESSES + i);
		made += status == NV_OK;
	}
	printf("resting made=%u status=0x%x\n", made, status);
	client_rest();
}

static uint32_t map(uint32_t memory, uint64_t length)
{
	const struct nv_layout_NVOS46_PARAMETERS *at = &settings.abi->NVOS46_PARAMETERS;
	uint8_t top[CLIENT_PARAMS] = { 0 };
	uint32_t status;

	put32(top, at->hClient, session.client);
	put32(top, at->hDevice, session.device);
	put32(top, at->hDma, RANGE);
	put32(top, at->hMemory, memory);
	put64(top, at->length, length);
	status = driver_call(&settings, session.ctl, NV_ESC_RM_MAP_MEMORY_DMA, top, at->bytes);
	return status == NV_OK ? get32(top, at->status) : status;
}

static int map_many(uint64_t length, uint32_t count)
{
	const struct nv_layout_NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS *at =
		&settings.abi->NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS;
	uint32_t range = RANGE, i, made = 0, status = NV_OK;
	uint8_t params[CLIENT_PARAMS] = { 0 };
	struct grant grant;

	put32(params, at->hVASpace, SPACE);
	if (client_space(&session, SPACE) != NV_OK ||
		session_alloc(&session, session.device, NV01_MEMORY_VIRTUAL, params, at->bytes, &range) != NV_OK ||
		memory_alloc_host(&session, 4096, &grant) != NV_OK)
		return 1;
	for (i = 0; i < count; i++) {
		status = map(grant.handle, length);
		made += status == NV_OK;
	}
	printf("resting made=%u status=0x%x\n", made, status);
	client_rest();
}

int main(int argc, char **argv)
{
	client_begin(&settings, &argc, &argv, 1);
	client_open(&session, &settings);
	if (strcmp(argv[0], "cross") == 0 && argc == 3)
		return cross((uint32_t)atoi(argv[1]), (uint32_t)atoi(argv[2]));
	if (strcmp(argv[0], "reserve") == 0 && argc == 4)
		return reserve_many(argv[1], strtoull(argv[2], NULL, 0), (uint32_t)atoi(argv[3]));
	if (strcmp(argv[0], "map") == 0 && argc == 3)
		return map_many(strtoull(argv[1], NULL, 0), (uint32_t)atoi(argv[2]));
	return 2;
}
