// SPDX-License-Identifier: GPL-2.0
/*
 * What the driver says of its cards, asked as the modeset module asks: with the kernel's privilege, parameters in
 * kernel memory. Every question makes a client of its own and frees it.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "cards.h"

#define PARAMS_BYTES 16384u
#define PROCESSES_MAX 950u /* NV2080_CTRL_GPU_GET_PIDS_MAX_COUNT, ctrl2080gpu.h */
/* Of our own choice: a client's handles are its own affair. */
#define DEVICE_HANDLE 0xc9d00000u
#define SUBDEVICE_HANDLE 0xc9d00001u

struct asking {
	const struct nv_abi *abi;
	const struct cgpu_km_rm *rm;
	u32 client;
	u8 message[CGPU_KM_RM_BYTES];
	u8 params[PARAMS_BYTES];
};

static void put32(u8 *at, u32 value)
{
	memcpy(at, &value, sizeof(value));
}

static u32 get32(const u8 *at)
{
	u32 value;

	memcpy(&value, at, sizeof(value));
	return value;
}

/* Fields of nvidia_kernel_rmapi_ops_t. */
static u8 *message_start(struct asking *asking, u32 op)
{
	memset(asking->message, 0, sizeof(asking->message));
	put32(asking->message + asking->abi->nvidia_kernel_rmapi_ops_t.op, op);
	return asking->message + asking->abi->nvidia_kernel_rmapi_ops_t.params;
}

static void put_pointer(u8 *at, const void *pointer)
{
	u64 value = (uintptr_t)pointer;

	memcpy(at, &value, sizeof(value));
}

/* The driver's status. The message has the short form of the structure up to 570, and the long one since 575. */
static u32 asking_alloc(struct asking *asking, u32 parent, u32 *handle, u32 class, u32 bytes)
{
	const struct nv_layout_NVOS21_PARAMETERS *narrow = &asking->abi->NVOS21_PARAMETERS;
	const struct nv_layout_NVOS64_PARAMETERS *wide = &asking->abi->NVOS64_PARAMETERS;
	int is_wide = asking->abi->nvidia_kernel_rmapi_ops_t.params_alloc_pRightsRequested != NV_ABI_ABSENT;
	u32 size_at = is_wide ? wide->paramsSize : narrow->paramsSize;
	u8 *message = message_start(asking, NV04_ALLOC);

	/* Both begin alike. */
	put32(message + narrow->hRoot, asking->client);
	put32(message + narrow->hObjectParent, parent);
	put32(message + narrow->hObjectNew, *handle);
	put32(message + narrow->hClass, class);
	if (bytes)
		put_pointer(message + narrow->pAllocParms, asking->params);
	if (size_at != NV_ABI_ABSENT)
		put32(message + size_at, bytes);
	asking->rm->op(asking->message);
	*handle = get32(message + narrow->hObjectNew);
	return get32(message + (is_wide ? wide->status : narrow->status));
}

static void asking_free(struct asking *asking)
{
	const struct nv_layout_NVOS00_PARAMETERS *at = &asking->abi->NVOS00_PARAMETERS;
	u8 *message = message_start(asking, NV01_FREE);

	put32(message + at->hRoot, asking->client);
	put32(message + at->hObjectOld, asking->client);
	asking->rm->op(asking->message);
}

static int asking_control(struct asking *asking, u32 object, u32 cmd, u32 bytes)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &asking->abi->NVOS54_PARAMETERS;
	u8 *message = message_start(asking, NV04_CONTROL);

	if (bytes > sizeof(asking->params))
		return -EPROTO;
	put32(message + at->hClient, asking->client);
	put32(message + at->hObject, object);
	put32(message + at->cmd, cmd);
	put_pointer(message + at->params, asking->params);
	put32(message + at->paramsSize, bytes);
	asking->rm->op(asking->message);
	return get32(message + at->status) == NV_OK ? 0 : -EIO;
}

static struct asking *asking_start(const struct nv_abi *abi, const struct cgpu_km_rm *rm)
{
	struct asking *asking = kvzalloc(sizeof(*asking), GFP_KERNEL);

	if (!asking)
		return NULL;
	asking->abi = abi;
	asking->rm = rm;
	if (asking_alloc(asking, 0, &asking->client, NV01_ROOT, 0) == NV_OK)
		return asking;
	kvfree(asking);
	return NULL;
}

static void asking_end(struct asking *asking)
{
	asking_free(asking);
	kvfree(asking);
}

