// SPDX-License-Identifier: Apache-2.0
/*
 * clients [--dev DIR] N: makes N RM clients that own nothing, or as many as it gets. Rests with a line that says how many,
 * and the driver's last status; when it is sent a line, frees the first one, makes another, and rests again. The file is closed
 * at its end.
 */
#include <stdio.h>
#include <stdlib.h>

#include "client.h"

int main(int argc, char **argv)
{
	struct settings settings;
	struct session session;
	uint32_t wanted, made, first = 0, status = NV_OK;

	client_begin(&settings, &argc, &argv, 1);
	wanted = (uint32_t)strtoul(argv[0], NULL, 0);
	session_init(&session, &settings, 0);
	session.ctl = driver_open(&settings, "nvidiactl");
	for (made = 0; made < wanted; made++) {
		session.client = 0;
		status = session_alloc(&session, 0, NV01_ROOT_CLIENT, NULL, 0, &session.client);
		if (status != NV_OK)
			break;
		first = first ? first : session.client;
	}
	printf("resting made=%u status=0x%x\n", made, status);
	client_next();
	session.client = first;
	status = session_free(&session, first);
	session.client = 0;
	printf("again freed=0x%x made=0x%x\n", status,
		session_alloc(&session, 0, NV01_ROOT_CLIENT, NULL, 0, &session.client));
	client_next();
	return 0;
}
