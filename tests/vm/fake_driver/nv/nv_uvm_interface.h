/* SPDX-License-Identifier: GPL-2.0-only */
/* Interface of nvidia.ko for nvidia-uvm.ko: the used or probed part of kernel-open/common/inc/nv_uvm_interface.h. */
#ifndef FAKE_NV_UVM_INTERFACE_H
#define FAKE_NV_UVM_INTERFACE_H

#include <linux/types.h>

#include "nv_abi.h"

typedef struct uvmGpuDevice *uvmGpuDeviceHandle;
typedef struct uvmGpuAddressSpace *uvmGpuAddressSpaceHandle;

typedef struct {
	u8 uuid[16];
} NvProcessorUuid;

/* Handed through, never looked into. */
typedef struct UvmGpuPlatformInfo UvmGpuPlatformInfo;
typedef struct UvmGpuMemoryInfo UvmGpuMemoryInfo;
typedef struct UvmGpuChannelInstanceInfo UvmGpuChannelInstanceInfo;

u32 nvUvmInterfaceRegisterGpu(const NvProcessorUuid *gpuUuid, UvmGpuPlatformInfo *gpuInfo);
void nvUvmInterfaceUnregisterGpu(const NvProcessorUuid *gpuUuid);
/* The engine probes all four; the stub of nvidia-uvm.ko maps no client's memory and knows no channels, and calls none. */
u32 nvUvmInterfaceDupMemory(
	uvmGpuDeviceHandle device, u32 hClient, u32 hPhysMemory, u32 *hDupMemory, UvmGpuMemoryInfo *pGpuMemoryInfo);
u32 nvUvmInterfaceFreeDupedHandle(uvmGpuDeviceHandle device, u32 hPhysHandle);
u32 nvUvmInterfaceRetainChannel(uvmGpuAddressSpaceHandle vaSpace, u32 hClient, u32 hChannel, void **retainedChannel,
	UvmGpuChannelInstanceInfo *channelInstanceInfo);
void nvUvmInterfaceReleaseChannel(void *retainedChannel);

/* Only here: the layouts of the loaded version, so that the other modules need no tables of their own. */
const struct nv_abi *fake_abi(void);

#endif
