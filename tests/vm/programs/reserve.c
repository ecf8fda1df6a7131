// SPDX-License-Identifier: Apache-2.0
/*
 * reserve SIZE COUNT FLAGS: reservations of addresses with 4 KiB pages in a VA space of this program's own, until the driver
 * refuses one. No memory is asked for; rests with what it has.
 */
#include <stdio.h>
#include <stdlib.h>

#include "client.h"

#define SPACE 0x5d000001u

static struct settings settings;
static struct session session;

static uint32_t reserve(uint64_t size, uint32_t flags, uint32_t handle)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &settings.abi->NV_MEMORY_ALLOCATION_PARAMS;
	uint8_t params[CLIENT_PARAMS] = { 0 };

	rm_memory_params(params, settings.abi, NVOS32_ATTR_PAGE_SIZE_4KB << NVOS32_ATTR_PAGE_SIZE_SHIFT, size);
	put32(params, at->flags, NVOS32_ALLOC_FLAGS_VIRTUAL | flags);
	put32(params, at->hVASpace, SPACE);
	return session_alloc(&session, session.device, NV50_MEMORY_VIRTUAL, params, at->bytes, &handle);
}

int main(int argc, char **argv)
{
	uint8_t space[64] = { 0 };
	uint32_t handle = SPACE, status;
	uint64_t size, count, made = 0;

	client_begin(&settings, &argc, &argv);
	if (argc != 3)
		return 2;
	size = strtoull(argv[0], NULL, 0);
	count = strtoull(argv[1], NULL, 0);
	client_open(&session, &settings);
	status = session_alloc(&session, session.device, FERMI_VASPACE_A, space, sizeof(space), &handle);
	while (status == NV_OK && made < count) {
		status = reserve(size, (uint32_t)strtoul(argv[2], NULL, 0), SPACE + 1 + (uint32_t)made);
		made += status == NV_OK;
	}
	printf("resting made=%llu status=%u\n", (unsigned long long)made, status);
	client_rest();
}