int cards_list(const struct nv_abi *abi, const struct cgpu_km_rm *rm, struct cgpu_km_card *cards)
{
	const struct nv_layout_nv_gpu_info_t *at = &abi->nv_gpu_info_t;
	u8 *records = kcalloc(CGPU_MAX_GPUS, at->bytes, GFP_KERNEL);
	u32 count, i, k;
	int minor;

	if (!records)
		return -ENOMEM;
	count = min_t(u32, rm->list(records), CGPU_MAX_GPUS);
	for (i = 0; i < count; i++) {
		const u8 *record = records + (size_t)i * at->bytes;

		minor = rm->minor_at(get32(record + at->pci_info_domain), record[at->pci_info_bus],
			record[at->pci_info_slot], record[at->pci_info_function]);
		if (minor < 0) {
			kfree(records);
			return minor;
		}
		/* In the order of their minors. */
		for (k = i; k && cards[k - 1].minor > (u32)minor; k--)
			cards[k] = cards[k - 1];
		cards[k] = (struct cgpu_km_card){ .gpu_id = get32(record + at->gpu_id), .minor = (u32)minor };
	}
	kfree(records);
	return (int)count;
}

static void copy_text(char *to, size_t bytes, const u8 *from, size_t from_bytes)
{
	size_t i;

	for (i = 0; i + 1 < bytes && i < from_bytes && from[i]; i++)
		to[i] = from[i] > 0x1f && from[i] < 0x7f ? (char)from[i] : '?';
	to[i] = 0;
}

/* Device and subdevice of a card, through which it can be asked. */
static int card_attach(struct asking *asking, struct cgpu_gpu_facts *facts)
{
	const struct nv_layout_NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS *info =
		&asking->abi->NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS;
	const struct nv_layout_NV0080_ALLOC_PARAMETERS *device_at = &asking->abi->NV0080_ALLOC_PARAMETERS;
	u32 device = DEVICE_HANDLE, subdevice = SUBDEVICE_HANDLE;
	int err;

	put32(asking->params + info->gpuId, facts->gpu_id);
	err = asking_control(asking, asking->client, NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2, info->bytes);
	if (err)
		return err;
	facts->device_instance = get32(asking->params + info->deviceInstance);
	memset(asking->params, 0, sizeof(asking->params));
	put32(asking->params + device_at->deviceId, facts->device_instance);
	if (asking_alloc(asking, asking->client, &device, NV01_DEVICE_0, device_at->bytes) != NV_OK)
		return -EIO;
	memset(asking->params, 0, sizeof(asking->params));
	return asking_alloc(asking, device, &subdevice, NV20_SUBDEVICE_0, asking->abi->NV2080_ALLOC_PARAMETERS.bytes) ==
			NV_OK ?
		0 :
		-EIO;
}

static int card_names(struct asking *asking, struct cgpu_gpu_facts *facts)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_GID_INFO_PARAMS *gid =
		&asking->abi->NV2080_CTRL_GPU_GET_GID_INFO_PARAMS;
	const struct nv_layout_NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS *name =
		&asking->abi->NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS;
	int err;

	memset(asking->params, 0, sizeof(asking->params));
	err = asking_control(asking, SUBDEVICE_HANDLE, NV2080_CTRL_CMD_GPU_GET_GID_INFO, gid->bytes);
	if (err)
		return err;
	copy_text(facts->uuid, sizeof(facts->uuid), asking->params + gid->data, 64);
	memset(asking->params, 0, sizeof(asking->params));
	err = asking_control(asking, SUBDEVICE_HANDLE, NV2080_CTRL_CMD_GPU_GET_NAME_STRING, name->bytes);
	if (err == 0)
		copy_text(facts->name, sizeof(facts->name), asking->params + name->gpuNameString, 64);
	return err;
}

/* Of a card that MIG has divided nobody without an instance is told what is free; how much there is stays known. */
static int card_memory(struct asking *asking, u64 *total, u64 *free_bytes)
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_V2_PARAMS *list =
		&asking->abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS;
	const struct nv_layout_NV2080_CTRL_FB_INFO *entry = &asking->abi->NV2080_CTRL_FB_INFO;
	u8 *first = asking->params + list->fbInfoList, *second = first + entry->bytes;
	u32 questions;
	int err = -EIO;

	for (questions = 2; err && questions; questions--) {
		memset(asking->params, 0, sizeof(asking->params));
		put32(asking->params + list->fbInfoListSize, questions);
		put32(first + entry->index, NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE);
		put32(second + entry->index, NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE);
		err = asking_control(asking, SUBDEVICE_HANDLE, NV2080_CTRL_CMD_FB_GET_INFO_V2, list->bytes);
		*total = (u64)get32(first + entry->data) << 10;
		*free_bytes = questions == 2 ? (u64)get32(second + entry->data) << 10 : 0;
	}
	return err;
}

