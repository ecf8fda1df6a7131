// SPDX-License-Identifier: Apache-2.0
/*
 * hand_out [--dev DIR] give SOCKET            opens the driver's files as a container does, in a mount namespace of its own,
 *                                             and sends them to whoever connects; ends with standard input
 * hand_out [--dev DIR] take SOCKET PIECE MORE makes a client on what it receives and fills the card in pieces; and maps MORE
 *                                             bytes of managed memory. Prints "took", keeps it until a line comes, and
 *                                             then begins once more: "again"
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client.h"

#define FILES 3 /* nvidiactl, nvidia0, nvidia-uvm */

union control {
	struct cmsghdr head;
	char space[CMSG_SPACE(FILES * sizeof(int))];
};

static int socket_at(const char *path, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(address->sun_path, sizeof(address->sun_path), "%s", path);
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

static int give(const struct settings *settings, const char *path)
{
	union control control = { .head = { CMSG_LEN(FILES * sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec data = { (char[1]){ 'x' }, 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control };
	struct sockaddr_un address;
	int sock = socket_at(path, &address), files[FILES];

	files[0] = driver_open(settings, "nvidiactl");
	files[1] = driver_open(settings, "nvidia0");
	files[2] = driver_open(settings, "nvidia-uvm");
	if (files[0] < 0 || files[1] < 0 || files[2] < 0)
		return perror(settings->dev), 1;
	message.msg_controllen = sizeof(control.space);
	memcpy(CMSG_DATA(&control.head), files, sizeof(files));
	if (bind(sock, (void *)&address, sizeof(address)) || listen(sock, 1))
		return perror(path), 1;
	printf("giving\n");
	if (sendmsg(accept(sock, NULL, NULL), &message, 0) != 1)
		return perror("sendmsg"), 1;
	client_next();
	return 0;
}

static bool receive(const char *path, int files[FILES])
{
	union control control = { 0 };
	char byte;
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control };
	struct sockaddr_un address;
	int sock = socket_at(path, &address);

	message.msg_controllen = sizeof(control.space);
	if (connect(sock, (void *)&address, sizeof(address)) || recvmsg(sock, &message, 0) != 1)
		return false;
	memcpy(files, CMSG_DATA(&control.head), FILES * sizeof(int));
	return true;
}

/* Returns how much of managed memory was mapped. */
static uint64_t map(const struct settings *settings, int uvm, uint64_t bytes)
{
	const struct nv_layout_UVM_INITIALIZE_PARAMS *at = &settings->abi->UVM_INITIALIZE_PARAMS;
	void *place = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint8_t params[32] = { 0 };

	if (ioctl(uvm, UVM_INITIALIZE, params) != 0 || get32(params, at->rmStatus) != NV_OK)
		return 0;
	if (mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, uvm, (off_t)(uintptr_t)place) != place)
		return 0;
	return bytes;
}

static int take(const struct settings *settings, const char *path, uint64_t piece, uint64_t more)
{
	struct session session;
	int files[FILES];
	uint64_t bytes = 0, mapped;
	uint32_t status;

	if (!receive(path, files))
		return perror(path), 1;
	session_init(&session, settings, 0);
	session.ctl = files[0];
	session.card = files[1];
	status = session_begin(&session);
	if (status == NV_OK)
		bytes = client_fill(&session, piece);
	mapped = map(settings, files[2], more);
	printf("took status=0x%x bytes=%llu mapped=%llu\n", status, (unsigned long long)bytes,
		(unsigned long long)mapped);
	client_next();
	printf("again status=0x%x\n", session_begin(&session));
	client_next();
	return 0;
}

int main(int argc, char **argv)
{
	struct settings settings;

	if (argc > 1 && strcmp(argv[argc - 2], "give") == 0 && unshare(CLONE_NEWNS))
		return perror("unshare"), 1;
	client_begin(&settings, &argc, &argv);
	if (argc == 2 && strcmp(argv[0], "give") == 0)
		return give(&settings, argv[1]);
	if (argc == 4 && strcmp(argv[0], "take") == 0)
		return take(&settings, argv[1], strtoull(argv[2], NULL, 0), strtoull(argv[3], NULL, 0));
	return 2;
}
