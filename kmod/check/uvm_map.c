// SPDX-License-Identifier: Apache-2.0
/* Memory that UVM maps, as for each cudaMalloc: it stays until it is unmapped, also without its handle. */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

#define PIECE (2ull << 20)
#define BYTES (4ull * PIECE)
#define SPAN (BYTES + PIECE)
/* UVM may allocate and free so much for page tables meanwhile. */
#define SLACK (2ull * PIECE)
/* Start and length of CUDA's address spaces. */
#define SPACE_FROM 0x1000ull
#define SPACE_BYTES 0x1fffffb000000ull

static u32 initialise(struct session *session)
{
	u8 data[128] = { 0 };
	u32 status;

	session->uvm = node_open(session->driver, "nvidia-uvm");
	if (session->uvm < 0)
		return CALL_ERRNO | (u32)errno;
	status = UVM(session, session->uvm, INITIALIZE, data);
	if (status != NV_OK || !session->abi->UVM_MM_INITIALIZE_PARAMS.bytes)
		return status;
	session->uvm_mm = node_open(session->driver, "nvidia-uvm");
	if (session->uvm_mm < 0)
		return CALL_ERRNO | (u32)errno;
	memset(data, 0, sizeof(data));
	put32(data, session->abi->UVM_MM_INITIALIZE_PARAMS.uvmFd, (u32)session->uvm);
	status = UVM(session, session->uvm_mm, MM_INITIALIZE, data);
	return status == NV_WARN_NOTHING_TO_DO ? NV_OK : status;
}

static u32 make_space(struct session *session)
{
	const struct nv_layout_NV_VASPACE_ALLOCATION_PARAMETERS *at = &session->abi->NV_VASPACE_ALLOCATION_PARAMETERS;
	u8 *params = rm_params(session, at->bytes);

	put32(params, at->flags,
		NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED | NV_VASPACE_ALLOCATION_FLAGS_ENABLE_PAGE_FAULTING);
	put64(params, at->vaBase, SPACE_FROM);
	put64(params, at->vaSize, SPACE_BYTES);
	session->space = session->next_handle++;
	return rm_alloc(session, VIA_RM64, session->device, FERMI_VASPACE_A, at->bytes, &session->space);
}

static u32 register_card(struct session *session)
{
	const struct nv_layout_UVM_REGISTER_GPU_PARAMS *at = &session->abi->UVM_REGISTER_GPU_PARAMS;
	/* The driver may write these too. */
	const struct span also[] = { { at->gpu_uuid, 16 }, { at->numaEnabled, 1 }, { at->numaNodeId, 4 }, { 0, 0 } };
	u8 data[128] = { 0 };

	memcpy(data + at->gpu_uuid, session->uuid, sizeof(session->uuid));
	put32(data, at->rmCtrlFd, (u32)session->ctl);
	put32(data, at->hClient, session->client);
	return call_uvm_writes(session, session->uvm, UVM_REGISTER_GPU, data, at->bytes, at->rmStatus, also);
}

static u32 register_space(struct session *session)
{
	const struct nv_layout_UVM_REGISTER_GPU_VASPACE_PARAMS *at = &session->abi->UVM_REGISTER_GPU_VASPACE_PARAMS;
	u8 data[128] = { 0 };

	memcpy(data + at->gpuUuid, session->uuid, sizeof(session->uuid));
	put32(data, at->rmCtrlFd, (u32)session->ctl);
	put32(data, at->hClient, session->client);
	put32(data, at->hVaSpace, session->space);
	return UVM(session, session->uvm, REGISTER_GPU_VASPACE, data);
}

