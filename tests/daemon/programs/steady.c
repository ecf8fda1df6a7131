// SPDX-License-Identifier: Apache-2.0
/*
 * steady --dev DIR [USEC [GPU]]: allocates and frees on a GPU without an end, USEC microseconds apart. For each line on
 * standard input it prints how many calls there were since the last one, how many failed, and how long the longest took; at
 * the end of the input it ends.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client.h"
#include "clock.h"

#define BYTES (1ull << 20)

struct figures {
	unsigned long calls, failed, longest;
};

static void count(struct figures *figures, uint64_t began, uint32_t status)
{
	unsigned long took = (unsigned long)(clock_now() - began) / 1000;

	figures->calls++;
	figures->failed += status != 0;
	if (took > figures->longest)
		figures->longest = took;
}

static void one_round(struct session *session, struct figures *figures)
{
	uint64_t began = clock_now();
	struct grant grant;
	uint32_t status;

	status = memory_alloc(session, BYTES, &grant);
	count(figures, began, status);
	if (status != NV_OK)
		return;
	began = clock_now();
	count(figures, began, memory_free_at(session, session->count - 1));
}

int main(int argc, char **argv)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	struct figures figures = { 0 };
	struct settings settings;
	struct session session;
	char line[64];

	client_begin(&settings, &argc, &argv, 0);
	session_init(&session, &settings, argc > 1 ? (uint32_t)atoi(argv[1]) : 0);
	if (session_open(&session) != NV_OK)
		return 1;
	setvbuf(stdout, NULL, _IONBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0);
	printf("steady begins\n");
	for (;;) {
		one_round(&session, &figures);
		if (argc > 0)
			usleep((useconds_t)atoi(argv[0]));
		if (poll(&input, 1, 0) <= 0)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			return 0;
		printf("steady calls=%lu failed=%lu longest_us=%lu\n", figures.calls, figures.failed, figures.longest);
		figures = (struct figures){ 0 };
	}
}
