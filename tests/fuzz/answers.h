/* SPDX-License-Identifier: Apache-2.0 */
/* Controls that the core judges, and parameters of theirs that make sense. */
#ifndef CGPU_FUZZ_ANSWERS_H
#define CGPU_FUZZ_ANSWERS_H

#include "fuzz.h"

struct fuzz_control {
	u32 command, bytes;
};

#define FUZZ_CONTROLS 16u
#define FUZZ_TRANSFERS 4u

/* Exports and imports, the last of these, come twice as often: histories are made of them. */
static inline struct fuzz_control fuzz_control(const struct nv_abi *abi, u32 which)
{
	const struct fuzz_control controls[FUZZ_CONTROLS - FUZZ_TRANSFERS] = {
		{ NV2080_CTRL_CMD_FB_GET_INFO, abi->NV2080_CTRL_FB_GET_INFO_PARAMS.bytes },
		{ NV2080_CTRL_CMD_FB_GET_INFO_V2, abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS.bytes },
		{ NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO, abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS.bytes },
		{ NV2080_CTRL_CMD_GPU_GET_PIDS, abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS.bytes },
		{ NV2080_CTRL_CMD_GPU_GET_PID_INFO, abi->NV2080_CTRL_GPU_GET_PID_INFO_PARAMS.bytes },
		{ NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2, 8 },
		{ NV0000_CTRL_CMD_GPUACCT_GET_PROC_ACCOUNTING_INFO, 8 },
		{ NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS, abi->NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS.bytes },
		{ NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD,
			abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS.bytes },
		{ NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD,
			abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS.bytes },
		{ NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD,
			abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS.bytes },
		{ NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD,
			abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS.bytes },
	};

	which %= FUZZ_CONTROLS;
	return controls[which < FUZZ_CONTROLS - FUZZ_TRANSFERS ? which : which - FUZZ_TRANSFERS];
}

/* Pairs of an index and a value, as the driver fills them in. */
static inline void fuzz_fill_infos(const struct nv_abi *abi, struct input *input, u8 *list, u32 bytes)
{
	const struct nv_layout_NV2080_CTRL_FB_INFO *at = &abi->NV2080_CTRL_FB_INFO;
	u32 i;

	for (i = 0; i < 4 && (i + 1) * at->bytes <= bytes; i++) {
		put32(list + i * at->bytes, at->index, take8(input) % 48);
		put32(list + i * at->bytes, at->data, 1u << (take8(input) % 32));
	}
}

static inline void fuzz_fill_regions(const struct nv_abi *abi, struct input *input, u8 *params)
{
	const struct nv_layout_NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS *at =
		&abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS;
	const struct nv_layout_NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO *one =
		&abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO;
	u32 i;

	put32(params, at->numFBRegions, take8(input) % 24);
	for (i = 0; i < 3; i++) {
		u8 *region = params + at->fbRegion + i * one->bytes;

		put64(region, one->base, (u64)take8(input) << 24);
		put64(region, one->limit, ((u64)take8(input) << 24) + 0xffffff);
		put64(region, one->reserved, (u64)take8(input) << 24);
	}
}

static inline void fuzz_fill_pids(const struct nv_abi *abi, struct input *input, u8 *params, int infos)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_PID_INFO_PARAMS *list = &abi->NV2080_CTRL_GPU_GET_PID_INFO_PARAMS;
	const struct nv_layout_NV2080_CTRL_GPU_GET_PIDS_PARAMS *at = &abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS;
	u32 i, pid;

	if (!infos)
		put32(params, at->pidTblCount, take8(input) % 8);
	for (i = 0; i < 4; i++) {
		pid = take8(input);
		pid = pid == 255 ? 0x80000000u : pid % 6;
		if (infos)
			put32(params + list->pidInfoList + i * abi->NV2080_CTRL_GPU_PID_INFO.bytes,
				abi->NV2080_CTRL_GPU_PID_INFO.pid, pid);
		else
			put32(params, at->pidTbl + 4 * i, pid);
	}
}

/* By the length that the core asks for; zeros are there already. */
static inline void fuzz_fill_answer(const struct nv_abi *abi, struct input *input, u8 *data, u32 bytes)
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_PARAMS *v1 = &abi->NV2080_CTRL_FB_GET_INFO_PARAMS;
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_V2_PARAMS *v2 = &abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS;

	if (bytes == v1->bytes) {
		put32(data, v1->fbInfoListSize, take8(input) % 8);
		put64(data, v1->fbInfoList, take8(input) ? 8192 : 0);
	} else if (bytes == v2->bytes) {
		fuzz_fill_infos(abi, input, data + v2->fbInfoList, 64);
	} else if (bytes == abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS.bytes) {
		fuzz_fill_regions(abi, input, data);
	} else if (bytes == abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS.bytes) {
		fuzz_fill_pids(abi, input, data, 0);
	} else if (bytes == abi->NV2080_CTRL_GPU_GET_PID_INFO_PARAMS.bytes) {
		fuzz_fill_pids(abi, input, data, 1);
	}
}

#endif
