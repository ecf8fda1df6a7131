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
#include <unistd.h>

#include "client.h"

#define FILES 3 /* nvidiactl, nvidia0, nvidia-uvm */

static int give(const struct settings *settings, const char *path)
{
	int files[FILES];

	files[0] = driver_open(settings, "nvidiactl");
	files[1] = driver_open(settings, "nvidia0");
	files[2] = driver_open(settings, "nvidia-uvm");
	if (files[0] < 0 || files[1] < 0 || files[2] < 0)
		return perror(settings->dev), 1;
	if (client_hand_out(path, "giving", files, FILES) < 0)
		return perror(path), 1;
	client_next();
	return 0;
}

static int take(const struct settings *settings, const char *path, uint64_t piece, uint64_t more)
{
	struct session session;
	int files[FILES];
	uint64_t bytes = 0, mapped;
	uint32_t status;

	if (client_fetch(path, files, FILES) < 0)
		return perror(path), 1;
	session_init(&session, settings, 0);
	session.ctl = files[0];
	session.card = files[1];
	status = session_begin(&session);
	if (status == NV_OK)
		bytes = client_fill(&session, piece);
	mapped = client_map_managed(settings, files[2], client_reserve(more), more) ? more : 0;
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
	client_begin(&settings, &argc, &argv, 0);
	if (argc == 2 && strcmp(argv[0], "give") == 0)
		return give(&settings, argv[1]);
	if (argc == 4 && strcmp(argv[0], "take") == 0)
		return take(&settings, argv[1], strtoull(argv[2], NULL, 0), strtoull(argv[3], NULL, 0));
	return 2;
}
