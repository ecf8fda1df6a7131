// SPDX-License-Identifier: Apache-2.0
/*
 * Every pointer inside of a call that the engine follows, led astray in every way. Prints one line for each call and
 * way, with what it answered, then "done", and waits for its standard input to end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"

#define ROOM 65536u
#define MEMORY_BYTES 1048576u
#define RIGHTS_BYTES 4u /* RS_ACCESS_MASK */

enum way { NOWHERE, UNMAPPED, KERNEL, READ_ONLY, HALF, WAYS };

static const char *const way_names[WAYS] = { "null", "unmapped", "kernel", "read-only", "half" };

/* ROOM bytes, then a page that cannot be touched. */
static uint8_t *area_make(void)
{
	uint8_t *area = mmap(NULL, ROOM + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED || mprotect(area + ROOM, 4096, PROT_NONE)) {
		perror("mmap");
		exit(2);
	}
	return area;
}

/* Address of the content in the driver's arguments. */
static uint64_t lead(uint8_t *area, enum way way, const uint8_t *content, uint32_t bytes)
{
	uint32_t half = bytes / 2;

	mprotect(area, ROOM, PROT_READ | PROT_WRITE);
	switch (way) {
	case NOWHERE:
		return 0;
	case UNMAPPED:
		return (uintptr_t)(area + ROOM);
	case KERNEL:
		return 0xffff888000001000ull;
	case READ_ONLY:
		memcpy(area, content, bytes);
		mprotect(area, ROOM, PROT_READ);
		return (uintptr_t)area;
	default:
		memcpy(area + ROOM - half, content, half);
		return (uintptr_t)(area + ROOM - half);
	}
}

/* As session_control(), for addresses that a pointer of a 32-bit program cannot hold. */
static uint32_t control(struct session *session, uint32_t command, uint64_t params, uint32_t bytes)
{
	const struct nv_abi *abi = session->settings->abi;
	struct rm_ioctl io = rm_control_ioctl(abi, session->client, session->subdevice, command, NULL, bytes);

	put64(io.data, abi->NVOS54_PARAMETERS.params, params);
	return driver_make(session->settings, session->ctl, &io);
}

static uint32_t alloc(struct session *session, bool wide, uint64_t params, uint64_t rights)
{
	const struct nv_abi *abi = session->settings->abi;
	uint32_t status, handle = session->next_handle++;
	struct rm_ioctl io = rm_alloc_ioctl(abi, wide ? VIA_RM64 : VIA_RM21, session->client, session->device, handle,
		NV01_MEMORY_LOCAL_USER, NULL, 0);

	put64(io.data, wide ? abi->NVOS64_PARAMETERS.pAllocParms : abi->NVOS21_PARAMETERS.pAllocParms, params);
	if (wide)
		put64(io.data, abi->NVOS64_PARAMETERS.pRightsRequested, rights);
	status = driver_make(session->settings, session->ctl, &io);
	if (status == NV_OK)
		session_free(session, handle);
	return status;
}

static void say(const char *call, enum way way, uint32_t status)
{
	printf("case call=%s way=%s status=%#x\n", call, way_names[way], status);
}

static void allocations(struct session *session, uint8_t *area, enum way way)
{
	const struct nv_abi *abi = session->settings->abi;
	uint32_t bytes = abi->NV_MEMORY_ALLOCATION_PARAMS.bytes;
	static const uint8_t rights[RIGHTS_BYTES];
	uint8_t params[CLIENT_PARAMS] = { 0 };
	uint64_t place;

	rm_memory_params(params, abi, 0, MEMORY_BYTES);
	say("alloc", way, alloc(session, true, lead(area, way, params, bytes), 0));
	say("alloc-narrow", way, alloc(session, false, lead(area, way, params, bytes), 0));
	place = lead(area, way, rights, sizeof(rights));
	say("alloc-rights", way, alloc(session, true, (uintptr_t)params, place));
}

static void fb_list(struct session *session, uint8_t *area, enum way way)
{
	const struct nv_abi *abi = session->settings->abi;
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_PARAMS *at = &abi->NV2080_CTRL_FB_GET_INFO_PARAMS;
	uint8_t params[64] = { 0 }, list[16] = { 0 };

	rm_heap_sizes_ask(list, abi);
	put32(params, at->fbInfoListSize, 2);
	put64(params, at->fbInfoList, lead(area, way, list, 2u * abi->NV2080_CTRL_FB_INFO.bytes));
	say("fb-list", way, control(session, NV2080_CTRL_CMD_FB_GET_INFO, (uintptr_t)params, at->bytes));
}

static void controls(struct session *session, uint8_t *area, enum way way)
{
	const struct nv_abi *abi = session->settings->abi;
	const struct {
		const char *name;
		uint32_t command, bytes;
	} each[] = {
		{ "fb", NV2080_CTRL_CMD_FB_GET_INFO, abi->NV2080_CTRL_FB_GET_INFO_PARAMS.bytes },
		{ "fb-v2", NV2080_CTRL_CMD_FB_GET_INFO_V2, abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS.bytes },
		{ "region", NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO,
			abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS.bytes },
		{ "pids", NV2080_CTRL_CMD_GPU_GET_PIDS, abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS.bytes },
		{ "pid-info", NV2080_CTRL_CMD_GPU_GET_PID_INFO, abi->NV2080_CTRL_GPU_GET_PID_INFO_PARAMS.bytes },
	};
	static const uint8_t zeros[ROOM];
	unsigned int i;

	for (i = 0; i < sizeof(each) / sizeof(each[0]); i++)
		say(each[i].name, way,
			control(session, each[i].command, lead(area, way, zeros, each[i].bytes), each[i].bytes));
	fb_list(session, area, way);
}

/* The structure itself: the driver's ioctl copies it in and out. */
static void tops(struct session *session, uint8_t *area, enum way way)
{
	struct rm_ioctl io =
		rm_heap_ioctl(session->settings->abi, session->client, session->device, NVOS32_FUNCTION_INFO);

	say("heap-top", way,
		driver_call(session->settings, session->ctl, io.nr,
			(uint8_t *)(uintptr_t)lead(area, way, io.data, io.bytes), io.bytes));
}

int main(int argc, char **argv)
{
	uint8_t *area = area_make();
	struct settings settings;
	struct session session;
	int round, way;

	client_begin(&settings, &argc, &argv, 0);
	client_open(&session, &settings);
	for (round = 0; round < 2; round++) {
		settings.wrapped = round == 1;
		for (way = 0; way < WAYS; way++) {
			allocations(&session, area, (enum way)way);
			controls(&session, area, (enum way)way);
			tops(&session, area, (enum way)way);
		}
	}
	printf("done\n");
	return getchar() == EOF ? 0 : 1;
}
