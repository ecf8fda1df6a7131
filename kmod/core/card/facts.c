// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* A card's facts: its names, its memory, MIG, and who uses it. */
#include "card/begin.h"

#define TEXT_BYTES 64u /* of the driver's texts */

static int ask_text(struct cgpu_card_client *card, u32 command, u32 bytes, u32 at, char text[TEXT_BYTES])
{
	int err = core_card_begin(card, bytes);
	u32 i;

	if (err == 0)
		err = card->control(card, command, bytes);
	if (err)
		return err;
	for (i = 0; i + 1 < TEXT_BYTES && card->params[at + i]; i++) {
		u8 letter = card->params[at + i];

		text[i] = letter > 0x1f && letter < 0x7f ? (char)letter : '?';
	}
	text[i] = 0;
	return 0;
}

int cgpu_card_names(struct cgpu_card_client *card, struct cgpu_gpu_facts *facts)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_GID_INFO_PARAMS *gid =
		&card->abi->NV2080_CTRL_GPU_GET_GID_INFO_PARAMS;
	const struct nv_layout_NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS *name =
		&card->abi->NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS;
	int err = ask_text(card, NV2080_CTRL_CMD_GPU_GET_GID_INFO, gid->bytes, gid->data, facts->uuid);

	return err ? err :
		     ask_text(card, NV2080_CTRL_CMD_GPU_GET_NAME_STRING, name->bytes, name->gpuNameString, facts->name);
}

/* While MIG divides a card, a client without an instance learns the total memory and not how much is free. */
int cgpu_card_memory(struct cgpu_card_client *card, u64 *total, u64 *unused)
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_V2_PARAMS *list = &card->abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS;
	const struct nv_layout_NV2080_CTRL_FB_INFO *entry = &card->abi->NV2080_CTRL_FB_INFO;
	u8 *first = card->params + list->fbInfoList, *second = first + entry->bytes;
	int err = -EIO;
	u32 questions;

	for (questions = 2; err && err != -ENXIO && questions; questions--) {
		err = core_card_begin(card, list->bytes);
		if (err)
			return err;
		put32(card->params, list->fbInfoListSize, questions);
		put32(first, entry->index, NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE);
		put32(second, entry->index, NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE);
		err = card->control(card, NV2080_CTRL_CMD_FB_GET_INFO_V2, list->bytes);
		*total = (u64)get32(first, entry->data) << 10;
		*unused = questions == 2 ? (u64)get32(second, entry->data) << 10 : 0;
	}
	return err;
}

int cgpu_card_mig(struct cgpu_card_client *card, u32 *mig, u32 *has_mig)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_INFO_V2_PARAMS *list =
		&card->abi->NV2080_CTRL_GPU_GET_INFO_V2_PARAMS;
	const struct nv_layout_NV2080_CTRL_GPU_INFO *entry = &card->abi->NV2080_CTRL_GPU_INFO;
	u8 *first = card->params + list->gpuInfoList;
	int err = core_card_begin(card, list->bytes);
	u32 mode;

	if (err)
		return err;
	put32(card->params, list->gpuInfoListSize, 1);
	put32(first, entry->index, NV2080_CTRL_GPU_INFO_INDEX_GPU_SMC_MODE);
	err = card->control(card, NV2080_CTRL_CMD_GPU_GET_INFO_V2, list->bytes);
	mode = get32(first, entry->data);
	*has_mig = mode != NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_UNSUPPORTED;
	/* src/common/src/nv_smg.c, DeviceInMigMode() */
	*mig = mode == NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_ENABLED ||
		mode == NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_DISABLE_PENDING;
	return err;
}

int cgpu_card_processes(struct cgpu_card_client *card, s32 *tgid, u32 most)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_PIDS_PARAMS *at = &card->abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS;
	int err = core_card_begin(card, at->bytes);
	u32 count, i;

	if (err)
		return err;
	put32(card->params, at->idType, NV2080_CTRL_GPU_GET_PIDS_ID_TYPE_CLASS);
	put32(card->params, at->id, NV20_SUBDEVICE_0);
	err = card->control(card, NV2080_CTRL_CMD_GPU_GET_PIDS, at->bytes);
	if (err)
		return err;
	count = get32(card->params, at->pidTblCount);
	if (count > (at->bytes - at->pidTbl) / 4u)
		count = (at->bytes - at->pidTbl) / 4u;
	for (i = 0; i < count && i < most; i++)
		tgid[i] = (s32)get32(card->params, at->pidTbl + 4 * i);
	return (int)i;
}

int cgpu_card_process_bytes(struct cgpu_card_client *card, s32 tgid, u64 *bytes)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_PID_INFO_PARAMS *list =
		&card->abi->NV2080_CTRL_GPU_GET_PID_INFO_PARAMS;
	const struct nv_layout_NV2080_CTRL_GPU_PID_INFO *entry = &card->abi->NV2080_CTRL_GPU_PID_INFO;
	u8 *at = card->params + list->pidInfoList;
	int err = core_card_begin(card, list->bytes);

	if (err)
		return err;
	put32(card->params, list->pidInfoListCount, 1);
	put32(at, entry->pid, (u32)tgid);
	put32(at, entry->index, NV2080_CTRL_GPU_PID_INFO_INDEX_VIDEO_MEMORY_USAGE);
	err = card->control(card, NV2080_CTRL_CMD_GPU_GET_PID_INFO, list->bytes);
	*bytes = get64(at, entry->data_vidMemUsage_memPrivate) + get64(at, entry->data_vidMemUsage_memSharedOwned) +
		get64(at, entry->data_vidMemUsage_memSharedDuped);
	return err;
}
