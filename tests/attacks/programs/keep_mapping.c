// SPDX-License-Identifier: Apache-2.0
/*
 * keep_mapping [--dev DIR] BYTES: maps managed memory, then gives back all that it could be known by: its client is
 * freed by RM_FREE, the control file and UVM's file are closed. Only the mapping stays, until a line comes.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"

int main(int argc, char **argv)
{
	struct settings settings;
	struct session session;
	uint64_t size;
	uint8_t *place;
	int uvm;

	client_begin(&settings, &argc, &argv, 1);
	size = strtoull(argv[0], NULL, 0);
	place = client_reserve(size);
	client_open(&session, &settings);
	uvm = driver_open(&settings, "nvidia-uvm");
	if (!place || !client_map_managed(&settings, uvm, place, size))
		return perror("nvidia-uvm"), 1;
	close(uvm);
	printf("freed status=0x%x\n", session_free(&session, session.client));
	session_drop(&session);
	printf("mapped\n");
	client_next();
	printf("unmapped status=%d\n", munmap(place, size));
	client_next();
	return 0;
}
