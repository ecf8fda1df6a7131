// SPDX-License-Identifier: GPL-2.0-only
/* An RM client by the driver's interface for kernel modules: allocations and controls. */
#include <linux/mm.h>
#include <linux/slab.h>

#include "core_module/rm_client.h"

#define DEVICE_HANDLE 0xc9d00000u
#define MEMORY_HANDLE 0xc9d00002u
#define DOES_NOT_FIT 0xffffffffu

/* Fields of nvidia_kernel_rmapi_ops_t. */
static u8 *message_start(struct rm_client *own, u32 op)
{
	memset(own->message, 0, sizeof(own->message));
	put32(own->message, own->abi->nvidia_kernel_rmapi_ops_t.op, op);
	return own->message + own->abi->nvidia_kernel_rmapi_ops_t.params;
}

static void put_pointer(u8 *at, const void *pointer)
{
	u64 value = (uintptr_t)pointer;

	memcpy(at, &value, sizeof(value));
}

/* The driver's status. The message has the short form of the structure up to 570, and the long one since 575. */
static u32 rm_client_alloc(struct rm_client *own, u32 parent, u32 *handle, u32 class, u32 bytes)
{
	const struct nv_layout_NVOS21_PARAMETERS *narrow = &own->abi->NVOS21_PARAMETERS;
	const struct nv_layout_NVOS64_PARAMETERS *wide = &own->abi->NVOS64_PARAMETERS;
	int is_wide = own->abi->nvidia_kernel_rmapi_ops_t.params_alloc_pRightsRequested != NV_ABI_ABSENT;
	u32 size_at = is_wide ? wide->paramsSize : narrow->paramsSize;
	u8 *message = message_start(own, NV04_ALLOC);

	/* Both begin alike. */
	put32(message, narrow->hRoot, own->handle);
	put32(message, narrow->hObjectParent, parent);
	put32(message, narrow->hObjectNew, *handle);
	put32(message, narrow->hClass, class);
	if (bytes)
		put_pointer(message + narrow->pAllocParms, own->params);
	if (size_at != NV_ABI_ABSENT)
		put32(message, size_at, bytes);
	own->rm->op(own->rm, own->message);
	*handle = get32(message, narrow->hObjectNew);
	return get32(message, is_wide ? wide->status : narrow->status);
}

u32 rm_client_make(struct rm_client *own)
{
	u32 client = 0, status;

	own->handle = 0;
	status = rm_client_alloc(own, 0, &client, NV01_ROOT, 0);
	if (status == NV_OK)
		own->handle = client;
	return status;
}

void rm_client_free(struct rm_client *own)
{
	const struct nv_layout_NVOS00_PARAMETERS *at = &own->abi->NVOS00_PARAMETERS;
	u8 *message = message_start(own, NV01_FREE);

	put32(message, at->hRoot, own->handle);
	put32(message, at->hObjectOld, own->handle);
	own->rm->op(own->rm, own->message);
	own->handle = 0;
}

u32 rm_client_control_of(struct rm_client *own, u32 client, u32 object, u32 cmd, u32 bytes)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &own->abi->NVOS54_PARAMETERS;
	u8 *message = message_start(own, NV04_CONTROL);

	if (bytes > own->room)
		return DOES_NOT_FIT;
	put32(message, at->hClient, client);
	put32(message, at->hObject, object);
	put32(message, at->cmd, cmd);
	put_pointer(message + at->params, own->params);
	put32(message, at->paramsSize, bytes);
	own->rm->op(own->rm, own->message);
	return get32(message, at->status);
}

static int errno_of(u32 status)
{
	if (status == NV_ERR_GPU_IS_LOST)
		return -ENXIO;
	return status == NV_OK ? 0 : -EIO;
}

static int rm_client_control(struct rm_client *own, u32 object, u32 cmd, u32 bytes)
{
	u32 status = rm_client_control_of(own, own->handle, object, cmd, bytes);

	return status == DOES_NOT_FIT ? -EPROTO : errno_of(status);
}

static int card_control(struct cgpu_card_client *card, u32 cmd, u32 bytes)
{
	return rm_client_control(card->ctx, RM_CLIENT_SUBDEVICE, cmd, bytes);
}

struct cgpu_card_client rm_client_card(struct rm_client *own)
{
	return (struct cgpu_card_client){
		.abi = own->abi, .ctx = own, .params = own->params, .room = own->room, .control = card_control
	};
}

int rm_client_attach(struct rm_client *own, struct cgpu_gpu_facts *facts)
{
	const struct nv_layout_NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS *info =
		&own->abi->NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS;
	const struct nv_layout_NV0080_ALLOC_PARAMETERS *device_at = &own->abi->NV0080_ALLOC_PARAMETERS;
	u32 device = DEVICE_HANDLE, subdevice = RM_CLIENT_SUBDEVICE;
	u32 bytes = own->abi->NV2080_ALLOC_PARAMETERS.bytes;
	int err;

	if (max3((u32)info->bytes, (u32)device_at->bytes, bytes) > own->room)
		return -EPROTO;
	memset(own->params, 0, own->room);
	put32(own->params, info->gpuId, facts->gpu_id);
	err = rm_client_control(own, own->handle, NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2, info->bytes);
	if (err)
		return err;
	facts->device_instance = get32(own->params, info->deviceInstance);
	memset(own->params, 0, own->room);
	put32(own->params, device_at->deviceId, facts->device_instance);
	err = errno_of(rm_client_alloc(own, own->handle, &device, NV01_DEVICE_0, device_at->bytes));
	if (err)
		return err;
	memset(own->params, 0, own->room);
	return errno_of(rm_client_alloc(own, device, &subdevice, NV20_SUBDEVICE_0, bytes));
}

int rm_client_take_page(struct rm_client *own)
{
	u32 memory = MEMORY_HANDLE, bytes = cgpu_card_page(own->abi, MEMORY_HANDLE, own->params, own->room);

	if (bytes == 0)
		return -EPROTO;
	return errno_of(rm_client_alloc(own, DEVICE_HANDLE, &memory, NV01_MEMORY_LOCAL_USER, bytes));
}

struct rm_client *rm_client_start(const struct nv_abi *abi, const struct cgpu_km_rm *rm, u32 room)
{
	struct rm_client *own = kvzalloc(sizeof(*own) + room, GFP_KERNEL);

	if (!own)
		return NULL;
	own->abi = abi;
	own->rm = rm;
	own->room = room;
	own->params = (u8 *)(own + 1);
	if (rm_client_make(own) == NV_OK)
		return own;
	kvfree(own);
	return NULL;
}

void rm_client_end(struct rm_client *own)
{
	rm_client_free(own);
	kvfree(own);
}
