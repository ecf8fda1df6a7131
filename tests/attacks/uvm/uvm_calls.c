// SPDX-License-Identifier: Apache-2.0
/* The calls, one function each. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client.h"
#include "uvm_probe.h"

#define FIRST_BASE 0x300000000000ull
#define UVM_MAP_EXTERNAL_SPARSE 0x4au /* kernel-open/nvidia-uvm/uvm_ioctl.h */

/* A call of nvidia-uvm: a bare number; the status lies in the structure. */
uint32_t uvm_call(int fd, uint32_t number, uint8_t *params, uint16_t status_at)
{
	if (syscall(SYS_ioctl, fd, (unsigned long)number, params) != 0)
		return RM_ERRNO;
	return get32(params, status_at);
}

uint32_t uvm_initialize(struct uvm *uvm, uint64_t flags)
{
	const struct nv_layout_UVM_INITIALIZE_PARAMS *at = &uvm->settings.abi->UVM_INITIALIZE_PARAMS;
	uint8_t params[16] = { 0 };
	int fd = driver_open(&uvm->settings, "nvidia-uvm");
	uint32_t status;

	put64(params, at->flags, flags);
	status = fd < 0 ? RM_ERRNO : uvm_call(fd, UVM_INITIALIZE, params, at->rmStatus);
	if (fd >= 0)
		close(fd);
	return status;
}

static uint32_t initialize(struct uvm *uvm)
{
	const struct nv_abi *abi = uvm->settings.abi;
	uint8_t params[16] = { 0 };
	uint32_t status;

	uvm->fd = driver_open(&uvm->settings, "nvidia-uvm");
	if (uvm->fd < 0)
		return RM_ERRNO;
	status = uvm_call(uvm->fd, UVM_INITIALIZE, params, abi->UVM_INITIALIZE_PARAMS.rmStatus);
	if (status != NV_OK || abi->UVM_MM_INITIALIZE_PARAMS.bytes == 0)
		return status;
	uvm->mm_fd = driver_open(&uvm->settings, "nvidia-uvm");
	memset(params, 0, sizeof(params));
	put32(params, abi->UVM_MM_INITIALIZE_PARAMS.uvmFd, (uint32_t)uvm->fd);
	return uvm_call(uvm->mm_fd, UVM_MM_INITIALIZE, params, abi->UVM_MM_INITIALIZE_PARAMS.rmStatus);
}

static uint32_t read_uuid(struct uvm *uvm)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_GID_INFO_PARAMS *at =
		&uvm->settings.abi->NV2080_CTRL_GPU_GET_GID_INFO_PARAMS;
	uint8_t params[512] = { 0 };
	uint32_t status;

	put32(params, at->flags,
		NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY << NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_SHIFT);
	status = session_control(
		&uvm->session, uvm->session.subdevice, NV2080_CTRL_CMD_GPU_GET_GID_INFO, params, at->bytes);
	memcpy(uvm->uuid, params + at->data, sizeof(uvm->uuid));
	return status;
}

static uint32_t register_gpu(struct uvm *uvm)
{
	const struct nv_layout_UVM_REGISTER_GPU_PARAMS *at = &uvm->settings.abi->UVM_REGISTER_GPU_PARAMS;
	uint8_t params[64] = { 0 };

	memcpy(params + at->gpu_uuid, uvm->uuid, sizeof(uvm->uuid));
	put32(params, at->rmCtrlFd, (uint32_t)uvm->session.ctl);
	put32(params, at->hClient, uvm->session.client);
	return uvm_call(uvm->fd, UVM_REGISTER_GPU, params, at->rmStatus);
}

static uint32_t register_va_space(struct uvm *uvm)
{
	const struct nv_layout_UVM_REGISTER_GPU_VASPACE_PARAMS *at =
		&uvm->settings.abi->UVM_REGISTER_GPU_VASPACE_PARAMS;
	uint8_t params[64] = { 0 }, allocation[64] = { 0 };
	uint32_t status;

	/* The driver gives UVM no others. */
	put32(allocation, uvm->settings.abi->NV_VASPACE_ALLOCATION_PARAMETERS.flags,
		NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED | NV_VASPACE_ALLOCATION_FLAGS_ENABLE_PAGE_FAULTING);
	status = session_alloc(
		&uvm->session, uvm->session.device, FERMI_VASPACE_A, allocation, sizeof(allocation), &uvm->va_space);
	if (status != NV_OK)
		return status;
	memcpy(params + at->gpuUuid, uvm->uuid, sizeof(uvm->uuid));
	put32(params, at->rmCtrlFd, (uint32_t)uvm->session.ctl);
	put32(params, at->hClient, uvm->session.client);
	put32(params, at->hVaSpace, uvm->va_space);
	return uvm_call(uvm->fd, UVM_REGISTER_GPU_VASPACE, params, at->rmStatus);
}

