// SPDX-License-Identifier: Apache-2.0
/*
 * Every pointer inside of a call that the engine follows, led astray in every way. Prints one line for each call and
 * way, with what it answered, then "done", and waits for its standard input to end.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rm_client.h"

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

/* Where the driver is told that the content is. */
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
	const struct nv_layout_NVOS54_PARAMETERS *at = &session->settings->abi->NVOS54_PARAMETERS;
	uint8_t data[64] = { 0 };
	uint32_t status;

	put32(data, at->hClient, session->client);
	put32(data, at->hObject, session->subdevice);
	put32(data, at->cmd, command);
	put64(data, at->params, params);
	put32(data, at->paramsSize, bytes);
	status = driver_call(session->settings, session->ctl, NV_ESC_RM_CONTROL, data, at->bytes);
	return status != NV_OK ? status : get32(data, at->status);
}

static uint32_t alloc(struct session *session, bool wide, uint64_t params, uint64_t rights)
{
	const struct nv_layout_NVOS21_PARAMETERS *narrow = &session->settings->abi->NVOS21_PARAMETERS;
	const struct nv_layout_NVOS64_PARAMETERS *at = &session->settings->abi->NVOS64_PARAMETERS;
	uint32_t status, handle = session->next_handle++;
	uint8_t data[64] = { 0 };

	put32(data, at->hRoot, session->client);
	put32(data, at->hObjectParent, session->device);
	put32(data, at->hObjectNew, handle);
	put32(data, at->hClass, NV01_MEMORY_LOCAL_USER);
	put64(data, at->pAllocParms, params);
	if (wide)
		put64(data, at->pRightsRequested, rights);
	status = driver_call(session->settings, session->ctl, NV_ESC_RM_ALLOC, data, wide ? at->bytes : narrow->bytes);
	if (status == NV_OK)
		status = get32(data, wide ? at->status : narrow->status);
	if (status == NV_OK)
		session_free(session, handle);
	return status;
}

static void say(const char *call, enum way way, uint32_t status)
{
	printf("case call=%s way=%s status=%#x\n", call, way_names[way], status);
}

static void memory_params(const struct nv_abi *abi, uint8_t *params)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &abi->NV_MEMORY_ALLOCATION_PARAMS;

	memset(params, 0, at->bytes);
	put32(params, at->owner, 0xcafe0001u);
	put32(params, at->attr, NVOS32_ATTR_LOCATION_VIDMEM << NVOS32_ATTR_LOCATION_SHIFT);
	put64(params, at->size, MEMORY_BYTES);
}

static void allocations(struct session *session, uint8_t *area, enum way way)
{
	const struct nv_abi *abi = session->settings->abi;
	uint32_t bytes = abi->NV_MEMORY_ALLOCATION_PARAMS.bytes;
	static const uint8_t rights[RIGHTS_BYTES];
	uint8_t params[256];
	uint64_t place;

	memory_params(abi, params);
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

	put32(list, abi->NV2080_CTRL_FB_INFO.index, NV2080_CTRL_FB_INFO_INDEX_HEAP_SIZE);
	put32(list + abi->NV2080_CTRL_FB_INFO.bytes, abi->NV2080_CTRL_FB_INFO.index,
		NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE);
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
	const struct nv_layout_NVOS32_PARAMETERS *at = &session->settings->abi->NVOS32_PARAMETERS;
	uint8_t data[256] = { 0 };

	put32(data, at->hRoot, session->client);
	put32(data, at->hObjectParent, session->device);
	put32(data, at->function, NVOS32_FUNCTION_INFO);
	say("heap-top", way,
		driver_call(session->settings, session->ctl, NV_ESC_RM_VID_HEAP_CONTROL,
			(uint8_t *)(uintptr_t)lead(area, way, data, at->bytes), at->bytes));
}

int main(void)
{
	struct settings settings = { .dev = "/dev", .magic = NV_IOCTL_MAGIC, .direction = 3, .own_handles = true };
	int ctl = driver_open(&settings, "nvidiactl");
	uint8_t *area = area_make();
	struct session session;
	int round, way;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (ctl < 0 || !driver_version(&settings, ctl))
		return perror("nvidiactl"), 1;
	session_init(&session, &settings, 0);
	if (session_open(&session) != NV_OK)
		return perror("session"), 1;
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
