/* SPDX-License-Identifier: Apache-2.0 */
#include "slab.h"

#define PAGE_MASK (~4095ull)
