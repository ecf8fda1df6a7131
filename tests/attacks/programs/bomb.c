// SPDX-License-Identifier: Apache-2.0
/*
 * bomb [--dev DIR] DEPTH CLIENTS PIECE: each process starts two others, so many times over, and each has so many
 * clients that ask for a piece each. Prints what all got together, and rests with it.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"

struct told {
	atomic_uint processes, done, clients, refused;
	atomic_ullong bytes;
};

static struct settings settings;
static struct told *told;

static void take(unsigned int clients, uint64_t piece)
{
	struct session session;
	struct grant grant;

	while (clients--) {
		session_init(&session, &settings, 0);
		if (session_open(&session) == NV_OK)
			atomic_fetch_add(&told->clients, 1);
		if (session.ctl >= 0 && memory_alloc(&session, piece, &grant) == NV_OK)
			atomic_fetch_add(&told->bytes, grant.size);
		else
			atomic_fetch_add(&told->refused, 1);
	}
	atomic_fetch_add(&told->done, 1);
}

static void spread(unsigned int depth)
{
	int i;

	atomic_fetch_add(&told->processes, 1);
	for (i = 0; depth > 0 && i < 2; i++) {
		if (fork() == 0) {
			spread(depth - 1);
			return;
		}
	}
}

int main(int argc, char **argv)
{
	unsigned int expected;
	pid_t first = getpid();

	client_begin(&settings, &argc, &argv, 3);
	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (told == MAP_FAILED)
		return 2;
	expected = (2u << strtoul(argv[0], NULL, 0)) - 1;
	spread((unsigned int)strtoul(argv[0], NULL, 0));
	take((unsigned int)strtoul(argv[1], NULL, 0), strtoull(argv[2], NULL, 0));
	if (getpid() == first) {
		while (told->done < expected)
			usleep(1000);
		printf("resting processes=%u clients=%u refused=%u bytes=%llu\n", told->processes, told->clients,
			told->refused, (unsigned long long)told->bytes);
	}
	client_next();
	return 0;
}
