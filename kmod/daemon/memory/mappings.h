/* SPDX-License-Identifier: Apache-2.0 */
/* What a process has mapped, as the kernel lists it. */
#ifndef CGPUD_MAPPINGS_H
#define CGPUD_MAPPINGS_H

#include "cgpu_types.h"

/* Called for each, in the order of their addresses; end is the first byte after it. */
typedef void (*mapping_fn)(void *ctx, u64 start, u64 end);

/*
 * Walk the shared mappings of files whose offset is their own address: UVM takes its node's mappings at no other
 * (kernel-open/nvidia-uvm/uvm.c, uvm_mmap), and hardly anything else looks so. fd: of /proc/PID/maps. -ESRCH: the process has
 * ended, or had no address space any more when the file was opened.
 */
int mappings_walk(int fd, mapping_fn each, void *ctx);

#endif
