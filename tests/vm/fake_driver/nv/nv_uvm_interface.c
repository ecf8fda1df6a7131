// SPDX-License-Identifier: GPL-2.0
/* The functions that nvidia-uvm.ko calls (kernel-open/nvidia/nv_uvm_interface.c). */
#include <linux/export.h>

#include "driver.h"
#include "nv_uvm_interface.h"

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

noinline u32 nvUvmInterfaceDupMemory(
	uvmGpuDeviceHandle device, u32 hClient, u32 hPhysMemory, u32 *hDupMemory, UvmGpuMemoryInfo *pGpuMemoryInfo)
{
	return NV_ERR_NOT_SUPPORTED;
}
EXPORT_SYMBOL(nvUvmInterfaceDupMemory);

noinline u32 nvUvmInterfaceFreeDupedHandle(uvmGpuDeviceHandle device, u32 hPhysHandle)
{
	return NV_ERR_NOT_SUPPORTED;
}
EXPORT_SYMBOL(nvUvmInterfaceFreeDupedHandle);

const struct nv_abi *fake_abi(void)
{
	return nvidia_card->abi;
}
EXPORT_SYMBOL_GPL(fake_abi);
