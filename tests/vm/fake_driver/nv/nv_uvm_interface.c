// SPDX-License-Identifier: GPL-2.0
/* The functions that nvidia-uvm.ko calls (kernel-open/nvidia/nv_uvm_interface.c). */
#include <linux/export.h>

#include "rm_gpu_ops.h"

noinline u32 nvUvmInterfaceRegisterGpu(const NvProcessorUuid *gpuUuid, UvmGpuPlatformInfo *gpuInfo)
{
	return nvidia_dev_get_uuid(gpuUuid->uuid, NULL) == 0 ? NV_OK : NV_ERR_OBJECT_NOT_FOUND;
}
EXPORT_SYMBOL(nvUvmInterfaceRegisterGpu);

noinline void nvUvmInterfaceUnregisterGpu(const NvProcessorUuid *gpuUuid)
{
	nvidia_dev_put_uuid(gpuUuid->uuid, NULL);
}
EXPORT_SYMBOL(nvUvmInterfaceUnregisterGpu);

/* A session is a number here: every device has a client of its own. */
noinline u32 nvUvmInterfaceSessionCreate(uvmGpuSessionHandle *session, UvmPlatformInfo *platformInfo)
{
	*session = (uvmGpuSessionHandle)nvidia_card;
	return NV_OK;
}
EXPORT_SYMBOL(nvUvmInterfaceSessionCreate);

noinline u32 nvUvmInterfaceSessionDestroy(uvmGpuSessionHandle session)
{
	return session == (uvmGpuSessionHandle)nvidia_card ? NV_OK : NV_ERR_INVALID_ARGUMENT;
}
EXPORT_SYMBOL(nvUvmInterfaceSessionDestroy);

noinline u32 nvUvmInterfaceDeviceCreate(uvmGpuSessionHandle session, const UvmGpuInfo *pGpuInfo,
	const NvProcessorUuid *gpuUuid, uvmGpuDeviceHandle *device, u8 bCreateSmcPartition)
{
	return rm_gpu_ops_create_device(gpuUuid, device);
}
EXPORT_SYMBOL(nvUvmInterfaceDeviceCreate);

noinline void nvUvmInterfaceDeviceDestroy(uvmGpuDeviceHandle device)
{
	rm_gpu_ops_destroy_device(device);
}
EXPORT_SYMBOL(nvUvmInterfaceDeviceDestroy);

noinline u32 nvUvmInterfaceDupAddressSpace(uvmGpuDeviceHandle device, u32 hUserClient, u32 hUserVASpace,
	uvmGpuAddressSpaceHandle *vaSpace, UvmGpuAddressSpaceInfo *vaSpaceInfo)
{
	return rm_gpu_ops_dup_address_space(device, hUserClient, hUserVASpace, vaSpace);
}
EXPORT_SYMBOL(nvUvmInterfaceDupAddressSpace);

noinline void nvUvmInterfaceAddressSpaceDestroy(uvmGpuAddressSpaceHandle vaSpace)
{
	rm_gpu_ops_destroy_address_space(vaSpace);
}
EXPORT_SYMBOL(nvUvmInterfaceAddressSpaceDestroy);

noinline u32 nvUvmInterfaceMemoryAllocFB(
	uvmGpuAddressSpaceHandle vaSpace, u64 length, UvmGpuPointer *gpuPointer, UvmGpuAllocInfo *allocInfo)
{
	if (knob_fails(__func__))
		return NV_ERR_NO_MEMORY;
	return rm_gpu_ops_memory_alloc_fb(vaSpace, length, gpuPointer, allocInfo);
}
EXPORT_SYMBOL(nvUvmInterfaceMemoryAllocFB);

noinline void nvUvmInterfaceMemoryFree(uvmGpuAddressSpaceHandle vaSpace, UvmGpuPointer gpuPointer)
{
	rm_gpu_ops_memory_free(vaSpace, gpuPointer);
}
EXPORT_SYMBOL(nvUvmInterfaceMemoryFree);

noinline u32 nvUvmInterfaceGetPmaObject(uvmGpuDeviceHandle device, void **pPma, const UvmPmaStatistics **pPmaPubStats)
{
	*pPma = &nvidia_card->cards[device->card];
	return NV_OK;
}
EXPORT_SYMBOL(nvUvmInterfaceGetPmaObject);

noinline u32 nvUvmInterfacePmaAllocPages(
	void *pPma, u64 pageCount, u64 pageSize, UvmPmaAllocationOptions *pPmaAllocOptions, u64 *pPages)
{
	if (knob_fails(__func__))
		return NV_ERR_NO_MEMORY;
	return rm_gpu_ops_pma_alloc_pages(pPma, pageCount, pageSize, pPages);
}
EXPORT_SYMBOL(nvUvmInterfacePmaAllocPages);

noinline void nvUvmInterfacePmaFreePages(void *pPma, u64 *pPages, u64 pageCount, u64 pageSize, u32 flags)
{
	rm_gpu_ops_pma_free_pages(pPma, pageCount, pageSize);
}
EXPORT_SYMBOL(nvUvmInterfacePmaFreePages);

noinline u32 nvUvmInterfaceDupMemory(
	uvmGpuDeviceHandle device, u32 hClient, u32 hPhysMemory, u32 *hDupMemory, UvmGpuMemoryInfo *pGpuMemoryInfo)
{
	if (knob_fails(__func__))
		return NV_ERR_INSUFFICIENT_RESOURCES;
	return rm_gpu_ops_dup_memory(device, hClient, hPhysMemory, hDupMemory, pGpuMemoryInfo);
}
EXPORT_SYMBOL(nvUvmInterfaceDupMemory);

noinline u32 nvUvmInterfaceFreeDupedHandle(uvmGpuDeviceHandle device, u32 hPhysHandle)
{
	return rm_gpu_ops_free_duped_handle(device, hPhysHandle);
}
EXPORT_SYMBOL(nvUvmInterfaceFreeDupedHandle);

const struct nv_abi *fake_abi(void)
{
	return nvidia_card->abi;
}
EXPORT_SYMBOL_GPL(fake_abi);