/* Any card, by its name, without an address space on it. */
uint32_t uvm_register(struct uvm *uvm, const char *name)
{
	uint32_t status;
	unsigned int i;

	for (i = 0, name += 4; i < sizeof(uvm->uuid); i++, name += 2) {
		name += *name == '-';
		if (sscanf(name, "%2hhx", &uvm->uuid[i]) != 1)
			return NV_ERR_INVALID_ARGUMENT;
	}
	status = uvm->fd < 0 ? initialize(uvm) : NV_OK;
	return status == NV_OK ? register_gpu(uvm) : status;
}

uint32_t uvm_pageable(struct uvm *uvm, bool *pageable)
{
	const struct nv_layout_UVM_PAGEABLE_MEM_ACCESS_PARAMS *at = &uvm->settings.abi->UVM_PAGEABLE_MEM_ACCESS_PARAMS;
	uint8_t params[16] = { 0 };
	uint32_t status = uvm->fd < 0 ? initialize(uvm) : NV_OK;

	if (status == NV_OK)
		status = uvm_call(uvm->fd, UVM_PAGEABLE_MEM_ACCESS, params, at->rmStatus);
	*pageable = params[at->pageableMemAccess];
	return status;
}

uint32_t attach_card(struct uvm *uvm, uint32_t card)
{
	uint32_t ids[RM_MAX_GPUS], count, status = driver_cards(&uvm->settings, uvm->session.ctl, ids, &count);
	int ctl = driver_open(&uvm->settings, "nvidiactl");
	uint8_t list[sizeof(ids[0])];

	if (status != NV_OK)
		return status;
	if (ctl < 0 || card >= RM_MAX_GPUS)
		return RM_ERRNO;
	/* The file stays open, and the card with it. */
	put32(list, 0, ids[card]);
	return driver_call(&uvm->settings, ctl, NV_ESC_ATTACH_GPUS_TO_FD, list, sizeof(list));
}

uint32_t uvm_start(struct uvm *uvm)
{
	uint32_t status = initialize(uvm);

	if (status == NV_OK)
		status = read_uuid(uvm);
	if (status == NV_OK)
		status = register_gpu(uvm);
	return status == NV_OK ? register_va_space(uvm) : status;
}

uint32_t uvm_open(struct uvm *uvm, const struct settings *settings)
{
	uint32_t status;

	*uvm = (struct uvm){ .settings = *settings, .fd = -1, .mm_fd = -1, .dmabuf = -1 };
	session_init(&uvm->session, &uvm->settings, 0);
	status = session_open(&uvm->session);
	return status == NV_OK ? uvm_start(uvm) : status;
}

uint32_t uvm_range_at(struct uvm *uvm, uint64_t base, uint64_t length)
{
	const struct nv_layout_UVM_CREATE_EXTERNAL_RANGE_PARAMS *at =
		&uvm->settings.abi->UVM_CREATE_EXTERNAL_RANGE_PARAMS;
	uint8_t params[32] = { 0 };

	put64(params, at->base, base);
	put64(params, at->length, length);
	return uvm_call(uvm->fd, UVM_CREATE_EXTERNAL_RANGE, params, at->rmStatus);
}

uint32_t uvm_range(struct uvm *uvm, uint64_t length)
{
	struct range *range = &uvm->ranges[uvm->count];
	uint64_t base = uvm->count == 0 ? FIRST_BASE : range[-1].base + range[-1].length;
	uint32_t status;

	if (uvm->count == MAX_RANGES)
		return NV_ERR_INSUFFICIENT_RESOURCES;
	status = uvm_range_at(uvm, base, length);
	if (status == NV_OK) {
		*range = (struct range){ .base = base, .length = length };
		uvm->count++;
	}
	return status;
}

