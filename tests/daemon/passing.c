// SPDX-License-Identifier: Apache-2.0
/*
 * What two containers can do with one descriptor. Each ends at the end of standard input, or with a line.
 *
 * passing --dev DIR give SOCKET MIB     allocates, and hands its descriptor to whoever connects
 * passing --dev DIR take SOCKET         receives it, and uses the client of the other
 * passing --dev DIR choose CLIENT       makes a client with this handle, and a device in it
 * passing --dev DIR squat CLIENT        the same, and closes the descriptor
 */
#include <fcntl.h>
#include <linux/ioctl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "nv_abi.h"

#define DEVICE 0x10u
#define MEMORY 0x500u

static const struct nv_abi *abi;

static void put32(uint8_t *data, uint32_t at, uint32_t value)
{
	memcpy(data + at, &value, sizeof(value));
}

static void put64(uint8_t *data, uint32_t at, uint64_t value)
{
	memcpy(data + at, &value, sizeof(value));
}

static uint32_t call(int ctl, uint32_t nr, uint8_t *data, uint32_t bytes, uint32_t status_at)
{
	uint32_t status;

	if (ioctl(ctl, _IOC(3u, NV_IOCTL_MAGIC, nr, bytes), data) < 0)
		return ~0u;
	memcpy(&status, data + status_at, sizeof(status));
	return status;
}

static uint32_t alloc(int ctl, uint32_t client, uint32_t parent, uint32_t *handle, uint32_t class, uint8_t *params)
{
	const struct nv_layout_NVOS21_PARAMETERS *at = &abi->NVOS21_PARAMETERS;
	uint8_t data[64] = { 0 };
	uint32_t status;

	put32(data, at->hRoot, client);
	put32(data, at->hObjectParent, parent);
	put32(data, at->hObjectNew, *handle);
	put32(data, at->hClass, class);
	put64(data, at->pAllocParms, (uintptr_t)params);
	status = call(ctl, NV_ESC_RM_ALLOC, data, at->bytes, at->status);
	memcpy(handle, data + at->hObjectNew, sizeof(*handle));
	return status;
}

static uint32_t make_device(int ctl, uint32_t client, uint32_t handle)
{
	uint8_t params[128] = { 0 };

	return alloc(ctl, client, client, &handle, NV01_DEVICE_0, params);
}

static uint32_t make_memory(int ctl, uint32_t client, uint32_t handle, uint64_t bytes)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &abi->NV_MEMORY_ALLOCATION_PARAMS;
	uint8_t params[256] = { 0 };

	put32(params, at->owner, 1);
	put32(params, at->attr, NVOS32_ATTR_PAGE_SIZE_BIG << NVOS32_ATTR_PAGE_SIZE_SHIFT);
	put64(params, at->size, bytes);
	return alloc(ctl, client, DEVICE, &handle, NV01_MEMORY_LOCAL_USER, params);
}

static uint32_t duplicate(int ctl, uint32_t client, uint32_t parent, uint32_t to, uint32_t source)
{
	const struct nv_layout_NVOS55_PARAMETERS *at = &abi->NVOS55_PARAMETERS;
	uint8_t data[64] = { 0 };

	put32(data, at->hClient, client);
	put32(data, at->hParent, parent);
	put32(data, at->hObject, to);
	put32(data, at->hClientSrc, source);
	put32(data, at->hObjectSrc, MEMORY);
	return call(ctl, NV_ESC_RM_DUP_OBJECT, data, at->bytes, at->status);
}

static uint32_t release(int ctl, uint32_t client)
{
	const struct nv_layout_NVOS00_PARAMETERS *at = &abi->NVOS00_PARAMETERS;
	uint8_t data[64] = { 0 };

	put32(data, at->hRoot, client);
	put32(data, at->hObjectOld, MEMORY);
	return call(ctl, NV_ESC_RM_FREE, data, at->bytes, at->status);
}

