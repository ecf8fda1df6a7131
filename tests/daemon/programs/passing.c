// SPDX-License-Identifier: Apache-2.0
/*
 * What two containers can do with one descriptor. Each ends at the end of standard input, or with a line.
 *
 * passing [--dev DIR] give SOCKET MIB     allocates, and hands its descriptor to whoever connects
 * passing [--dev DIR] take SOCKET         receives it, and uses the client of the other
 * passing [--dev DIR] choose CLIENT       makes a client with this handle, and a device in it
 * passing [--dev DIR] squat CLIENT        the same, and closes the descriptor
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client.h"

#define DEVICE 0x10u
#define MEMORY 0x500u
#define KIB 1024ull

static int unix_socket(const char *path, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(address->sun_path, sizeof(address->sun_path), "%s", path);
	return socket(AF_UNIX, SOCK_STREAM, 0);
}

/* What is passed beside the descriptor. */
struct names {
	uint32_t client, device;
};

/* In either direction. */
static int pass(int sock, int *fd, struct names *names, bool send)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec data = { names, sizeof(*names) };
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

static int give(struct session *session, const char *path, uint64_t bytes)
{
	struct names names = { session->client, session->device };
	struct sockaddr_un address;
	int sock = unix_socket(path, &address);

	if (client_memory(session, MEMORY, bytes) || bind(sock, (void *)&address, sizeof(address)) || listen(sock, 1))
		return 1;
	printf("ready\n");
	return pass(accept(sock, NULL, NULL), &session->ctl, &names, true);
}

static uint32_t make_device(struct session *session, uint32_t handle)
{
	uint8_t params[CLIENT_PARAMS] = { 0 };

	return session_alloc(session, session->client, NV01_DEVICE_0, params,
		session->settings->abi->NV0080_ALLOC_PARAMETERS.bytes, &handle);
}

static int take(struct session *own, const char *path)
{
	uint32_t device, alloc_status, dup, own_dup, freed;
	struct sockaddr_un address;
	struct session other;
	struct names names;
	int sock = unix_socket(path, &address);

	session_init(&other, own->settings, 0);
	if (connect(sock, (void *)&address, sizeof(address)) || pass(sock, &other.ctl, &names, false))
		return 1;
	other.client = names.client;
	other.device = names.device;
	device = make_device(&other, 0x77);
	alloc_status = client_memory(&other, 0x901, 64 * KIB);
	dup = client_dup(&other, 0x902, other.client, MEMORY);
	own_dup = client_dup(own, 0x903, other.client, MEMORY);
	freed = session_free(&other, MEMORY);
	printf("taken device=%#x alloc=%#x dup=%#x own_dup=%#x free=%#x mine=%#x\n", device, alloc_status, dup, own_dup,
		freed, client_memory(own, 0x904, 64 * KIB));
	return 0;
}

/* A client under a handle, with a device, on the control node alone. */
static uint32_t make_client(struct session *session, const struct settings *settings, uint32_t handle)
{
	uint32_t status;

	session_init(session, settings, 0);
	session->ctl = driver_open(settings, "nvidiactl");
	session->client = handle;
	status = session_alloc(session, 0, NV01_ROOT_CLIENT, NULL, 0, &session->client);
	return status == NV_OK ? make_device(session, DEVICE) : status;
}

int main(int argc, char **argv)
{
	struct settings settings;
	struct session session;
	uint32_t status;
	int r = 0;

	client_begin(&settings, &argc, &argv);
	if (argc < 2)
		return 2;
	if (strcmp(argv[0], "choose") == 0 || strcmp(argv[0], "squat") == 0) {
		status = make_client(&session, &settings, (uint32_t)strtoul(argv[1], NULL, 0));
		if (strcmp(argv[0], "squat") == 0)
			close(session.ctl);
		printf("%s %#x\n", argv[0], status);
		client_next();
		return status != NV_OK;
	}
	client_open(&session, &settings);
	if (strcmp(argv[0], "give") == 0 && argc > 2)
		r = give(&session, argv[1], strtoull(argv[2], NULL, 0) << 20);
	else
		r = take(&session, argv[1]);
	client_next();
	return r;
}
