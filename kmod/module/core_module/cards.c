// SPDX-License-Identifier: GPL-2.0-only
/* Queries of the driver's cards. Each query makes a client of its own and frees it. */
#include <linux/mm.h>
#include <linux/slab.h>

#include "core_module/rm_client.h"
#include "core_module/cards.h"

#define PROCESSES_MAX 950u /* NV2080_CTRL_GPU_GET_PIDS_MAX_COUNT, ctrl2080gpu.h */

/* Open the card of a record in the driver's list. */
static int card_open(const struct nv_abi *abi, const struct cgpu_km_rm *rm, const u8 *record, struct cgpu_km_card *card)
{
	const struct nv_layout_nv_gpu_info_t *at = &abi->nv_gpu_info_t;
	int minor, err;

	card->gpu_id = get32(record, at->gpu_id);
	err = rm->open(rm, card->gpu_id);
	if (err)
		return err;
	minor = rm->minor_at(get32(record, at->pci_info_domain), record[at->pci_info_bus], record[at->pci_info_slot]);
	if (minor < 0) {
		rm->close(rm, card->gpu_id);
		return minor;
	}
	card->minor = (u32)minor;
	return 0;
}

static void cards_insert(struct cgpu_km_card *cards, u32 count, const struct cgpu_km_card *card)
{
	for (; count && cards[count - 1].minor > card->minor; count--)
		cards[count] = cards[count - 1];
	cards[count] = *card;
}

int cards_open(const struct nv_abi *abi, const struct cgpu_km_rm *rm, struct cgpu_km_card *cards)
{
	u8 *records = kcalloc(CGPU_MAX_GPUS, abi->nv_gpu_info_t.bytes, GFP_KERNEL);
	struct cgpu_km_card card;
	u32 count, i, opened = 0;
	int err, failed = 0;

	if (!records)
		return -ENOMEM;
	count = min_t(u32, rm->list(rm, records), CGPU_MAX_GPUS);
	for (i = 0; i < count; i++) {
		err = card_open(abi, rm, records + (size_t)i * abi->nv_gpu_info_t.bytes, &card);
		if (err == 0) {
			cards_insert(cards, opened++, &card);
			continue;
		}
		pr_err("card with GPU id %#x: does not start (error %d), and is left out\n", card.gpu_id, err);
		failed = err;
	}
	kfree(records);
	return opened ? (int)opened : failed;
}

static void copy_text(char *to, size_t bytes, const u8 *from, size_t from_bytes)
{
	size_t i;

	for (i = 0; i + 1 < bytes && i < from_bytes && from[i]; i++)
		to[i] = from[i] > 0x1f && from[i] < 0x7f ? (char)from[i] : '?';
	to[i] = 0;
}

static int card_names(struct rm_client *own, struct cgpu_gpu_facts *facts)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_GID_INFO_PARAMS *gid =
		&own->abi->NV2080_CTRL_GPU_GET_GID_INFO_PARAMS;
	const struct nv_layout_NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS *name =
		&own->abi->NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS;
	int err;

	memset(own->params, 0, RM_CLIENT_ROOM);
	err = rm_client_control(own, RM_CLIENT_SUBDEVICE, NV2080_CTRL_CMD_GPU_GET_GID_INFO, gid->bytes);
	if (err)
		return err;
	copy_text(facts->uuid, sizeof(facts->uuid), own->params + gid->data, 64);
	memset(own->params, 0, RM_CLIENT_ROOM);
	err = rm_client_control(own, RM_CLIENT_SUBDEVICE, NV2080_CTRL_CMD_GPU_GET_NAME_STRING, name->bytes);
	if (err == 0)
		copy_text(facts->name, sizeof(facts->name), own->params + name->gpuNameString, 64);
	return err;
}

/* While MIG divides a card, a client without an instance learns the total memory and not how much is free. */
static int card_memory(struct rm_client *own, u64 *total, u64 *free_bytes)
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_V2_PARAMS *list = &own->abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS;
	const struct nv_layout_NV2080_CTRL_FB_INFO *entry = &own->abi->NV2080_CTRL_FB_INFO;
	u8 *first = own->params + list->fbInfoList, *second = first + entry->bytes;
	u32 questions;
	int err = -EIO;

	for (questions = 2; err && err != -ENXIO && questions; questions--) {
		memset(own->params, 0, RM_CLIENT_ROOM);
		put32(own->params, list->fbInfoListSize, questions);
		put32(first, entry->index, NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE);
		put32(second, entry->index, NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE);
		err = rm_client_control(own, RM_CLIENT_SUBDEVICE, NV2080_CTRL_CMD_FB_GET_INFO_V2, list->bytes);
		*total = (u64)get32(first, entry->data) << 10;
		*free_bytes = questions == 2 ? (u64)get32(second, entry->data) << 10 : 0;
	}
	return err;
}

static int card_ask_mig(struct rm_client *own, u32 *mig, u32 *has_mig)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_INFO_V2_PARAMS *list = &own->abi->NV2080_CTRL_GPU_GET_INFO_V2_PARAMS;
	const struct nv_layout_NV2080_CTRL_GPU_INFO *entry = &own->abi->NV2080_CTRL_GPU_INFO;
	u8 *first = own->params + list->gpuInfoList;
	int err;
	u32 mode;

	memset(own->params, 0, RM_CLIENT_ROOM);
	put32(own->params, list->gpuInfoListSize, 1);
	put32(first, entry->index, NV2080_CTRL_GPU_INFO_INDEX_GPU_SMC_MODE);
	err = rm_client_control(own, RM_CLIENT_SUBDEVICE, NV2080_CTRL_CMD_GPU_GET_INFO_V2, list->bytes);
	mode = get32(first, entry->data);
	*has_mig = mode != NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_UNSUPPORTED;
	/* src/common/src/nv_smg.c, DeviceInMigMode() */
	*mig = mode == NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_ENABLED ||
		mode == NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_DISABLE_PENDING;
	return err;
}