static int unix_socket(const char *path, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(address->sun_path, sizeof(address->sun_path), "%s", path);
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

/* The driver makes a device of a card only for who has that card open; the descriptor stays open until the end. */
static bool open_card(const char *folder, int ctl)
{
	uint8_t data[4] = { 0 };
	char path[4096];
	int card;

	snprintf(path, sizeof(path), "%s/nvidia0", folder);
	card = open(path, O_RDWR | O_CLOEXEC);
	put32(data, abi->nv_ioctl_register_fd_t.ctl_fd, (uint32_t)ctl);
	return card >= 0 && ioctl(card, _IOC(3u, NV_IOCTL_MAGIC, NV_ESC_REGISTER_FD, sizeof(data)), data) >= 0;
}

/* One descriptor and one handle, in either direction. */
static int pass(int sock, int *fd, uint32_t *client, int send)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec data = { client, sizeof(*client) };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };

	message.msg_control = &control;
	message.msg_controllen = sizeof(control.space);
	if (send) {
		control.head = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
		memcpy(CMSG_DATA(&control.head), fd, sizeof(*fd));
		return sendmsg(sock, &message, 0) < 0;
	}
	if (recvmsg(sock, &message, 0) < 0)
		return 1;
	memcpy(fd, CMSG_DATA(&control.head), sizeof(*fd));
	return 0;
}

static int give(int ctl, uint32_t client, const char *path, uint64_t bytes)
{
	struct sockaddr_un address;
	int sock = unix_socket(path, &address);

	if (make_memory(ctl, client, MEMORY, bytes) || bind(sock, (void *)&address, sizeof(address)) || listen(sock, 1))
		return 1;
	printf("ready\n");
	fflush(stdout);
	return pass(accept(sock, NULL, NULL), &ctl, &client, 1);
}

static int take(int own, uint32_t client, const char *path)
{
	struct sockaddr_un address;
	int sock = unix_socket(path, &address), ctl;
	uint32_t other, device, alloc_status, dup, own_dup, freed;

	if (connect(sock, (void *)&address, sizeof(address)) || pass(sock, &ctl, &other, 0))
		return 1;
	device = make_device(ctl, other, 0x77);
	alloc_status = make_memory(ctl, other, 0x901, 64 << 10);
	dup = duplicate(ctl, other, DEVICE, 0x902, other);
	own_dup = duplicate(own, client, DEVICE, 0x903, other);
	freed = release(ctl, other);
	printf("taken device=%#x alloc=%#x dup=%#x own_dup=%#x free=%#x mine=%#x\n", device, alloc_status, dup, own_dup,
		freed, make_memory(own, client, 0x904, 64 << 10));
	return 0;
}

int main(int argc, char **argv)
{
	uint32_t client = 0, status;
	char path[4096], line[16];
	int ctl, i, r = 0, by_handle;

	if (argc < 5)
		return 2;
	abi = &nv_abi_layouts[0];
	for (i = 0; i < (int)nv_abi_version_count; i++)
		if (nv_abi_versions[i].major <= 580)
			abi = &nv_abi_layouts[nv_abi_versions[i].layout];
	by_handle = !strcmp(argv[3], "choose") || !strcmp(argv[3], "squat");
	if (by_handle)
		client = (uint32_t)strtoul(argv[4], NULL, 0);
	snprintf(path, sizeof(path), "%s/nvidiactl", argv[2]);
	ctl = open(path, O_RDWR | O_CLOEXEC);
	status = ctl < 0 || (!by_handle && !open_card(argv[2], ctl)) ?
		~0u :
		alloc(ctl, client, 0, &client, NV01_ROOT_CLIENT, NULL);
	if (status == NV_OK)
		status = make_device(ctl, client, DEVICE);
	if (by_handle && !strcmp(argv[3], "squat"))
		close(ctl);
	if (by_handle || status)
		printf("%s %#x\n", argv[3], status);
	else if (!strcmp(argv[3], "give") && argc > 5)
		r = give(ctl, client, argv[4], strtoull(argv[5], NULL, 0) << 20);
	else
		r = take(ctl, client, argv[4]);
	fflush(stdout);
	return (fgets(line, sizeof(line), stdin) && !line[0]) || r || status;
}
