// SPDX-License-Identifier: Apache-2.0
/* What the driver accepts of a caller's own memory (escape.c, osmemdesc.c of NVIDIA's open driver, 515.43.04 to 595.45.04). */
#include "sim.h"

#define FLAG(flags, field) (((flags) >> NVOS02_FLAGS_##field##_SHIFT) & NVOS02_FLAGS_##field##_MASK)
#define ATTR(attr, field) (((attr) >> NVOS32_ATTR_##field##_SHIFT) & NVOS32_ATTR_##field##_MASK)

/* RmAllocOsDescriptor(), then osCreateOsDescriptorFromPageArray(): pages that are cached, anywhere, not mapped again. */
uint32_t pinned_check_flags(uint32_t flags)
{
	uint32_t coherency = FLAG(flags, COHERENCY);

	if (FLAG(flags, LOCATION) != NVOS02_FLAGS_LOCATION_PCI || FLAG(flags, MAPPING) != NVOS02_FLAGS_MAPPING_NO_MAP)
		return NV_ERR_INVALID_FLAGS;
	if (coherency != NVOS02_FLAGS_COHERENCY_CACHED && coherency != NVOS02_FLAGS_COHERENCY_WRITE_BACK)
		return NV_ERR_INVALID_FLAGS;
	return FLAG(flags, PHYSICALITY) == NVOS02_FLAGS_PHYSICALITY_CONTIGUOUS ? NV_ERR_INVALID_FLAGS : NV_OK;
}

/* The same of the heap's attributes; what is "default" there means contiguous (RmDeprecatedConvertOs32ToOs02Flags()). */
uint32_t pinned_check_attr(uint32_t attr)
{
	uint32_t coherency = ATTR(attr, COHERENCY);

	if (coherency != NVOS32_ATTR_COHERENCY_CACHED && coherency != NVOS32_ATTR_COHERENCY_WRITE_BACK)
		return NV_ERR_INVALID_FLAGS;
	return ATTR(attr, PHYSICALITY) == NVOS32_ATTR_PHYSICALITY_NONCONTIGUOUS ? NV_OK : NV_ERR_INVALID_FLAGS;
}

/* RmCreateOsDescriptor() */
uint32_t pinned_check_range(uint64_t address, uint64_t limit)
{
	if (address % SIM_PAGE != 0)
		return NV_ERR_NOT_SUPPORTED;
	return limit == UINT64_MAX ? NV_ERR_INVALID_LIMIT : NV_OK;
}
