/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef FAKE_STDLIB_H
#define FAKE_STDLIB_H

#include <linux/kernel.h>
#include <linux/slab.h>

/* The card's tables are larger than kmalloc likes. */
#define malloc(size) kvmalloc((size), GFP_KERNEL)
#define calloc(count, size) kvcalloc((count), (size), GFP_KERNEL)
#define free(pointer) kvfree(pointer)
#define strtoul(text, end, base) simple_strtoul((text), (end), (base))

#endif
