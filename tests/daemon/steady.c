// SPDX-License-Identifier: Apache-2.0
/*
 * steady --dev DIR [USEC]: allocates and frees without an end, USEC microseconds apart. For each line on standard input it
 * prints how many calls there were since the last one, how many failed, and how long the longest took; at the end of the
 * input it ends.
 */
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "rm_calls.h"

#define OBJECT 0x500u
#define BYTES (1ull << 20)

struct figures {
	unsigned long calls, failed, longest;
};

static unsigned long now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (unsigned long)now.tv_sec * 1000000 + (unsigned long)now.tv_nsec / 1000;
}

static void count(struct figures *figures, unsigned long began, uint32_t status)
{
	unsigned long took = now_us() - began;

	figures->calls++;
	figures->failed += status != 0;
	if (took > figures->longest)
		figures->longest = took;
}

static void one_round(const struct rm *rm, struct figures *figures)
{
	uint8_t data[64] = { 0 }, params[256] = { 0 }, freed[64] = { 0 };
	unsigned long began = now_us();

	memory_fill(rm, params, BYTES);
	alloc_fill(rm, data, DEVICE, OBJECT, NV01_MEMORY_LOCAL_USER, params);
	count(figures, began, alloc_call(rm, data));
	began = now_us();
	free_fill(rm, freed, OBJECT);
	count(figures, began, free_call(rm, freed));
}

int main(int argc, char **argv)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	struct figures figures = { 0 };
	char line[64];
	struct rm rm;

	if (argc < 3 || rm_open(&rm, argv[2]))
		return 1;
	setvbuf(stdout, NULL, _IONBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0);
	printf("steady begins\n");
	for (;;) {
		one_round(&rm, &figures);
		if (argc > 3)
			usleep((useconds_t)atoi(argv[3]));
		if (poll(&input, 1, 0) <= 0)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			return 0;
		printf("steady calls=%lu failed=%lu longest_us=%lu\n", figures.calls, figures.failed, figures.longest);
		figures = (struct figures){ 0 };
	}
}
