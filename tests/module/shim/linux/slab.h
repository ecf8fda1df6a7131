/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's memory, from the host's; it never runs out. */
#ifndef SHIM_SLAB_H
#define SHIM_SLAB_H

#include <stdlib.h>

#define GFP_KERNEL 0
#define __GFP_NOFAIL 0
#define kzalloc(bytes, flags) calloc(1, (bytes) + (flags))
#define kvzalloc kzalloc
#define kfree free
#define kvfree free

#endif
