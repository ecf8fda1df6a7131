// SPDX-License-Identifier: Apache-2.0
/*
 * exporting [--dev DIR] ROUNDS: exports one object on a new file each time, and imports it again, while signals keep
 * coming in the midst of the calls, which the kernel starts anew. Prints how many calls did not succeed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client.h"

#define BYTES (1ull << 20)
#define MICROSECONDS 150

int main(int argc, char **argv)
{
	struct settings settings;
	struct session session;
	struct grant grant;
	int rounds, failed = 0, fd;

	client_begin(&settings, &argc, &argv);
	if (argc != 1)
		return 2;
	client_open(&session, &settings);
	if (memory_alloc(&session, BYTES, &grant) != NV_OK)
		return 1;
	client_rain(SA_RESTART, MICROSECONDS);
	for (rounds = atoi(argv[0]); rounds > 0 && !failed; rounds--) {
		failed += export_memory(&session, 0, &fd) != NV_OK;
		failed += import_memory(&session, fd, 0) != NV_OK;
		failed += memory_free_at(&session, session.count - 1) != NV_OK;
		close(fd);
	}
	client_rain(0, 0);
	printf("done failed=%d\n", failed);
	client_next();
	return 0;
}
