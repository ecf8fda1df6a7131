// SPDX-License-Identifier: Apache-2.0
/* Queries of a card's sizes and processes, by each of the driver's ways. */
#include <stdio.h>

#include "rm_client.h"

/* Room for any version of the structures below. */
#define ROOM 16384u

uint32_t info_v2(struct session *session, struct sizes *sizes)
{
	const struct nv_abi *abi = session->settings->abi;
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_V2_PARAMS *at = &abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS;
	uint8_t params[ROOM] = { 0 };
	uint32_t status;

	put32(params, at->fbInfoListSize, 2);
	rm_heap_sizes_ask(params + at->fbInfoList, abi);
	status = session_control(session, session->subdevice, NV2080_CTRL_CMD_FB_GET_INFO_V2, params, at->bytes);
	rm_heap_sizes_read(params + at->fbInfoList, abi, &sizes->total, &sizes->free);
	return status;
}

static uint32_t info_v1(struct session *session, struct sizes *sizes)
{
	const struct nv_abi *abi = session->settings->abi;
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_PARAMS *at = &abi->NV2080_CTRL_FB_GET_INFO_PARAMS;
	uint8_t params[64] = { 0 }, list[64] = { 0 };
	uint32_t status;

	put32(params, at->fbInfoListSize, 2);
	put_pointer(params, at->fbInfoList, list);
	rm_heap_sizes_ask(list, abi);
	status = session_control(session, session->subdevice, NV2080_CTRL_CMD_FB_GET_INFO, params, at->bytes);
	rm_heap_sizes_read(list, abi, &sizes->total, &sizes->free);
	return status;
}

static uint32_t info_heap(struct session *session, struct sizes *sizes)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &session->settings->abi->NVOS32_PARAMETERS;
	struct rm_ioctl io =
		rm_heap_ioctl(session->settings->abi, session->client, session->device, NVOS32_FUNCTION_INFO);
	uint32_t status = driver_make(session->settings, session->ctl, &io);

	sizes->total = get64(io.data, at->total);
	sizes->free = get64(io.data, at->free);
	return status;
}

static uint32_t info_region(struct session *session, uint64_t *bytes)
{
	const struct nv_abi *abi = session->settings->abi;
	const struct nv_layout_NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS *at =
		&abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS;
	const struct nv_layout_NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO *region =
		&abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO;
	uint8_t params[ROOM] = { 0 };
	uint32_t status, i, count;

	status = session_control(session, session->subdevice, NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO, params, at->bytes);
	count = get32(params, at->numFBRegions);
	*bytes = 0;
	for (i = 0; status == NV_OK && i < count && i < 16; i++) {
		const uint8_t *one = params + at->fbRegion + (size_t)i * region->bytes;

		*bytes += get64(one, region->limit) - get64(one, region->base) + 1;
	}
	return status;
}

static uint32_t info_identity(struct session *session, struct card_info *info)
{
	const struct nv_abi *abi = session->settings->abi;
	uint8_t params[ROOM] = { 0 };
	uint32_t status;

	status = session_control(session, session->subdevice, NV2080_CTRL_CMD_GPU_GET_NAME_STRING, params,
		abi->NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS.bytes);
	if (status != NV_OK)
		return status;
	snprintf(info->name, sizeof(info->name), "%s",
		(char *)params + abi->NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS.gpuNameString);
	memset(params, 0, sizeof(params));
	status = session_control(session, session->subdevice, NV2080_CTRL_CMD_GPU_GET_GID_INFO, params,
		abi->NV2080_CTRL_GPU_GET_GID_INFO_PARAMS.bytes);
	snprintf(info->uuid, sizeof(info->uuid), "%s", (char *)params + abi->NV2080_CTRL_GPU_GET_GID_INFO_PARAMS.data);
	return status;
}

uint32_t info_read(struct session *session, struct card_info *info)
{
	uint32_t status = info_identity(session, info);

	if (status == NV_OK)
		status = info_v1(session, &info->v1);
	if (status == NV_OK)
		status = info_v2(session, &info->v2);
	if (status == NV_OK)
		status = info_heap(session, &info->heap);
	return status != NV_OK ? status : info_region(session, &info->region);
}

uint32_t info_pids(struct session *session, uint32_t *pids, uint32_t room, uint32_t *count)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_PIDS_PARAMS *at =
		&session->settings->abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS;
	uint8_t params[ROOM] = { 0 };
	uint32_t status, i;

	put32(params, at->idType, NV2080_CTRL_GPU_GET_PIDS_ID_TYPE_CLASS);
	put32(params, at->id, NV20_SUBDEVICE_0);
	status = session_control(session, session->subdevice, NV2080_CTRL_CMD_GPU_GET_PIDS, params, at->bytes);
	*count = get32(params, at->pidTblCount);
	if (*count > room)
		*count = room;
	for (i = 0; i < *count; i++)
		pids[i] = get32(params + 4 * i, at->pidTbl);
	return status;
}

uint32_t info_pid_memory(struct session *session, uint32_t pid, uint64_t *bytes)
{
	const struct nv_abi *abi = session->settings->abi;
	const struct nv_layout_NV2080_CTRL_GPU_PID_INFO *at = &abi->NV2080_CTRL_GPU_PID_INFO;
	uint8_t params[ROOM] = { 0 };
	uint8_t *entry = params + abi->NV2080_CTRL_GPU_GET_PID_INFO_PARAMS.pidInfoList;
	uint32_t status;

	put32(params, abi->NV2080_CTRL_GPU_GET_PID_INFO_PARAMS.pidInfoListCount, 1);
	put32(entry, at->pid, pid);
	put32(entry, at->index, NV2080_CTRL_GPU_PID_INFO_INDEX_VIDEO_MEMORY_USAGE);
	status = session_control(session, session->subdevice, NV2080_CTRL_CMD_GPU_GET_PID_INFO, params,
		abi->NV2080_CTRL_GPU_GET_PID_INFO_PARAMS.bytes);
	*bytes = get64(entry, at->data_vidMemUsage_memPrivate) + get64(entry, at->data_vidMemUsage_memSharedOwned);
	return status != NV_OK ? status : get32(entry, at->result);
}
