// SPDX-License-Identifier: Apache-2.0
/*
 * Calls of a container by another's open GPU, or by its file of nvidia-uvm.
 * hand give SOCKET PATH   opens a node and hands it to the peer; ends at the end of standard input
 * hand take SOCKET GPU    receives it, registers it with a client of its own, and asks for memory of that GPU
 * hand uvm SOCKET         maps managed memory, and hands out the file that it is of
 * hand card SOCKET UUID   receives that, and has it serve a card of its own
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"
#include "uvm_probe.h"

#define PIECE (2ul << 20)

static int give(const char *path, const char *node)
{
	int fd = open(node, O_RDWR);

	if (fd < 0 || client_hand_out(path, "ready", &fd, 1) < 0)
		return perror(node), 1;
	return getchar() == EOF ? 0 : 1;
}

static int give_uvm(const struct settings *settings, const char *path)
{
	int fd = driver_open(settings, "nvidia-uvm");
	uint8_t *place = client_reserve(PIECE);

	if (!place || !client_map_managed(settings, fd, place, PIECE) || client_hand_out(path, "ready", &fd, 1) < 0)
		return perror("hand uvm"), 1;
	return getchar() == EOF ? 0 : 1;
}

static int take_uvm(const struct settings *settings, const char *path, const char *uuid)
{
	struct uvm taken = { .settings = *settings, .session.ctl = driver_open(settings, "nvidiactl") };
	uint8_t *place = client_reserve(PIECE);
	int registered, mapped = 0;
	uint32_t status;

	if (client_fetch(path, &taken.fd, 1) < 0 || !place)
		return perror("hand card"), 1;
	status = uvm_register(&taken, uuid);
	registered = status == RM_ERRNO ? errno : 0;
	if (mmap(place, PIECE, PROT_WRITE, MAP_SHARED | MAP_FIXED, taken.fd, (off_t)(uintptr_t)place) == MAP_FAILED)
		mapped = errno;
	printf("taken status=%#x register=%d map=%d\n", status, registered, mapped);
	return 0;
}

static uint32_t device_on(struct session *session, uint32_t number)
{
	const struct nv_layout_NV0080_ALLOC_PARAMETERS *at = &session->settings->abi->NV0080_ALLOC_PARAMETERS;
	uint8_t params[64] = { 0 };

	session->device = 0;
	put32(params, at->deviceId, number);
	return session_alloc(session, session->client, NV01_DEVICE_0, params, at->bytes, &session->device);
}

static int take(const struct settings *settings, const char *path, uint32_t gpu)
{
	uint32_t registered, device, memory;
	struct session session;
	struct grant grant;
	uint8_t ctl[4] = { 0 };
	int fd;

	session_init(&session, settings, gpu);
	session.ctl = driver_open(settings, "nvidiactl");
	if (client_fetch(path, &fd, 1) < 0)
		return perror("hand take"), 1;
	put32(ctl, settings->abi->nv_ioctl_register_fd_t.ctl_fd, (uint32_t)session.ctl);
	registered = driver_call(settings, fd, NV_ESC_REGISTER_FD, ctl, sizeof(ctl));
	if (session_alloc(&session, 0, NV01_ROOT_CLIENT, NULL, 0, &session.client) != NV_OK)
		return 1;
	device = device_on(&session, gpu);
	memory = memory_alloc(&session, 1 << 20, &grant);
	printf("taken register=%#x device=%#x memory=%#x\n", registered, device, memory);
	return 0;
}

int main(int argc, char **argv)
{
	struct settings settings;

	client_begin(&settings, &argc, &argv, 2);
	if (strcmp(argv[0], "give") == 0 && argc == 3)
		return give(argv[1], argv[2]);
	if (strcmp(argv[0], "take") == 0 && argc == 3)
		return take(&settings, argv[1], (uint32_t)atoi(argv[2]));
	if (strcmp(argv[0], "card") == 0 && argc == 3)
		return take_uvm(&settings, argv[1], argv[2]);
	return give_uvm(&settings, argv[1]);
}