uint32_t uvm_map(struct uvm *uvm, uint32_t handle)
{
	return uvm_map_part(uvm, handle, 0, uvm->count ? uvm->ranges[uvm->count - 1].length : 0);
}

uint32_t uvm_map_part(struct uvm *uvm, uint32_t handle, uint64_t offset, uint64_t length)
{
	const struct nv_abi *abi = uvm->settings.abi;
	const struct nv_layout_UVM_MAP_EXTERNAL_ALLOCATION_PARAMS *at = &abi->UVM_MAP_EXTERNAL_ALLOCATION_PARAMS;
	struct range *range = &uvm->ranges[uvm->count - 1];
	uint8_t *params;
	uint32_t status;

	if (uvm->count == 0)
		return NV_ERR_INVALID_ADDRESS;
	params = calloc(1, at->bytes);
	if (!params)
		return RM_ERRNO;
	put64(params, at->base, range->base + offset);
	put64(params, at->length, length);
	memcpy(params + at->perGpuAttributes + abi->UvmGpuMappingAttributes.gpuUuid, uvm->uuid, sizeof(uvm->uuid));
	put64(params, at->gpuAttributesCount, 1);
	put32(params, at->rmCtrlFd, (uint32_t)uvm->session.ctl);
	put32(params, at->hClient, uvm->session.client);
	put32(params, at->hMemory, handle);
	status = uvm_call(uvm->fd, UVM_MAP_EXTERNAL_ALLOCATION, params, at->rmStatus);
	free(params);
	return status;
}

uint32_t uvm_p2p(struct uvm *uvm, uint64_t length, uint32_t handle)
{
	const struct nv_layout_UVM_ALLOC_DEVICE_P2P_PARAMS *at = &uvm->settings.abi->UVM_ALLOC_DEVICE_P2P_PARAMS;
	struct range *range = &uvm->ranges[uvm->count];
	uint64_t base = uvm->count == 0 ? FIRST_BASE : range[-1].base + range[-1].length;
	uint8_t params[64] = { 0 };
	uint32_t status;

	if (at->bytes == 0)
		return NV_ERR_NOT_SUPPORTED;
	if (uvm->count == MAX_RANGES)
		return NV_ERR_INSUFFICIENT_RESOURCES;
	put64(params, at->base, base);
	put64(params, at->length, length);
	memcpy(params + at->gpuUuid, uvm->uuid, sizeof(uvm->uuid));
	put32(params, at->rmCtrlFd, (uint32_t)uvm->session.ctl);
	put32(params, at->hClient, uvm->session.client);
	put32(params, at->hMemory, handle);
	status = uvm_call(uvm->fd, UVM_ALLOC_DEVICE_P2P, params, at->rmStatus);
	if (status == NV_OK) {
		*range = (struct range){ .base = base, .length = length };
		uvm->count++;
	}
	return status;
}

/* One of two calls whose parameters have the same form. */
static uint32_t call_on_range(struct uvm *uvm, uint32_t number)
{
	const struct nv_layout_UVM_UNMAP_EXTERNAL_PARAMS *at = &uvm->settings.abi->UVM_UNMAP_EXTERNAL_PARAMS;
	struct range *range = &uvm->ranges[uvm->count - 1];
	uint8_t params[64] = { 0 };

	if (uvm->count == 0)
		return NV_ERR_INVALID_ADDRESS;
	put64(params, at->base, range->base);
	put64(params, at->length, range->length);
	memcpy(params + at->gpuUuid, uvm->uuid, sizeof(uvm->uuid));
	return uvm_call(uvm->fd, number, params, at->rmStatus);
}

uint32_t uvm_unmap(struct uvm *uvm)
{
	return call_on_range(uvm, UVM_UNMAP_EXTERNAL);
}

uint32_t uvm_sparse(struct uvm *uvm)
{
	return call_on_range(uvm, UVM_MAP_EXTERNAL_SPARSE);
}

uint32_t uvm_free(struct uvm *uvm)
{
	const struct nv_layout_UVM_FREE_PARAMS *at = &uvm->settings.abi->UVM_FREE_PARAMS;
	uint8_t params[32] = { 0 };
	uint32_t status;

	if (uvm->count == 0)
		return NV_ERR_INVALID_ADDRESS;
	put64(params, at->base, uvm->ranges[uvm->count - 1].base);
	put64(params, at->length, uvm->ranges[uvm->count - 1].length);
	status = uvm_call(uvm->fd, UVM_FREE, params, at->rmStatus);
	if (status == NV_OK)
		uvm->count--;
	return status;
}

