/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CGPU_SIM_FIELDS_H
#define CGPU_SIM_FIELDS_H

#include <stdint.h>
#include <string.h>

#include "nv_abi.h"

/* Fields of a structure at table offsets; a field that this driver version lacks reads as 0 and ignores writes. */
static inline uint16_t get16(const uint8_t *data, uint16_t at)
{
	uint16_t value = 0;

	if (at != NV_ABI_ABSENT)
		memcpy(&value, data + at, sizeof(value));
	return value;
}

static inline uint32_t get32(const uint8_t *data, uint16_t at)
{
	uint32_t value = 0;

	if (at != NV_ABI_ABSENT)
		memcpy(&value, data + at, sizeof(value));
	return value;
}

static inline uint64_t get64(const uint8_t *data, uint16_t at)
{
	uint64_t value = 0;

	if (at != NV_ABI_ABSENT)
		memcpy(&value, data + at, sizeof(value));
	return value;
}

static inline void put16(uint8_t *data, uint16_t at, uint16_t value)
{
	if (at != NV_ABI_ABSENT)
		memcpy(data + at, &value, sizeof(value));
}

static inline void put32(uint8_t *data, uint16_t at, uint32_t value)
{
	if (at != NV_ABI_ABSENT)
		memcpy(data + at, &value, sizeof(value));
}

static inline void put64(uint8_t *data, uint16_t at, uint64_t value)
{
	if (at != NV_ABI_ABSENT)
		memcpy(data + at, &value, sizeof(value));
}

#endif
