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

#include "nv_abi.h"

#define DEVICE 0x10u

struct rm {
	const struct nv_abi *abi;
	int ctl;
	uint32_t client;
};

static inline void put32(uint8_t *data, uint32_t at, uint32_t value)
{
	memcpy(data + at, &value, sizeof(value));
}

static inline uint32_t get32(const uint8_t *data, uint32_t at)
{
	uint32_t value;

	memcpy(&value, data + at, sizeof(value));
	return value;
}

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

/* A client with one device. 0 when all is well. */
static inline int rm_open(struct rm *rm, const char *directory)
{
	uint8_t data[64] = { 0 }, params[128] = { 0 };
	char path[4096];
	int i;

	rm->client = 0;
	rm->abi = &nv_abi_layouts[0];
	for (i = 0; i < (int)nv_abi_version_count; i++)
		if (nv_abi_versions[i].major <= 580)
			rm->abi = &nv_abi_layouts[nv_abi_versions[i].layout];
	snprintf(path, sizeof(path), "%s/nvidiactl", directory);
	rm->ctl = open(path, O_RDWR);
	if (rm->ctl < 0)
		return 1;
	alloc_fill(rm, data, 0, 0, NV01_ROOT_CLIENT, NULL);
	if (alloc_call(rm, data))
		return 1;
	rm->client = get32(data, rm->abi->NVOS21_PARAMETERS.hObjectNew);
	alloc_fill(rm, data, rm->client, DEVICE, NV01_DEVICE_0, params);
	return alloc_call(rm, data) != 0;
}

#endif
