// SPDX-License-Identifier: GPL-2.0
/* Cards that address spaces use. */
#include <linux/slab.h>

#include "uvm.h"

static DEFINE_MUTEX(gpus_lock);
static LIST_HEAD(gpus);

static struct uvm_gpu *create(const NvProcessorUuid *uuid, u32 *status)
{
	struct uvm_gpu *gpu = kzalloc(sizeof(*gpu), GFP_KERNEL);
	uvmGpuSessionHandle session;

	*status = NV_ERR_NO_MEMORY;
	if (!gpu)
		return NULL;
	gpu->uuid = *uuid;
	*status = nvUvmInterfaceSessionCreate(&session, NULL);
	if (*status == NV_OK)
		*status = nvUvmInterfaceRegisterGpu(uuid, NULL);
	if (*status != NV_OK)
		goto no_gpu;
	*status = nvUvmInterfaceDeviceCreate(session, NULL, uuid, &gpu->device, 0);
	if (*status == NV_OK)
		*status = nvUvmInterfaceGetPmaObject(gpu->device, &gpu->pma, NULL);
	if (*status == NV_OK) {
		list_add(&gpu->node, &gpus);
		return gpu;
	}
	nvUvmInterfaceUnregisterGpu(uuid);
no_gpu:
	kfree(gpu);
	return NULL;
}

/* Not inlined: in the driver the caller is in another file. */
noinline __noclone u32 uvm_gpu_retain_by_uuid(
	const NvProcessorUuid *gpu_uuid, const void *user_rm_device, struct uvm_gpu **gpu_out)
{
	struct uvm_gpu *at, *found = NULL;
	u32 status = NV_OK;

	mutex_lock(&gpus_lock);
	list_for_each_entry(at, &gpus, node) {
		if (memcmp(&at->uuid, gpu_uuid, sizeof(*gpu_uuid)) == 0)
			found = at;
	}
	if (!found)
		found = create(gpu_uuid, &status);
	if (found)
		found->refs++;
	mutex_unlock(&gpus_lock);
	*gpu_out = found;
	return status;
}

void uvm_gpu_hold(struct uvm_gpu *gpu)
{
	mutex_lock(&gpus_lock);
	gpu->refs++;
	mutex_unlock(&gpus_lock);
}

void uvm_gpu_put(struct uvm_gpu *gpu)
{
	mutex_lock(&gpus_lock);
	if (--gpu->refs == 0) {
		list_del(&gpu->node);
		nvUvmInterfaceDeviceDestroy(gpu->device);
		nvUvmInterfaceUnregisterGpu(&gpu->uuid);
		kfree(gpu);
	}
	mutex_unlock(&gpus_lock);
}

/* The slot of a registered card, or NULL. */
struct uvm_gpu **uvm_space_gpu(struct uvm_va_space *space, const u8 *uuid)
{
	unsigned int i;

	for (i = 0; i < UVM_MAX_CARDS; i++) {
		if (space->gpus[i] && memcmp(space->gpus[i]->uuid.uuid, uuid, sizeof(NvProcessorUuid)) == 0)
			return &space->gpus[i];
	}
	return NULL;
}

static void drop_address_space(struct uvm_va_space *space, unsigned int slot)
{
	if (space->address_spaces[slot])
		nvUvmInterfaceAddressSpaceDestroy(space->address_spaces[slot]);
	space->address_spaces[slot] = NULL;
}

void uvm_space_drop_gpu(struct uvm_va_space *space, unsigned int slot)
{
	if (!space->gpus[slot])
		return;
	uvm_external_drop_gpu(space, space->gpus[slot]);
	drop_address_space(space, slot);
	uvm_gpu_put(space->gpus[slot]);
	space->gpus[slot] = NULL;
}

u32 uvm_api_register_gpu(struct uvm_va_space *space, u8 *params)
{
	const struct nv_layout_UVM_REGISTER_GPU_PARAMS *at = &fake_abi()->UVM_REGISTER_GPU_PARAMS;
	NvProcessorUuid uuid;
	unsigned int slot = 0;

	memcpy(&uuid, params + at->gpu_uuid, sizeof(uuid));
	params[at->numaEnabled] = 0;
	put32(params, at->numaNodeId, U32_MAX);
	if (uvm_space_gpu(space, uuid.uuid))
		return NV_OK;
	while (slot < UVM_MAX_CARDS && space->gpus[slot])
		slot++;
	if (slot == UVM_MAX_CARDS)
		return NV_ERR_INVALID_DEVICE;
	return uvm_gpu_retain_by_uuid(&uuid, NULL, &space->gpus[slot]);
}

u32 uvm_api_unregister_gpu(struct uvm_va_space *space, u8 *params)
{
	struct uvm_gpu **gpu = uvm_space_gpu(space, params + fake_abi()->UVM_UNREGISTER_GPU_PARAMS.gpu_uuid);

	if (!gpu)
		return NV_ERR_INVALID_DEVICE;
	uvm_space_drop_gpu(space, gpu - space->gpus);
	return NV_OK;
}

u32 uvm_api_register_gpu_va_space(struct uvm_va_space *space, u8 *params)
{
	const struct nv_layout_UVM_REGISTER_GPU_VASPACE_PARAMS *at = &fake_abi()->UVM_REGISTER_GPU_VASPACE_PARAMS;
	struct uvm_gpu **gpu = uvm_space_gpu(space, params + at->gpuUuid);

	if (!gpu)
		return NV_ERR_INVALID_DEVICE;
	if (space->address_spaces[gpu - space->gpus])
		return NV_ERR_INVALID_DEVICE;
	return nvUvmInterfaceDupAddressSpace((*gpu)->device, get32(params, at->hClient), get32(params, at->hVaSpace),
		&space->address_spaces[gpu - space->gpus], NULL);
}

u32 uvm_api_unregister_gpu_va_space(struct uvm_va_space *space, u8 *params)
{
	const struct nv_layout_UVM_UNREGISTER_GPU_VASPACE_PARAMS *at = &fake_abi()->UVM_UNREGISTER_GPU_VASPACE_PARAMS;
	struct uvm_gpu **gpu = uvm_space_gpu(space, params + at->gpuUuid);

	if (!gpu || !space->address_spaces[gpu - space->gpus])
		return NV_ERR_INVALID_DEVICE;
	uvm_external_drop_gpu(space, *gpu);
	drop_address_space(space, gpu - space->gpus);
	return NV_OK;
}
