/* SPDX-License-Identifier: Apache-2.0 */
/* Offset of the driver's answer in the structure of a call. */
#ifndef CGPU_TEST_STATUS_AT_H
#define CGPU_TEST_STATUS_AT_H

#include "nv_abi.h"

static inline uint32_t status_at(const struct nv_abi *abi, uint32_t nr, uint32_t bytes)
{
	switch (nr) {
	case NV_ESC_RM_ALLOC:
		return bytes == abi->NVOS64_PARAMETERS.bytes ? abi->NVOS64_PARAMETERS.status :
							       abi->NVOS21_PARAMETERS.status;
	case NV_ESC_RM_ALLOC_MEMORY:
		return abi->nv_ioctl_nvos02_parameters_with_fd.params_status;
	case NV_ESC_RM_ALLOC_OBJECT:
		return 16;
	case NV_ESC_RM_VID_HEAP_CONTROL:
		return abi->NVOS32_PARAMETERS.status;
	case NV_ESC_RM_CONTROL:
		return abi->NVOS54_PARAMETERS.status;
	case NV_ESC_RM_DUP_OBJECT:
		return abi->NVOS55_PARAMETERS.status;
	case NV_ESC_RM_MAP_MEMORY_DMA:
		return abi->NVOS46_PARAMETERS.status;
	case NV_ESC_RM_UNMAP_MEMORY_DMA:
		return abi->NVOS47_PARAMETERS.status;
	case NV_ESC_RM_SHARE:
		return abi->NVOS57_PARAMETERS.status;
	default:
		return abi->NVOS00_PARAMETERS.status;
	}
}

#endif
