/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mappings of memory into a client's process. NV_ESC_RM_MAP_MEMORY readies an open file, and mmap(2) of that maps it.
 * Files of FUSE cannot be mapped as a card's memory, so a mapper (tests/nvidia/preload) asks with pread(2) at
 * MAPPING_AT which file of the folder --memory to map instead, and where. This is the simulation's own.
 *
 * Such a card is for tests of programs, not of attackers: clients can open and shorten each other's files, and memory of a
 * client's process is reached by the process's number.
 */
#ifndef CGPU_SIM_MAPPING_H
#define CGPU_SIM_MAPPING_H

#include <stdint.h>

/* Bytes of the registers that a client maps (clc461.h, from the page of the doorbell on). */
#define SIM_USERMODE_BYTES 65536ull
#define SIM_VIRTUAL_BASE (1ull << 46)

#define MAPPING_AT (1ll << 40)

struct mapping {
	uint64_t number; /* the name of the file */
	uint64_t offset;
	uint64_t length;
};

#endif
