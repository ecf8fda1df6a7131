// SPDX-License-Identifier: Apache-2.0
/*
 * restarted [--dev DIR] restart|interrupt PIECE: allocates in pieces until it is refused, while signals keep coming
 * in the midst of its calls: the kernel starts each anew, or it ends with EINTR and is made anew here. The driver
 * chooses the handles, so that what a call made that is told to have failed is known to nobody. With restart each
 * piece is duplicated, and its first handle freed. Rests with what it got.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client.h"

#define MICROSECONDS 300
#define MOST 100000

int main(int argc, char **argv)
{
	uint64_t piece, bytes = 0, interrupted = 0;
	struct settings settings;
	struct session session;
	struct grant grant;
	uint32_t status = NV_OK;
	bool restart;

	client_begin(&settings, &argc, &argv);
	if (argc != 2)
		return 2;
	restart = strcmp(argv[0], "restart") == 0;
	piece = strtoull(argv[1], NULL, 0);
	client_open(&session, &settings);
	settings.own_handles = false;
	client_rain(restart ? SA_RESTART : 0, MICROSECONDS);
	while (session.count < MOST) {
		status = memory_alloc(&session, piece, &grant);
		if (status == RM_ERRNO && errno == EINTR && ++interrupted < MOST)
			continue;
		if (status != NV_OK)
			break;
		bytes += grant.size;
		if (restart && memory_dup(&session, &grant) == NV_OK)
			memory_free_at(&session, session.count - 2);
	}
	client_rain(SA_RESTART, 0);
	printf("resting bytes=%llu interrupted=%llu alarms=%ld status=0x%x\n", (unsigned long long)bytes,
		(unsigned long long)interrupted, client_alarms(), status);
	client_next();
	return 0;
}