static int card_ask_mig(struct asking *asking, u32 *mig, u32 *has_mig)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_INFO_V2_PARAMS *list =
		&asking->abi->NV2080_CTRL_GPU_GET_INFO_V2_PARAMS;
	const struct nv_layout_NV2080_CTRL_GPU_INFO *entry = &asking->abi->NV2080_CTRL_GPU_INFO;
	u8 *first = asking->params + list->gpuInfoList;
	int err;
	u32 mode;

	memset(asking->params, 0, sizeof(asking->params));
	put32(asking->params + list->gpuInfoListSize, 1);
	put32(first + entry->index, NV2080_CTRL_GPU_INFO_INDEX_GPU_SMC_MODE);
	err = asking_control(asking, SUBDEVICE_HANDLE, NV2080_CTRL_CMD_GPU_GET_INFO_V2, list->bytes);
	mode = get32(first + entry->data);
	*has_mig = mode != NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_UNSUPPORTED;
	/* src/common/src/nv_smg.c, DeviceInMigMode() */
	*mig = mode == NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_ENABLED ||
		mode == NV2080_CTRL_GPU_INFO_GPU_SMC_MODE_DISABLE_PENDING;
	return err;
}

int card_facts(const struct nv_abi *abi, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card,
	struct cgpu_gpu_facts *facts, struct cgpu_km_card_now *now)
{
	struct asking *asking = asking_start(abi, rm);
	int err;

	if (!asking)
		return -ENOMEM;
	facts->gpu_id = card->gpu_id;
	facts->minor = card->minor;
	err = card_attach(asking, facts);
	if (err == 0)
		err = card_names(asking, facts);
	if (err == 0)
		err = card_memory(asking, &facts->memtotal, &now->free_bytes);
	if (err == 0)
		err = card_ask_mig(asking, &now->mig, &now->has_mig);
	asking_end(asking);
	return err;
}

int card_mig(const struct nv_abi *abi, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card, u32 *mig)
{
	struct cgpu_gpu_facts facts = { .gpu_id = card->gpu_id };
	struct asking *asking = asking_start(abi, rm);
	u32 has_mig;
	int err;

	if (!asking)
		return -ENOMEM;
	err = card_attach(asking, &facts);
	if (err == 0)
		err = card_ask_mig(asking, mig, &has_mig);
	asking_end(asking);
	return err;
}

/* By the driver's own count; one that has ended has nothing. */
static u64 process_bytes(struct asking *asking, u32 pid)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_PID_INFO_PARAMS *list =
		&asking->abi->NV2080_CTRL_GPU_GET_PID_INFO_PARAMS;
	const struct nv_layout_NV2080_CTRL_GPU_PID_INFO *at = &asking->abi->NV2080_CTRL_GPU_PID_INFO;
	u8 *entry = asking->params + list->pidInfoList;
	u64 part[3];

	memset(asking->params, 0, sizeof(asking->params));
	put32(asking->params + list->pidInfoListCount, 1);
	put32(entry + at->pid, pid);
	put32(entry + at->index, NV2080_CTRL_GPU_PID_INFO_INDEX_VIDEO_MEMORY_USAGE);
	if (asking_control(asking, SUBDEVICE_HANDLE, NV2080_CTRL_CMD_GPU_GET_PID_INFO, list->bytes))
		return 0;
	memcpy(&part[0], entry + at->data_vidMemUsage_memPrivate, sizeof(part[0]));
	memcpy(&part[1], entry + at->data_vidMemUsage_memSharedOwned, sizeof(part[1]));
	memcpy(&part[2], entry + at->data_vidMemUsage_memSharedDuped, sizeof(part[2]));
	return part[0] + part[1] + part[2];
}

/* The processes that use the card. Number of them, or negative errno. */
static int processes_list(struct asking *asking, u32 *pids, u32 most)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_PIDS_PARAMS *at = &asking->abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS;
	u32 count, i;
	int err;

	memset(asking->params, 0, sizeof(asking->params));
	put32(asking->params + at->idType, NV2080_CTRL_GPU_GET_PIDS_ID_TYPE_CLASS);
	put32(asking->params + at->id, NV20_SUBDEVICE_0);
	err = asking_control(asking, SUBDEVICE_HANDLE, NV2080_CTRL_CMD_GPU_GET_PIDS, at->bytes);
	if (err)
		return err;
	count = min3(get32(asking->params + at->pidTblCount), (u32)(at->bytes - at->pidTbl) / 4, most);
	for (i = 0; i < count; i++)
		pids[i] = get32(asking->params + at->pidTbl + 4 * i);
	return (int)count;
}

static int view_processes(struct asking *asking, bool (*contained)(s32 tgid), struct cgpu_card_view *view)
{
	u32 *pids = kcalloc(PROCESSES_MAX, sizeof(*pids), GFP_KERNEL);
	int count = pids ? processes_list(asking, pids, PROCESSES_MAX) : -ENOMEM, i;
	u64 bytes;

	for (i = 0; i < count; i++) {
		bytes = process_bytes(asking, pids[i]);
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
	struct asking *asking = asking_start(abi, rm);
	struct cgpu_gpu_facts facts = { .gpu_id = card->gpu_id };
	u64 total;
	int err;

	if (!asking)
		return -ENOMEM;
	memset(view, 0, sizeof(*view));
	err = card_attach(asking, &facts);
	if (err == 0)
		err = card_memory(asking, &total, &view->memfree);
	if (err == 0)
		err = view_processes(asking, contained, view);
	asking_end(asking);
	return err;
}