/* The offset of the mapping is its address. */
static bool map_at(const struct uvm *uvm, uint8_t *place, uint64_t size)
{
	return mmap(place, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, uvm->fd, (off_t)(uintptr_t)place) !=
		MAP_FAILED;
}

uint32_t uvm_pool(struct uvm *uvm, uint64_t size)
{
	const struct nv_layout_UVM_ALLOC_SEMAPHORE_POOL_PARAMS *at =
		&uvm->settings.abi->UVM_ALLOC_SEMAPHORE_POOL_PARAMS;
	uint8_t *place = client_reserve(size), *params = calloc(1, at->bytes);
	uint32_t status = RM_ERRNO;

	if (place && params) {
		put_pointer(params, at->base, place);
		put64(params, at->length, size);
		status = uvm_call(uvm->fd, UVM_ALLOC_SEMAPHORE_POOL, params, at->rmStatus);
	}
	free(params);
	if (status == NV_OK && !map_at(uvm, place, size))
		return RM_ERRNO;
	if (status == NV_OK)
		memset(place, 1, size);
	return status;
}

uint32_t uvm_managed(struct uvm *uvm, uint64_t size)
{
	const struct nv_layout_UVM_VALIDATE_VA_RANGE_PARAMS *at = &uvm->settings.abi->UVM_VALIDATE_VA_RANGE_PARAMS;
	uint8_t params[32] = { 0 };
	uint8_t *place = client_reserve(size);

	if (!place || !map_at(uvm, place, size))
		return RM_ERRNO;
	uvm->managed = place;
	uvm->managed_size = size;
	put_pointer(params, at->base, place);
	put64(params, at->length, size);
	return uvm_call(uvm->fd, UVM_VALIDATE_VA_RANGE, params, at->rmStatus);
}

uint32_t uvm_migrate(struct uvm *uvm)
{
	const struct nv_layout_UVM_MIGRATE_PARAMS *at = &uvm->settings.abi->UVM_MIGRATE_PARAMS;
	uint8_t params[96] = { 0 };

	put_pointer(params, at->base, uvm->managed);
	put64(params, at->length, uvm->managed_size);
	memcpy(params + at->destinationUuid, uvm->uuid, sizeof(uvm->uuid));
	return uvm_call(uvm->fd, UVM_MIGRATE, params, at->rmStatus);
}

uint32_t dmabuf_export(struct uvm *uvm, const struct buffer *buffer)
{
	const struct nv_layout_nv_ioctl_export_to_dma_buf_fd_t *at =
		&uvm->settings.abi->nv_ioctl_export_to_dma_buf_fd_t;
	const struct grant *grant = &uvm->granted[MAX_BUFFER - buffer->count];
	uint8_t *params = calloc(1, at->bytes);
	uint64_t size = 0;
	uint32_t status, i;

	if (!params)
		return RM_ERRNO;
	for (i = 0; i < buffer->count; i++) {
		put32(params + 4 * i, at->handles, grant[i].handle);
		put64(params + 8 * i, at->sizes, grant[i].size);
		size += grant[i].size;
	}
	put32(params, at->fd, buffer->again ? (uint32_t)uvm->dmabuf : UINT32_MAX);
	put32(params, at->hClient, uvm->session.client);
	put32(params, at->totalObjects, buffer->total);
	put32(params, at->numObjects, buffer->count);
	put32(params, at->index, buffer->index);
	/* In a larger buffer the rest is as large as all of these. */
	put64(params, at->totalSize, buffer->total == buffer->count ? size : 2 * size);
	status = driver_call(&uvm->settings, uvm->session.card, NV_ESC_EXPORT_TO_DMABUF_FD, params, at->bytes);
	if (status == NV_OK)
		status = get32(params, at->status);
	if (status == NV_OK && !buffer->again) {
		/* Tests look for the buffer at this descriptor. */
		uvm->dmabuf = fcntl((int)get32(params, at->fd), F_DUPFD_CLOEXEC, 100);
		close((int)get32(params, at->fd));
	}
	free(params);
	return status;
}
