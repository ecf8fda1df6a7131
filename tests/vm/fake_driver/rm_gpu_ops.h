/* SPDX-License-Identifier: GPL-2.0 */
/* The binary half's side of nv_uvm_interface.c: rm_gpu_ops_ functions, one for each. */
#ifndef FAKE_RM_GPU_OPS_H
#define FAKE_RM_GPU_OPS_H

#include "driver.h"
#include "nv_uvm_interface.h"

/* A client of the kernel's own with a device in it. */
struct uvmGpuDevice {
	u32 card;
	u32 client;
	u32 device;
};

struct uvmGpuAddressSpace {
	struct uvmGpuDevice *device;
	u32 handle;
};

/* Makes both on the card that is named. The lock is held. */
u32 rm_gpu_ops_fill_device(struct uvmGpuDevice *device);
u32 rm_gpu_ops_create_device(const NvProcessorUuid *uuid, struct uvmGpuDevice **device);
void rm_gpu_ops_destroy_device(struct uvmGpuDevice *device);
u32 rm_gpu_ops_dup_address_space(
	struct uvmGpuDevice *device, u32 client, u32 handle, struct uvmGpuAddressSpace **space);
void rm_gpu_ops_destroy_address_space(struct uvmGpuAddressSpace *space);
u32 rm_gpu_ops_dup_memory(struct uvmGpuDevice *device, u32 client, u32 handle, u32 *copy, UvmGpuMemoryInfo *info);
u32 rm_gpu_ops_free_duped_handle(struct uvmGpuDevice *device, u32 handle);
u32 rm_gpu_ops_memory_alloc_fb(struct uvmGpuAddressSpace *space, u64 length, u64 *pointer, UvmGpuAllocInfo *info);
void rm_gpu_ops_memory_free(struct uvmGpuAddressSpace *space, u64 pointer);
u32 rm_gpu_ops_pma_alloc_pages(struct card *card, u64 count, u64 page_size, u64 *pages);
void rm_gpu_ops_pma_free_pages(struct card *card, u64 count, u64 page_size);

#endif
