/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's integer types, for sources of the module that tests compile for user space. */
#ifndef SHIM_TYPES_H
#define SHIM_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t u32;
typedef uint64_t u64;
#define U64_MAX UINT64_MAX

#endif
