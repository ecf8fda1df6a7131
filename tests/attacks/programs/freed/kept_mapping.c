// SPDX-License-Identifier: Apache-2.0
/*
 * kept_mapping [--dev DIR] keeper card|host early|late: files by which memory is mapped, and the memory freed behind them. Early:
 * they are mapped before that, and late after it, when the test has sent a line. Rests with how many show what the neighbour wrote.
 *
 * kept_mapping [--dev DIR] neighbour card|host: memory of its own, mapped when the test has sent a line. Rests, after another line,
 * with how much of it somebody has written to.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "client.h"

#define MEMORY 0x5d400000u
#define BYTES 65536u
#define KEPT 24u
#define OWN 32u
#define KEEPER 0x1111111111111111ull
#define SECRET 0x2222222222222222ull

static struct settings settings;
static struct session session;
static bool of_card;

struct mapped {
	int fd;
	volatile uint64_t *at; /* NULL: it is not mapped */
};

/* Allocate memory, and ready a file to map it. */
static bool ready(uint32_t handle, struct mapped *mapped)
{
	mapped->at = NULL;
	mapped->fd = driver_open(&settings, of_card ? "nvidia0" : "nvidiactl");
	return (of_card ? client_memory(&session, handle, BYTES) : client_host_memory(&session, handle, BYTES)) ==
		NV_OK &&
		client_map_memory(&session, session.device, handle, mapped->fd, BYTES) == NV_OK;
}

static int keep(bool early)
{
	uint32_t i, made = 0, freed = 0, saw = 0;
	static struct mapped mapped[KEPT];

	for (i = 0; i < KEPT; i++) {
		made += ready(MEMORY + i, &mapped[i]);
		if (early)
			mapped[i].at = client_map_file(mapped[i].fd, BYTES);
	}
	for (i = 0; i < KEPT; i++)
		freed += session_free(&session, MEMORY + i) == NV_OK;
	printf("freed made=%u freed=%u\n", made, freed);
	client_next();
	for (i = 0; i < KEPT; i++) {
		if (!early)
			mapped[i].at = client_map_file(mapped[i].fd, BYTES);
		saw += client_look(mapped[i].at, KEEPER) == SECRET;
	}
	printf("resting saw=%u\n", saw);
	client_rest();
}

static int own(void)
{
	uint32_t i, made = 0, written = 0;
	static struct mapped mapped[OWN];

	printf("ready\n");
	client_next();
	for (i = 0; i < OWN; i++) {
		made += ready(MEMORY + i, &mapped[i]);
		mapped[i].at = client_map_file(mapped[i].fd, BYTES);
		if (mapped[i].at)
			*mapped[i].at = SECRET;
	}
	printf("has made=%u\n", made);
	client_next();
	for (i = 0; i < OWN; i++)
		written += client_look(mapped[i].at, KEEPER) != SECRET;
	printf("resting written=%u\n", written);
	client_rest();
}

int main(int argc, char **argv)
{
	client_begin(&settings, &argc, &argv, 2);
	client_open(&session, &settings);
	of_card = strcmp(argv[1], "card") == 0;
	if (strcmp(argv[0], "neighbour") == 0)
		return own();
	return argc == 3 ? keep(strcmp(argv[2], "early") == 0) : 2;
}
