// SPDX-License-Identifier: Apache-2.0
/*
 * fill_hole [--dev DIR] external|managed BYTES HOLE: maps managed memory, and unmaps a hole in the middle of it. Then
 *   external  has ranges of another kind come and go in the hole, until all of the mapping could be thought to be gone
 *   managed   maps other managed memory there, and unmaps what of the first mapping lies behind it
 * Prints "filled", and keeps what it has until a line comes.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "client.h"
#include "uvm_probe.h"

static struct uvm uvm;
static uint8_t *place, *hole;
static uint64_t place_bytes, hole_bytes;

/* The offset of the mapping is its address. */
static bool map(uint8_t *at, uint64_t bytes)
{
	return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, uvm.fd, (off_t)(uintptr_t)at) == at;
}

static uint32_t come_and_go(void)
{
	uint32_t status = uvm_range_at(&uvm, (uintptr_t)hole, hole_bytes);

	if (status != NV_OK)
		return status;
	uvm.ranges[0] = (struct range){ .base = (uintptr_t)hole, .length = hole_bytes };
	uvm.count = 1;
	return uvm_free(&uvm);
}

static uint32_t fill_with_ranges(void)
{
	uint64_t taken;
	uint32_t status = NV_OK;

	for (taken = 0; taken <= place_bytes && status == NV_OK; taken += hole_bytes)
		status = come_and_go();
	return status;
}

static uint32_t fill_with_memory(void)
{
	uint8_t *behind = hole + hole_bytes;

	if (!map(hole, hole_bytes) || munmap(behind, (size_t)(place + place_bytes - behind)))
		return RM_ERRNO;
	return NV_OK;
}

int main(int argc, char **argv)
{
	struct settings settings;
	uint32_t status;

	client_begin(&settings, &argc, &argv, 3);
	place_bytes = strtoull(argv[1], NULL, 0);
	hole_bytes = strtoull(argv[2], NULL, 0);
	status = uvm_open(&uvm, &settings);
	place = client_reserve(place_bytes);
	if (status == NV_OK && (!place || !map(place, place_bytes)))
		status = RM_ERRNO;
	if (status != NV_OK)
		return fprintf(stderr, "nvidia-uvm: status 0x%x\n", status), 1;
	hole = place + place_bytes / 2;
	if (munmap(hole, hole_bytes))
		return perror("munmap"), 1;
	status = strcmp(argv[0], "external") == 0 ? fill_with_ranges() : fill_with_memory();
	printf("filled status=0x%x\n", status);
	client_next();
	return 0;
}
