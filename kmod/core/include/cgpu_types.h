/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Integer types and the few library functions the core needs, in kernel and user space alike. */
#ifndef CGPU_TYPES_H
#define CGPU_TYPES_H

#ifdef __KERNEL__
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/types.h>
#else
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;
#endif

#endif