int card_facts(const struct nv_abi *abi, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card,
	struct cgpu_gpu_facts *facts, struct cgpu_km_card_now *now)
{
	struct rm_client *own = rm_client_start(abi, rm, RM_CLIENT_ROOM);
	int err;

	if (!own)
		return -ENOMEM;
	facts->gpu_id = card->gpu_id;
	facts->minor = card->minor;
	err = rm_client_attach(own, facts);
	if (err == 0)
		err = card_names(own, facts);
	if (err == 0)
		err = card_memory(own, &facts->memtotal, &now->free_bytes);
	if (err == 0)
		err = card_ask_mig(own, &now->mig, &now->has_mig);
	rm_client_end(own);
	return err;
}

int card_mig(const struct nv_abi *abi, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card, u32 *mig)
{
	struct cgpu_gpu_facts facts = { .gpu_id = card->gpu_id };
	struct rm_client *own = rm_client_start(abi, rm, RM_CLIENT_ROOM);
	u32 has_mig;
	int err;

	if (!own)
		return -ENOMEM;
	err = rm_client_attach(own, &facts);
	if (err == 0)
		err = card_ask_mig(own, mig, &has_mig);
	rm_client_end(own);
	return err;
}

int card_take_page(const struct nv_abi *abi, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card)
{
	struct cgpu_gpu_facts facts = { .gpu_id = card->gpu_id };
	struct rm_client *own = rm_client_start(abi, rm, RM_CLIENT_ROOM);
	int err;

	if (!own)
		return -ENOMEM;
	err = rm_client_attach(own, &facts);
	if (err == 0)
		err = rm_client_take_page(own);
	rm_client_end(own);
	return err;
}

/* Bytes of a process by the driver's own count; a process that has ended has none. */
static u64 process_bytes(struct rm_client *own, u32 pid)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_PID_INFO_PARAMS *list =
		&own->abi->NV2080_CTRL_GPU_GET_PID_INFO_PARAMS;
	const struct nv_layout_NV2080_CTRL_GPU_PID_INFO *at = &own->abi->NV2080_CTRL_GPU_PID_INFO;
	u8 *entry = own->params + list->pidInfoList;
	u64 part[3];

	memset(own->params, 0, RM_CLIENT_ROOM);
	put32(own->params, list->pidInfoListCount, 1);
	put32(entry, at->pid, pid);
	put32(entry, at->index, NV2080_CTRL_GPU_PID_INFO_INDEX_VIDEO_MEMORY_USAGE);
	if (rm_client_control(own, RM_CLIENT_SUBDEVICE, NV2080_CTRL_CMD_GPU_GET_PID_INFO, list->bytes))
		return 0;
	memcpy(&part[0], entry + at->data_vidMemUsage_memPrivate, sizeof(part[0]));
	memcpy(&part[1], entry + at->data_vidMemUsage_memSharedOwned, sizeof(part[1]));
	memcpy(&part[2], entry + at->data_vidMemUsage_memSharedDuped, sizeof(part[2]));
	return part[0] + part[1] + part[2];
}

/* The processes that use the card. Number of them, or negative errno. */
static int processes_list(struct rm_client *own, u32 *pids, u32 most)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_PIDS_PARAMS *at = &own->abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS;
	u32 count, i;
	int err;

	memset(own->params, 0, RM_CLIENT_ROOM);
	put32(own->params, at->idType, NV2080_CTRL_GPU_GET_PIDS_ID_TYPE_CLASS);
	put32(own->params, at->id, NV20_SUBDEVICE_0);
	err = rm_client_control(own, RM_CLIENT_SUBDEVICE, NV2080_CTRL_CMD_GPU_GET_PIDS, at->bytes);
	if (err)
		return err;
	count = min3(get32(own->params, at->pidTblCount), (u32)(at->bytes - at->pidTbl) / 4, most);
	for (i = 0; i < count; i++)
		pids[i] = get32(own->params, at->pidTbl + 4 * i);
	return (int)count;
}

static int view_processes(struct rm_client *own, bool (*contained)(s32 tgid), struct cgpu_card_view *view)
{
	u32 *pids = kcalloc(PROCESSES_MAX, sizeof(*pids), GFP_KERNEL);
	int count = pids ? processes_list(own, pids, PROCESSES_MAX) : -ENOMEM, i;
	u64 bytes;

	for (i = 0; i < count; i++) {
		bytes = process_bytes(own, pids[i]);
		view->users += bytes != 0;
		if (bytes == 0 || contained((s32)pids[i]))
			continue;
		view->strangers++;
		view->outside += bytes;
	}
	kfree(pids);
	return count < 0 ? count : 0;
}

int card_view(const struct nv_abi *abi, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card,
	bool (*contained)(s32 tgid), struct cgpu_card_view *view)
{
	struct rm_client *own = rm_client_start(abi, rm, RM_CLIENT_ROOM);
	struct cgpu_gpu_facts facts = { .gpu_id = card->gpu_id };
	u64 total;
	int err;

	if (!own)
		return -ENOMEM;
	memset(view, 0, sizeof(*view));
	err = rm_client_attach(own, &facts);
	if (err == 0)
		err = card_memory(own, &total, &view->memfree);
	if (err == 0)
		err = view_processes(own, contained, view);
	rm_client_end(own);
	if (err != -ENXIO)
		return err;
	*view = (struct cgpu_card_view){ .memfree = CGPU_CARD_LOST };
	return 0;
}
