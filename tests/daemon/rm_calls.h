/* SPDX-License-Identifier: Apache-2.0 */
/* Plain driver calls for the programs of these tests. Handles are given, never asked for. */
#ifndef RM_CALLS_H
#define RM_CALLS_H

#include <fcntl.h>
#include <linux/ioctl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "fields.h"

#define DEVICE 0x10u

struct rm {
	const struct nv_abi *abi;
	int ctl;
	uint32_t client;
};

static inline int rm_ioctl(const struct rm *rm, uint32_t nr, void *data, uint32_t bytes)
{
	return ioctl(rm->ctl, _IOC(3u, NV_IOCTL_MAGIC, nr, bytes), data);
}

static inline void alloc_fill(
	const struct rm *rm, uint8_t *data, uint32_t parent, uint32_t handle, uint32_t class, const uint8_t *params)
{
	const struct nv_layout_NVOS21_PARAMETERS *at = &rm->abi->NVOS21_PARAMETERS;
	uint64_t pointer = (uintptr_t)params;

	put32(data, at->hRoot, rm->client);
	put32(data, at->hObjectParent, parent);
	put32(data, at->hObjectNew, handle);
	put32(data, at->hClass, class);
	memcpy(data + at->pAllocParms, &pointer, sizeof(pointer));
}

static inline uint32_t alloc_call(const struct rm *rm, uint8_t *data)
{
	const struct nv_layout_NVOS21_PARAMETERS *at = &rm->abi->NVOS21_PARAMETERS;

	return rm_ioctl(rm, NV_ESC_RM_ALLOC, data, at->bytes) < 0 ? ~0u : get32(data, at->status);
}

static inline void memory_fill(const struct rm *rm, uint8_t *params, uint64_t bytes)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &rm->abi->NV_MEMORY_ALLOCATION_PARAMS;

	put32(params, at->owner, 1);
	put32(params, at->attr, NVOS32_ATTR_PAGE_SIZE_BIG << NVOS32_ATTR_PAGE_SIZE_SHIFT);
	memcpy(params + at->size, &bytes, sizeof(bytes));
}

static inline void free_fill(const struct rm *rm, uint8_t *data, uint32_t handle)
{
	put32(data, rm->abi->NVOS00_PARAMETERS.hRoot, rm->client);
	put32(data, rm->abi->NVOS00_PARAMETERS.hObjectOld, handle);
}

static inline uint32_t free_call(const struct rm *rm, uint8_t *data)
{
	const struct nv_layout_NVOS00_PARAMETERS *at = &rm->abi->NVOS00_PARAMETERS;

	return rm_ioctl(rm, NV_ESC_RM_FREE, data, at->bytes) < 0 ? ~0u : get32(data, at->status);
}

/* handle: 0 leaves it to the driver, and is what was chosen then. */
static inline uint32_t rm_alloc(
	const struct rm *rm, uint32_t parent, uint32_t *handle, uint32_t class, const uint8_t *params)
{
	uint8_t data[64] = { 0 };
	uint32_t status;

	alloc_fill(rm, data, parent, *handle, class, params);
	status = alloc_call(rm, data);
	*handle = get32(data, rm->abi->NVOS21_PARAMETERS.hObjectNew);
	return status;
}

static inline uint32_t rm_device(const struct rm *rm, uint32_t handle)
{
	uint8_t params[128] = { 0 };

	return rm_alloc(rm, rm->client, &handle, NV01_DEVICE_0, params);
}

static inline uint32_t rm_memory(const struct rm *rm, uint32_t handle, uint64_t bytes)
{
	uint8_t params[256] = { 0 };

	memory_fill(rm, params, bytes);
	return rm_alloc(rm, DEVICE, &handle, NV01_MEMORY_LOCAL_USER, params);
}

static inline uint32_t rm_dup(const struct rm *rm, uint32_t to, uint32_t source, uint32_t object)
{
	const struct nv_layout_NVOS55_PARAMETERS *at = &rm->abi->NVOS55_PARAMETERS;
	uint8_t data[64] = { 0 };

	put32(data, at->hClient, rm->client);
	put32(data, at->hParent, DEVICE);
	put32(data, at->hObject, to);
	put32(data, at->hClientSrc, source);
	put32(data, at->hObjectSrc, object);
	return rm_ioctl(rm, NV_ESC_RM_DUP_OBJECT, data, at->bytes) < 0 ? ~0u : get32(data, at->status);
}

static inline uint32_t rm_free(const struct rm *rm, uint32_t handle)
{
	uint8_t data[64] = { 0 };

	free_fill(rm, data, handle);
	return free_call(rm, data);
}

/* The control node alone. 0 when all is well. */
static inline int rm_control_node(struct rm *rm, const char *directory)
{
	char path[4096];
	int i;

	rm->client = 0;
	rm->abi = &nv_abi_layouts[0];
	for (i = 0; i < (int)nv_abi_version_count; i++)
		if (nv_abi_versions[i].major <= 580)
			rm->abi = &nv_abi_layouts[nv_abi_versions[i].layout];
	snprintf(path, sizeof(path), "%s/nvidiactl", directory);
	rm->ctl = open(path, O_RDWR);
	return rm->ctl < 0;
}

/* A client with one device. 0 when all is well. */
static inline int rm_open(struct rm *rm, const char *directory)
{
	return rm_control_node(rm, directory) || rm_alloc(rm, 0, &rm->client, NV01_ROOT_CLIENT, NULL) ||
		rm_device(rm, DEVICE);
}

#endif
