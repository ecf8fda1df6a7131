// SPDX-License-Identifier: Apache-2.0
/* Memory of this process that the card may use, as cudaMallocHost and cudaHostRegister ask for it. */
#include <stdlib.h>

#include "rm_client.h"

#define PAGE 4096u
/* The driver pins only cached pages, contiguous or not, and maps them nowhere by itself. */
#define HEAP_ATTR                                                                        \
	(NVOS32_ATTR_LOCATION_PCI << NVOS32_ATTR_LOCATION_SHIFT |                        \
		NVOS32_ATTR_PHYSICALITY_NONCONTIGUOUS << NVOS32_ATTR_PHYSICALITY_SHIFT | \
		NVOS32_ATTR_COHERENCY_CACHED << NVOS32_ATTR_COHERENCY_SHIFT)
#define CALL_FLAGS                                                                         \
	(NVOS02_FLAGS_LOCATION_PCI << NVOS02_FLAGS_LOCATION_SHIFT |                        \
		NVOS02_FLAGS_PHYSICALITY_NONCONTIGUOUS << NVOS02_FLAGS_PHYSICALITY_SHIFT | \
		NVOS02_FLAGS_COHERENCY_CACHED << NVOS02_FLAGS_COHERENCY_SHIFT |            \
		NVOS02_FLAGS_MAPPING_NO_MAP << NVOS02_FLAGS_MAPPING_SHIFT)

/* A descriptor of type 0 is an address. */
static uint32_t pin_by_heap(struct session *session, void *memory, struct grant *grant)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &session->settings->abi->NVOS32_PARAMETERS;
	struct rm_ioctl io = rm_heap_ioctl(
		session->settings->abi, session->client, session->device, NVOS32_FUNCTION_ALLOC_OS_DESCRIPTOR);
	uint32_t status;

	put32(io.data, at->data_AllocOsDesc_attr, HEAP_ATTR);
	put64(io.data, at->data_AllocOsDesc_descriptor, (uintptr_t)memory);
	put64(io.data, at->data_AllocOsDesc_limit, grant->size - 1);
	status = driver_make(session->settings, session->ctl, &io);
	grant->handle = get32(io.data, at->data_AllocOsDesc_hMemory);
	return status;
}

static uint32_t pin_by_call(struct session *session, void *memory, struct grant *grant)
{
	const struct nv_layout_nv_ioctl_nvos02_parameters_with_fd *at =
		&session->settings->abi->nv_ioctl_nvos02_parameters_with_fd;
	uint8_t data[64] = { 0 };
	uint32_t status;

	grant->handle = session->next_handle++;
	put32(data, at->params_hRoot, session->client);
	put32(data, at->params_hObjectParent, session->device);
	put32(data, at->params_hObjectNew, grant->handle);
	put32(data, at->params_hClass, NV01_MEMORY_SYSTEM_OS_DESCRIPTOR);
	put32(data, at->params_flags, CALL_FLAGS);
	put64(data, at->params_pMemory, (uintptr_t)memory);
	put64(data, at->params_limit, grant->size - 1);
	put32(data, at->fd, UINT32_MAX);
	status = driver_call(session->settings, session->card, NV_ESC_RM_ALLOC_MEMORY, data, at->bytes);
	return status != NV_OK ? status : get32(data, at->params_status);
}

uint32_t memory_pin(struct session *session, uint64_t size, struct grant *grant)
{
	void *memory = aligned_alloc(PAGE, (size + PAGE - 1) / PAGE * PAGE);
	uint32_t status;

	*grant = (struct grant){ .size = size };
	/* The memory is never freed: the driver has it until this process ends. */
	if (!memory)
		return RM_ERRNO;
	status = session->settings->via >= VIA_HEAP ? pin_by_heap(session, memory, grant) :
						      pin_by_call(session, memory, grant);
	return memory_hold(session, status, grant->handle, grant->size);
}
