// SPDX-License-Identifier: Apache-2.0
/*
 * What a container can do with another's open GPU.
 * hand give SOCKET PATH   opens a node and hands it to whoever connects; ends at the end of standard input
 * hand take SOCKET GPU    receives it, registers it with a client of its own, and asks for memory of that GPU
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "rm_client.h"

union control {
	struct cmsghdr head;
	char space[CMSG_SPACE(sizeof(int))];
};

static int socket_at(const char *path, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(address->sun_path, sizeof(address->sun_path), "%s", path);
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

static int give(const char *path, const char *node)
{
	union control control = { .head = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec data = { (char[1]){ 'x' }, 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control };
	struct sockaddr_un address;
	int sock = socket_at(path, &address), fd = open(node, O_RDWR);

	message.msg_controllen = sizeof(control.space);
	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	if (fd < 0 || bind(sock, (void *)&address, sizeof(address)) || listen(sock, 1))
		return perror(node), 1;
	printf("ready\n");
	fflush(stdout);
	if (sendmsg(accept(sock, NULL, NULL), &message, 0) < 0)
		return perror("sendmsg"), 1;
	return getchar() == EOF ? 0 : 1;
}

static int receive(const char *path)
{
	union control control = { 0 };
	char byte;
	struct iovec data = { &byte, 1 };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &control };
	struct sockaddr_un address;
	int sock = socket_at(path, &address), fd;

	message.msg_controllen = sizeof(control.space);
	if (connect(sock, (void *)&address, sizeof(address)) || recvmsg(sock, &message, 0) < 1)
		return -1;
	memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
	return fd;
}

static uint32_t device_on(struct session *session, uint32_t number)
{
	const struct nv_layout_NV0080_ALLOC_PARAMETERS *at = &session->settings->abi->NV0080_ALLOC_PARAMETERS;
	uint8_t params[64] = { 0 };

	session->device = 0;
	put32(params, at->deviceId, number);
	return session_alloc(session, session->client, NV01_DEVICE_0, params, at->bytes, &session->device);
}

static int take(const char *path, uint32_t gpu)
{
	struct settings settings = { .dev = "/dev", .magic = NV_IOCTL_MAGIC, .direction = 3, .own_handles = true };
	uint32_t registered, device, memory;
	int fd = receive(path);
	struct session session;
	struct grant grant;
	uint8_t ctl[4] = { 0 };

	session_init(&session, &settings, gpu);
	session.ctl = driver_open(&settings, "nvidiactl");
	if (fd < 0 || session.ctl < 0 || !driver_version(&settings, session.ctl))
		return perror("hand take"), 1;
	put32(ctl, settings.abi->nv_ioctl_register_fd_t.ctl_fd, (uint32_t)session.ctl);
	registered = driver_call(&settings, fd, NV_ESC_REGISTER_FD, ctl, sizeof(ctl));
	if (session_alloc(&session, 0, NV01_ROOT_CLIENT, NULL, 0, &session.client) != NV_OK)
		return 1;
	device = device_on(&session, gpu);
	memory = memory_alloc(&session, 1 << 20, &grant);
	printf("taken register=%#x device=%#x memory=%#x\n", registered, device, memory);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "give") == 0)
		return give(argv[2], argv[3]);
	if (argc == 4 && strcmp(argv[1], "take") == 0)
		return take(argv[2], (uint32_t)atoi(argv[3]));
	return fprintf(stderr, "usage: hand give SOCKET PATH | hand take SOCKET GPU\n"), 2;
}
