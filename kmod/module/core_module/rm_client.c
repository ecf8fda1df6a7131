// SPDX-License-Identifier: GPL-2.0
#include <linux/mm.h>
#include <linux/slab.h>

#include "core_module/rm_client.h"

#define DEVICE_HANDLE 0xc9d00000u
#define DOES_NOT_FIT 0xffffffffu

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
	asking->rm->op(asking->rm, asking->message);
	*handle = get32(message + narrow->hObjectNew);
	return get32(message + (is_wide ? wide->status : narrow->status));
}

u32 asking_client(struct asking *asking)
{
	u32 client = 0, status;

	asking->client = 0;
	status = asking_alloc(asking, 0, &client, NV01_ROOT, 0);
	if (status == NV_OK)
		asking->client = client;
	return status;
}

void asking_free_client(struct asking *asking)
{
	const struct nv_layout_NVOS00_PARAMETERS *at = &asking->abi->NVOS00_PARAMETERS;
	u8 *message = message_start(asking, NV01_FREE);

	put32(message + at->hRoot, asking->client);
	put32(message + at->hObjectOld, asking->client);
	asking->rm->op(asking->rm, asking->message);
	asking->client = 0;
}

u32 asking_control_of(struct asking *asking, u32 client, u32 object, u32 cmd, u32 bytes)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &asking->abi->NVOS54_PARAMETERS;
	u8 *message = message_start(asking, NV04_CONTROL);

	if (bytes > asking->room)
		return DOES_NOT_FIT;
	put32(message + at->hClient, client);
	put32(message + at->hObject, object);
	put32(message + at->cmd, cmd);
	put_pointer(message + at->params, asking->params);
	put32(message + at->paramsSize, bytes);
	asking->rm->op(asking->rm, asking->message);
	return get32(message + at->status);
}

int asking_control(struct asking *asking, u32 object, u32 cmd, u32 bytes)
{
	u32 status = asking_control_of(asking, asking->client, object, cmd, bytes);

	if (status == DOES_NOT_FIT)
		return -EPROTO;
	return status == NV_OK ? 0 : -EIO;
}

int asking_attach(struct asking *asking, struct cgpu_gpu_facts *facts)
{
	const struct nv_layout_NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS *info =
		&asking->abi->NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS;
	const struct nv_layout_NV0080_ALLOC_PARAMETERS *device_at = &asking->abi->NV0080_ALLOC_PARAMETERS;
	u32 device = DEVICE_HANDLE, subdevice = ASKING_SUBDEVICE;
	u32 bytes = asking->abi->NV2080_ALLOC_PARAMETERS.bytes;
	int err;

	if (max3((u32)info->bytes, (u32)device_at->bytes, bytes) > asking->room)
		return -EPROTO;
	memset(asking->params, 0, asking->room);
	put32(asking->params + info->gpuId, facts->gpu_id);
	err = asking_control(asking, asking->client, NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2, info->bytes);
	if (err)
		return err;
	facts->device_instance = get32(asking->params + info->deviceInstance);
	memset(asking->params, 0, asking->room);
	put32(asking->params + device_at->deviceId, facts->device_instance);
	if (asking_alloc(asking, asking->client, &device, NV01_DEVICE_0, device_at->bytes) != NV_OK)
		return -EIO;
	memset(asking->params, 0, asking->room);
	return asking_alloc(asking, device, &subdevice, NV20_SUBDEVICE_0, bytes) == NV_OK ? 0 : -EIO;
}

struct asking *asking_start(const struct nv_abi *abi, const struct cgpu_km_rm *rm, u32 room)
{
	struct asking *asking = kvzalloc(sizeof(*asking) + room, GFP_KERNEL);

	if (!asking)
		return NULL;
	asking->abi = abi;
	asking->rm = rm;
	asking->room = room;
	asking->params = (u8 *)(asking + 1);
	if (asking_client(asking) == NV_OK)
		return asking;
	kvfree(asking);
	return NULL;
}

void asking_end(struct asking *asking)
{
	asking_free_client(asking);
	kvfree(asking);
}