static u32 create_range(struct session *session)
{
	const struct nv_layout_UVM_CREATE_EXTERNAL_RANGE_PARAMS *at = &session->abi->UVM_CREATE_EXTERNAL_RANGE_PARAMS;
	u8 data[128] = { 0 }, *area;

	/* Addresses that nothing else of this process uses. */
	area = mmap(NULL, SPAN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		return CALL_ERRNO | (u32)errno;
	session->range = (struct range){ area, SPAN, ((uintptr_t)area + PIECE - 1) / PIECE * PIECE, BYTES };
	put64(data, at->base, session->range.base);
	put64(data, at->length, BYTES);
	return UVM(session, session->uvm, CREATE_EXTERNAL_RANGE, data);
}

static u32 map_from(struct session *session, u64 offset)
{
	const __auto_type at = &session->abi->UVM_MAP_EXTERNAL_ALLOCATION_PARAMS;
	static u8 data[16384];

	memset(data, 0, sizeof(data));
	put64(data, at->base, session->range.base);
	put64(data, at->length, BYTES);
	put64(data, at->offset, offset);
	put64(data, at->gpuAttributesCount, 1);
	memcpy(data + at->perGpuAttributes + session->abi->UvmGpuMappingAttributes.gpuUuid, session->uuid,
		sizeof(session->uuid));
	put32(data, at->rmCtrlFd, (u32)session->ctl);
	put32(data, at->hClient, session->client);
	put32(data, at->hMemory, session->memory.handle);
	return UVM(session, session->uvm, MAP_EXTERNAL_ALLOCATION, data);
}

static u32 map(struct session *session)
{
	return map_from(session, 0);
}

/* The driver has to refuse a mapping beyond the end of the memory. */
static u32 map_beyond(struct session *session)
{
	u32 status = map_from(session, PIECE);

	if (status == NV_OK)
		return call_unlike(session, "was accepted");
	return call_refused(status, 0) ? NV_OK : status;
}

static u32 unmap(struct session *session)
{
	const struct nv_layout_UVM_UNMAP_EXTERNAL_PARAMS *at = &session->abi->UVM_UNMAP_EXTERNAL_PARAMS;
	u8 data[128] = { 0 };

	put64(data, at->base, session->range.base);
	put64(data, at->length, BYTES);
	memcpy(data + at->gpuUuid, session->uuid, sizeof(session->uuid));
	return UVM(session, session->uvm, UNMAP_EXTERNAL, data);
}

/* Gives back all that prepare() has made. */
static void clean(struct session *session)
{
	if (session->uvm_mm >= 0)
		close(session->uvm_mm);
	if (session->uvm >= 0)
		close(session->uvm);
	if (session->space)
		rm_free(session, session->space);
	session->uvm = session->uvm_mm = -1;
	session->space = 0;
}

static u32 prepare(struct session *session)
{
	u32 status = initialise(session);

	if (status == NV_OK)
		status = make_space(session);
	if (status == NV_OK)
		status = register_card(session);
	return status != NV_OK ? status : register_space(session);
}

static u32 forget_card(struct session *session)
{
	const struct nv_abi *abi = session->abi;
	u8 data[128] = { 0 };
	u32 status;

	memcpy(data + abi->UVM_UNREGISTER_GPU_VASPACE_PARAMS.gpuUuid, session->uuid, sizeof(session->uuid));
	status = UVM(session, session->uvm, UNREGISTER_GPU_VASPACE, data);
	if (status != NV_OK)
		return status;
	memset(data, 0, sizeof(data));
	memcpy(data + abi->UVM_UNREGISTER_GPU_PARAMS.gpu_uuid, session->uuid, sizeof(session->uuid));
	return UVM(session, session->uvm, UNREGISTER_GPU, data);
}

static enum verdict map_and_drop(struct session *session)
{
	static const struct stage unmapped[] = {
		{ "the range", create_range, false },
		{ "the allocation", memory_take, true },
		{ "a mapping beyond its end", map_beyond, true },
		{ "the mapping", map, true },
		{ "the free of the handle", memory_give, true },
		{ "the unmapping", unmap, false },
		{ "the free of the range", session_free_range, false },
	};
	static const struct stage freed[] = {
		{ "the range", create_range, false },
		{ "the allocation", memory_take, true },
		{ "the mapping", map, true },
		{ "the free of the handle", memory_give, true },
		{ "the free of the mapped range", session_free_range, false },
	};
	enum verdict verdict = STAGES(session, unmapped);

	return verdict == PASSED ? STAGES(session, freed) : verdict;
}

enum verdict check_uvm_map(struct session *session)
{
	enum verdict verdict;
	u32 status = prepare(session);

	session->request = (struct request){ VIA_RM64, NVOS32_ATTR_PAGE_SIZE_HUGE, BYTES };
	session->slack = SLACK;
	if (status == NV_OK)
		verdict = map_and_drop(session);
	else
		verdict = verdict_failed(session, "a card's address space: %s", call_text(session, status));
	session_clean(session);
	status = verdict == PASSED ? forget_card(session) : NV_OK;
	if (status != NV_OK)
		verdict = verdict_failed(session, "the end of it: %s", call_text(session, status));
	clean(session);
	session->slack = 0;
	return verdict;
}
