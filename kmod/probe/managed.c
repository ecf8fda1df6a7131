// SPDX-License-Identifier: Apache-2.0
/* Managed memory, as cudaMallocManaged has it: a shared mapping of nvidia-uvm whose offset is its own address. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "probe.h"

#define PIECE (2ul << 20) /* UVM_CHUNK_SIZE_MAX, kernel-open/nvidia-uvm/uvm_pmm_gpu.h */

static uint32_t initialise(struct probe *probe)
{
	const struct nv_layout_UVM_INITIALIZE_PARAMS *at = &nv_abi_layouts[0].UVM_INITIALIZE_PARAMS;
	uint8_t params[32] = { 0 };

	probe->uvm = driver_open(&probe->settings, "nvidia-uvm");
	if (probe->uvm < 0)
		return RM_ERRNO;
	return ioctl(probe->uvm, UVM_INITIALIZE, params) < 0 ? RM_ERRNO : get32(params, at->rmStatus);
}

/* Reserve unused addresses, at the start of a piece. */
static uint8_t *reserve(uint64_t size)
{
	uint8_t *all = mmap(NULL, size + PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uintptr_t start = ((uintptr_t)all + PIECE - 1) / PIECE * PIECE;

	return all == MAP_FAILED ? NULL : all + (start - (uintptr_t)all);
}

static uint32_t map(struct probe *probe, uint64_t size)
{
	struct mapping *mapping = &probe->mapping[probe->mappings];
	uint8_t *start = reserve(size);

	if (!start)
		return RM_ERRNO;
	if (mmap(start, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, probe->uvm, (off_t)(uintptr_t)start) ==
		MAP_FAILED)
		return RM_ERRNO;
	*mapping = (struct mapping){ .start = start, .size = size };
	probe->mappings++;
	return NV_OK;
}

uint32_t step_managed(struct probe *probe, const char *value)
{
	uint32_t status = NV_OK;
	uint64_t size;

	if (!parse_size(&value, &size) || *value)
		return NOT_UNDERSTOOD;
	if (probe->uvm < 0)
		status = initialise(probe);
	if (status == NV_OK && probe->mappings == PROBE_MAX_MAPPINGS) {
		errno = ENOSPC;
		status = RM_ERRNO;
	}
	if (status == NV_OK)
		status = map(probe, size);
	return report(status, "managed %llu", LLU(size));
}

/* The last one; NV_OK when there is none. */
uint32_t step_unmanaged(struct probe *probe, const char *value)
{
	uint32_t status = NV_OK;
	struct mapping *last;

	(void)value;
	if (probe->mappings > 0) {
		last = &probe->mapping[--probe->mappings];
		status = munmap(last->start, last->size) < 0 ? RM_ERRNO : NV_OK;
	}
	return report(status, "unmanaged left=%zu", probe->mappings);
}
