// SPDX-License-Identifier: GPL-2.0
/*
 * What the driver says of its cards, asked as the modeset module asks: with the kernel's privilege, parameters in
 * kernel memory. Every question makes a client of its own and frees it.
 */
#include <linux/slab.h>

#include "cards.h"

#define PARAMS_BYTES 4096u
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
	struct asking *asking = kzalloc(sizeof(*asking), GFP_KERNEL);

	if (!asking)
		return NULL;
	asking->abi = abi;
	asking->rm = rm;
	if (asking_alloc(asking, 0, &asking->client, NV01_ROOT, 0) == NV_OK)
		return asking;
	kfree(asking);
	return NULL;
}

static void asking_end(struct asking *asking)
{
	asking_free(asking);
	kfree(asking);
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

static int card_memory(struct asking *asking, u64 *total, u64 *free_bytes)
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_V2_PARAMS *list =
		&asking->abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS;
	const struct nv_layout_NV2080_CTRL_FB_INFO *entry = &asking->abi->NV2080_CTRL_FB_INFO;
	u8 *first = asking->params + list->fbInfoList, *second = first + entry->bytes;
	int err;

	memset(asking->params, 0, sizeof(asking->params));
	put32(asking->params + list->fbInfoListSize, 2);
	put32(first + entry->index, NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE);
	put32(second + entry->index, NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE);
	err = asking_control(asking, SUBDEVICE_HANDLE, NV2080_CTRL_CMD_FB_GET_INFO_V2, list->bytes);
	*total = (u64)get32(first + entry->data) << 10;
	*free_bytes = (u64)get32(second + entry->data) << 10;
	return err;
}

int card_facts(const struct nv_abi *abi, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card,
	struct cgpu_gpu_facts *facts, u64 *free_bytes)
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
		err = card_memory(asking, &facts->memtotal, free_bytes);
	asking_end(asking);
	return err;
}
