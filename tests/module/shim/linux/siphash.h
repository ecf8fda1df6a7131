/* SPDX-License-Identifier: Apache-2.0 */
/* A hash of two numbers, of which the tables need no more than that its upper bits are spread. */
#ifndef SHIM_SIPHASH_H
#define SHIM_SIPHASH_H

#include "types.h"

typedef struct {
	u64 key[2];
} siphash_key_t;

static inline u64 shim_mix(u64 value)
{
	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ull;
	value = (value ^ value >> 27) * 0x94d049bb133111ebull;
	return value ^ value >> 31;
}

static inline u64 siphash_2u64(u64 first, u64 second, const siphash_key_t *secret)
{
	return shim_mix(shim_mix(first ^ secret->key[0]) + second);
}

#endif
