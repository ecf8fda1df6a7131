/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Files that containers' memory is mapped by. NV_ESC_RM_MAP_MEMORY and NV_ESC_RM_ALLOC_MEMORY note in a file what mmap(2) of
 * it maps, for good: an address in the card's window BAR1, or the driver's pointer to memory of the host (nv_alloc_t). When
 * the memory is unmapped or freed, the driver takes back neither that note nor what is mapped of the window
 * (kernel-open/nvidia/nv-usermap.c, nv-mmap.c and os-usermap.c, 515 to 595): the file would map what is there next, as a rule
 * another container's memory. So the file ends with the memory: it is not mapped any more, and the window is unmapped.
 * A mapping of the host's memory keeps that memory by itself.
 *
 * The driver names a mapping that it ends by its address alone, which a process may change to any. So such a change is
 * noted here and kept from the driver, which knows mappings by their places in the window for good; and calls on the
 * window come in the container's order, as its frees do.
 */
#ifndef CGPU_KM_MAPPINGS_H
#define CGPU_KM_MAPPINGS_H

#include <linux/fs.h>

#include "mappings/table.h"
#include "probes/files.h"
#include "probes/task_call.h"

/* --- end.c --- */

void mapping_end(struct mapping *mapping);
/* Take the window from all processes that have the file mapped, once it has ended. */
void mapping_unmap(struct mapping *mapping);

#endif
