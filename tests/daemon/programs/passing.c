// SPDX-License-Identifier: Apache-2.0
/*
 * What two containers can do with one descriptor. Each ends at the end of standard input, or with a line.
 *
 * passing --dev DIR give SOCKET MIB     allocates, and hands its descriptor to whoever connects
 * passing --dev DIR take SOCKET         receives it, and uses the client of the other
 * passing --dev DIR choose CLIENT       makes a client with this handle, and a device in it
 * passing --dev DIR squat CLIENT        the same, and closes the descriptor
 */
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "rm_calls.h"

#define MEMORY 0x500u

static int unix_socket(const char *path, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(address->sun_path, sizeof(address->sun_path), "%s", path);
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

/* The driver makes a device of a card only for who has that card open; the descriptor stays open until the end. */
static bool open_card(const struct rm *rm, const char *folder)
{
	uint8_t data[4] = { 0 };
	char path[4096];
	int card;

	snprintf(path, sizeof(path), "%s/nvidia0", folder);
	card = open(path, O_RDWR | O_CLOEXEC);
	put32(data, rm->abi->nv_ioctl_register_fd_t.ctl_fd, (uint32_t)rm->ctl);
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

static int give(struct rm *rm, const char *path, uint64_t bytes)
{
	struct sockaddr_un address;
	int sock = unix_socket(path, &address);

	if (rm_memory(rm, MEMORY, bytes) || bind(sock, (void *)&address, sizeof(address)) || listen(sock, 1))
		return 1;
	printf("ready\n");
	fflush(stdout);
	return pass(accept(sock, NULL, NULL), &rm->ctl, &rm->client, 1);
}

static int take(const struct rm *own, const char *path)
{
	struct rm other = { .abi = own->abi };
	struct sockaddr_un address;
	int sock = unix_socket(path, &address);
	uint32_t device, alloc_status, dup, own_dup, freed;

	if (connect(sock, (void *)&address, sizeof(address)) || pass(sock, &other.ctl, &other.client, 0))
		return 1;
	device = rm_device(&other, 0x77);
	alloc_status = rm_memory(&other, 0x901, 64 << 10);
	dup = rm_dup(&other, 0x902, other.client, MEMORY);
	own_dup = rm_dup(own, 0x903, other.client, MEMORY);
	freed = rm_free(&other, MEMORY);
	printf("taken device=%#x alloc=%#x dup=%#x own_dup=%#x free=%#x mine=%#x\n", device, alloc_status, dup, own_dup,
		freed, rm_memory(own, 0x904, 64 << 10));
	return 0;
}

int main(int argc, char **argv)
{
	int r = 0, by_handle, fails;
	uint32_t status = ~0u;
	char line[16];
	struct rm rm;

	if (argc < 5)
		return 2;
	by_handle = !strcmp(argv[3], "choose") || !strcmp(argv[3], "squat");
	fails = rm_control_node(&rm, argv[2]) || (!by_handle && !open_card(&rm, argv[2]));
	if (by_handle)
		rm.client = (uint32_t)strtoul(argv[4], NULL, 0);
	if (!fails)
		status = rm_alloc(&rm, 0, &rm.client, NV01_ROOT_CLIENT, NULL);
	if (status == NV_OK)
		status = rm_device(&rm, DEVICE);
	if (by_handle && !strcmp(argv[3], "squat"))
		close(rm.ctl);
	if (by_handle || status)
		printf("%s %#x\n", argv[3], status);
	else if (!strcmp(argv[3], "give") && argc > 5)
		r = give(&rm, argv[4], strtoull(argv[5], NULL, 0) << 20);
	else
		r = take(&rm, argv[4]);
	fflush(stdout);
	return (fgets(line, sizeof(line), stdin) && !line[0]) || r || status;
}
