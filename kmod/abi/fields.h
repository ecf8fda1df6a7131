/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Fields of the driver's structures, at the offsets of nv_abi.h. A field that a driver version lacks (NV_ABI_ABSENT) reads as
 * 0, and writes to it are ignored. generate.py puts this file beside nv_abi.h, where every build finds it, the kernel's too.
 */
#ifndef NV_FIELDS_H
#define NV_FIELDS_H

#ifdef __KERNEL__
#include <linux/string.h>
#else
#include <string.h>
#endif

#include "nv_abi.h"

static inline uint16_t get16(const uint8_t *data, uint32_t at)
{
	uint16_t value = 0;

	if (at != NV_ABI_ABSENT)
		memcpy(&value, data + at, sizeof(value));
	return value;
}

static inline uint32_t get32(const uint8_t *data, uint32_t at)
{
	uint32_t value = 0;

	if (at != NV_ABI_ABSENT)
		memcpy(&value, data + at, sizeof(value));
	return value;
}

static inline uint64_t get64(const uint8_t *data, uint32_t at)
{
	uint64_t value = 0;

	if (at != NV_ABI_ABSENT)
		memcpy(&value, data + at, sizeof(value));
	return value;
}

static inline void put16(uint8_t *data, uint32_t at, uint16_t value)
{
	if (at != NV_ABI_ABSENT)
		memcpy(data + at, &value, sizeof(value));
}

static inline void put32(uint8_t *data, uint32_t at, uint32_t value)
{
	if (at != NV_ABI_ABSENT)
		memcpy(data + at, &value, sizeof(value));
}

static inline void put64(uint8_t *data, uint32_t at, uint64_t value)
{
	if (at != NV_ABI_ABSENT)
		memcpy(data + at, &value, sizeof(value));
}

#endif
