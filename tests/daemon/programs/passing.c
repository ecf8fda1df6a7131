// SPDX-License-Identifier: Apache-2.0
/*
 * Calls of two containers by one descriptor. Each ends at the end of standard input, or with a line.
 *
 * passing [--dev DIR] give SOCKET MIB     allocates, and hands its descriptor to the peer
 * passing [--dev DIR] take SOCKET         receives it, and uses the client of the other
 * passing [--dev DIR] choose CLIENT       makes a client with this handle, and a device in it
 * passing [--dev DIR] squat CLIENT        the same, and closes the descriptor
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

#define DEVICE 0x10u
#define MEMORY 0x500u
#define KIB 1024ull

/* Message that goes with the descriptor. */
struct names {
	uint32_t client, device;
};

static int give(struct session *session, const char *path, uint64_t bytes)
{
	struct names names = { session->client, session->device };
	int sock;

	if (client_memory(session, MEMORY, bytes))
		return 1;
	sock = client_hand_out(path, "ready", &session->ctl, 1);
	return write(sock, &names, sizeof(names)) != sizeof(names);
}

static int take(struct session *own, const char *path)
{
	uint32_t device, alloc_status, dup, own_dup, freed;
	struct session other;
	struct names names;
	int sock;

	session_init(&other, own->settings, 0);
	sock = client_fetch(path, &other.ctl, 1);
	if (read(sock, &names, sizeof(names)) != sizeof(names))
		return 1;
	other.client = names.client;
	other.device = names.device;
	device = client_device(&other, 0x77);
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
	return status == NV_OK ? client_device(session, DEVICE) : status;
}

int main(int argc, char **argv)
{
	struct settings settings;
	struct session session;
	uint32_t status;
	int r = 0;

	client_begin(&settings, &argc, &argv, 2);
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
