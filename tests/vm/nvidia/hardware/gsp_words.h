/* SPDX-License-Identifier: GPL-2.0 */
/* Numbers of the driver's messages, wherever they lie. */
#ifndef GSP_WORDS_H
#define GSP_WORDS_H

#include <linux/string.h>
#include <linux/types.h>

static inline u32 get32(const u8 *at)
{
	u32 value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static inline void put16(u8 *at, u16 value)
{
	memcpy(at, &value, sizeof(value));
}

static inline void put32(u8 *at, u32 value)
{
	memcpy(at, &value, sizeof(value));
}

static inline void put64(u8 *at, u64 value)
{
	memcpy(at, &value, sizeof(value));
}

#endif
