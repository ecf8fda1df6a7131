/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Bucket of a hash that a record falls into. */
#ifndef CGPU_HASH_H
#define CGPU_HASH_H

#include "cgpu_types.h"

static inline u64 core_rotate(u64 value, u32 bits)
{
	return value << bits | value >> (64 - bits);
}

static inline void core_sip_round(u64 v[4])
{
	v[0] += v[1];
	v[1] = core_rotate(v[1], 13) ^ v[0];
	v[0] = core_rotate(v[0], 32);
	v[2] += v[3];
	v[3] = core_rotate(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = core_rotate(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = core_rotate(v[1], 17) ^ v[2];
	v[2] = core_rotate(v[2], 32);
}

/*
 * Containers choose handles, and everybody waits while a chain is walked. So this is SipHash-1-3 for a message of one
 * word, without the length at its end: which handles meet cannot be worked out without the key. A multiplication by a
 * secret number would be cheaper, but differences that it maps to few buckets can be found by trying.
 */
static inline u32 core_hash(u64 key, u32 a, u32 b)
{
	u64 word = (u64)b << 32 | a;
	u64 v[4] = { key ^ 0x736f6d6570736575ull, 0x646f72616e646f6dull, key ^ 0x6c7967656e657261ull,
		word ^ 0x7465646279746573ull };

	core_sip_round(v);
	v[0] ^= word;
	v[2] ^= 0xff;
	core_sip_round(v);
	core_sip_round(v);
	core_sip_round(v);
	return (u32)(v[0] ^ v[1] ^ v[2] ^ v[3]);
}

#endif
