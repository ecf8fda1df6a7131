/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What nvidia.ko offers to nvidia-uvm.ko: names and prototypes of kernel-open/common/inc/nv_uvm_interface.h, and of its
 * structures the fields that are used here, where they lie in 580.142.
 */
#ifndef FAKE_NV_UVM_INTERFACE_H
#define FAKE_NV_UVM_INTERFACE_H

#include <linux/types.h>

#include "nv_abi.h"

#define UVM_MAX_CARDS 32u

typedef struct uvmGpuSession *uvmGpuSessionHandle;
typedef struct uvmGpuDevice *uvmGpuDeviceHandle;
typedef struct uvmGpuAddressSpace *uvmGpuAddressSpaceHandle;
typedef u64 UvmGpuPointer;

typedef struct {
	u8 uuid[16];
} NvProcessorUuid;

typedef struct {
	u32 kind;
	u8 sysmem;
	u8 egm;
	u8 deviceDescendant;
	u64 pageSize;
	u8 contig;
	u64 physAddr;
	u64 size;
	NvProcessorUuid uuid;
} UvmGpuMemoryInfo;

typedef struct {
	u64 gpuPhysOffset;
	u64 pageSize;
	u64 alignment;
	u8 bContiguousPhysAlloc;
	u8 bMemGrowsDown;
	u8 bPersistentVidmem;
	u32 hPhysHandle;
	u8 bUnprotected;
} UvmGpuAllocInfo;

typedef struct {
	u32 flags;
	u32 minimumSpeed;
	u64 physBegin, physEnd;
	u32 regionId;
	u64 alignment;
	u64 numPagesAllocated;
	u32 resultFlags;
} UvmPmaAllocationOptions;

/* Handed through, never looked into. */
typedef struct UvmGpuPlatformInfo UvmGpuPlatformInfo;
typedef struct UvmPlatformInfo UvmPlatformInfo;
typedef struct UvmGpuInfo UvmGpuInfo;
typedef struct UvmGpuAddressSpaceInfo UvmGpuAddressSpaceInfo;
typedef struct UvmPmaStatistics UvmPmaStatistics;

u32 nvUvmInterfaceRegisterGpu(const NvProcessorUuid *gpuUuid, UvmGpuPlatformInfo *gpuInfo);
void nvUvmInterfaceUnregisterGpu(const NvProcessorUuid *gpuUuid);
u32 nvUvmInterfaceSessionCreate(uvmGpuSessionHandle *session, UvmPlatformInfo *platformInfo);
u32 nvUvmInterfaceSessionDestroy(uvmGpuSessionHandle session);
u32 nvUvmInterfaceDeviceCreate(uvmGpuSessionHandle session, const UvmGpuInfo *pGpuInfo, const NvProcessorUuid *gpuUuid,
	uvmGpuDeviceHandle *device, u8 bCreateSmcPartition);
void nvUvmInterfaceDeviceDestroy(uvmGpuDeviceHandle device);
u32 nvUvmInterfaceDupAddressSpace(uvmGpuDeviceHandle device, u32 hUserClient, u32 hUserVASpace,
	uvmGpuAddressSpaceHandle *vaSpace, UvmGpuAddressSpaceInfo *vaSpaceInfo);
void nvUvmInterfaceAddressSpaceDestroy(uvmGpuAddressSpaceHandle vaSpace);
u32 nvUvmInterfaceMemoryAllocFB(
	uvmGpuAddressSpaceHandle vaSpace, u64 length, UvmGpuPointer *gpuPointer, UvmGpuAllocInfo *allocInfo);
void nvUvmInterfaceMemoryFree(uvmGpuAddressSpaceHandle vaSpace, UvmGpuPointer gpuPointer);
u32 nvUvmInterfaceGetPmaObject(uvmGpuDeviceHandle device, void **pPma, const UvmPmaStatistics **pPmaPubStats);
u32 nvUvmInterfacePmaAllocPages(
	void *pPma, u64 pageCount, u64 pageSize, UvmPmaAllocationOptions *pPmaAllocOptions, u64 *pPages);
void nvUvmInterfacePmaFreePages(void *pPma, u64 *pPages, u64 pageCount, u64 pageSize, u32 flags);
u32 nvUvmInterfaceDupMemory(
	uvmGpuDeviceHandle device, u32 hClient, u32 hPhysMemory, u32 *hDupMemory, UvmGpuMemoryInfo *pGpuMemoryInfo);
u32 nvUvmInterfaceFreeDupedHandle(uvmGpuDeviceHandle device, u32 hPhysHandle);

/* Only here: the layouts of the loaded version, so that nvidia-uvm.ko needs no tables of its own. */
const struct nv_abi *fake_abi(void);

#endif
