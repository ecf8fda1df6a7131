// SPDX-License-Identifier: Apache-2.0
/*
 * keep_mapping [--dev DIR] BYTES: maps managed memory, then gives back all that it could be known by: its client is
 * freed by RM_FREE, the control file and UVM's file are closed. Only the mapping stays, until a line comes.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"

#define PIECE (2ul << 20)

/* Addresses that nobody else uses, at the start of a piece of 2 MiB. */
static uint8_t *reserve(uint64_t size)
{
	uint8_t *all = mmap(NULL, size + PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uintptr_t start = ((uintptr_t)all + PIECE - 1) / PIECE * PIECE;

	return all == MAP_FAILED ? NULL : all + (start - (uintptr_t)all);
}

/* The offset of the mapping is its address. */
static bool map(const struct settings *settings, uint8_t *place, uint64_t size)
{
	const struct nv_layout_UVM_INITIALIZE_PARAMS *at = &settings->abi->UVM_INITIALIZE_PARAMS;
	uint8_t params[32] = { 0 };
	int uvm = driver_open(settings, "nvidia-uvm");
	void *mapped = MAP_FAILED;

	if (uvm >= 0 && ioctl(uvm, UVM_INITIALIZE, params) == 0 && get32(params, at->rmStatus) == NV_OK)
		mapped =
			mmap(place, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, uvm, (off_t)(uintptr_t)place);
	close(uvm);
	return mapped != MAP_FAILED;
}

int main(int argc, char **argv)
{
	struct settings settings;
	struct session session;
	uint64_t size;
	uint8_t *place;

	client_begin(&settings, &argc, &argv);
	if (argc != 1)
		return 2;
	size = strtoull(argv[0], NULL, 0);
	place = reserve(size);
	client_open(&session, &settings);
	if (!place || !map(&settings, place, size))
		return perror("nvidia-uvm"), 1;
	printf("freed status=0x%x\n", session_free(&session, session.client));
	session_drop(&session);
	printf("mapped\n");
	client_next();
	printf("unmapped status=%d\n", munmap(place, size));
	client_next();
	return 0;
}
