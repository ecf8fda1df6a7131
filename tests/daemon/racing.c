// SPDX-License-Identifier: Apache-2.0
/*
 * racing --dev DIR dup|free: one thread allocates, others duplicate the memory while it is being made, or free its
 * handle while it is being given out again. Prints "done" after two seconds and holds what it has.
 */
#include <fcntl.h>
#include <linux/ioctl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "nv_abi.h"

#define DEVICE 0x10u
#define RACERS 2
#define SECONDS 2
#define FIRST_BYTES (256ull << 20)
#define PAGE_BYTES (64ull << 10)

static const struct nv_abi *abi;
static int ctl;
static uint32_t client;
static int by_free;
static atomic_uint source, copy = 0x200000;
static atomic_int ended;

static void put32(uint8_t *data, uint32_t at, uint32_t value)
{
	memcpy(data + at, &value, sizeof(value));
}

static void put64(uint8_t *data, uint32_t at, uint64_t value)
{
	memcpy(data + at, &value, sizeof(value));
}

static uint32_t call(uint32_t nr, uint8_t *data, uint32_t bytes, uint32_t status_at)
{
	uint32_t status;

	if (ioctl(ctl, _IOC(3u, NV_IOCTL_MAGIC, nr, bytes), data) < 0)
		return ~0u;
	memcpy(&status, data + status_at, sizeof(status));
	return status;
}

static uint32_t alloc(uint32_t parent, uint32_t *handle, uint32_t class, uint8_t *params)
{
	const struct nv_layout_NVOS21_PARAMETERS *at = &abi->NVOS21_PARAMETERS;
	uint8_t data[64] = { 0 };
	uint32_t status;

	put32(data, at->hRoot, client);
	put32(data, at->hObjectParent, parent);
	put32(data, at->hObjectNew, *handle);
	put32(data, at->hClass, class);
	put64(data, at->pAllocParms, (uintptr_t)params);
	status = call(NV_ESC_RM_ALLOC, data, at->bytes, at->status);
	memcpy(handle, data + at->hObjectNew, sizeof(*handle));
	return status;
}

static uint32_t alloc_memory(uint32_t handle, uint64_t bytes)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &abi->NV_MEMORY_ALLOCATION_PARAMS;
	uint8_t params[256] = { 0 };

	put32(params, at->owner, 1);
	put32(params, at->attr, NVOS32_ATTR_PAGE_SIZE_BIG << NVOS32_ATTR_PAGE_SIZE_SHIFT);
	put64(params, at->size, bytes);
	return alloc(DEVICE, &handle, NV01_MEMORY_LOCAL_USER, params);
}

static void free_memory(uint32_t handle)
{
	const struct nv_layout_NVOS00_PARAMETERS *at = &abi->NVOS00_PARAMETERS;
	uint8_t data[64] = { 0 };

	put32(data, at->hRoot, client);
	put32(data, at->hObjectOld, handle);
	call(NV_ESC_RM_FREE, data, at->bytes, at->status);
}

static uint32_t duplicate(uint32_t from, uint32_t to)
{
	const struct nv_layout_NVOS55_PARAMETERS *at = &abi->NVOS55_PARAMETERS;
	uint8_t data[64] = { 0 };

	put32(data, at->hClient, client);
	put32(data, at->hParent, DEVICE);
	put32(data, at->hObject, to);
	put32(data, at->hClientSrc, client);
	put32(data, at->hObjectSrc, from);
	return call(NV_ESC_RM_DUP_OBJECT, data, at->bytes, at->status);
}

static void *race(void *unused)
{
	uint32_t to;

	while (!atomic_load(&ended)) {
		if (by_free) {
			free_memory(atomic_load(&source));
			continue;
		}
		to = atomic_load(&copy);
		if (duplicate(atomic_load(&source), to) == NV_OK)
			atomic_fetch_add(&copy, 1);
	}
	return unused;
}

int main(int argc, char **argv)
{
	uint32_t device = DEVICE, handle = 0x1000, status;
	uint8_t params[128] = { 0 };
	uint64_t bytes = FIRST_BYTES;
	pthread_t racer[RACERS];
	char path[4096], line[16];
	time_t end;
	int i;

	if (argc < 4)
		return 2;
	abi = &nv_abi_layouts[0];
	for (i = 0; i < (int)nv_abi_version_count; i++)
		if (nv_abi_versions[i].major <= 580)
			abi = &nv_abi_layouts[nv_abi_versions[i].layout];
	by_free = !strcmp(argv[3], "free");
	snprintf(path, sizeof(path), "%s/nvidiactl", argv[2]);
	ctl = open(path, O_RDWR);
	if (ctl < 0 || alloc(0, &client, NV01_ROOT_CLIENT, NULL) || alloc(client, &device, NV01_DEVICE_0, params))
		return 1;
	for (i = 0; i < RACERS; i++)
		pthread_create(&racer[i], NULL, race, NULL);
	for (end = time(NULL) + SECONDS; time(NULL) < end; handle++) {
		atomic_store(&source, handle);
		status = alloc_memory(handle, bytes);
		if (!by_free)
			free_memory(handle);
		if (status == NV_ERR_NO_MEMORY)
			bytes = bytes / 2 > PAGE_BYTES ? bytes / 2 : PAGE_BYTES;
	}
	atomic_store(&ended, 1);
	for (i = 0; i < RACERS; i++)
		pthread_join(racer[i], NULL);
	printf("done\n");
	fflush(stdout);
	/* Until the end of standard input, or a line. */
	return fgets(line, sizeof(line), stdin) && !line[0];
}
