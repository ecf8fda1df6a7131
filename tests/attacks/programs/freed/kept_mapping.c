// SPDX-License-Identifier: Apache-2.0
/*
 * kept_mapping [--dev DIR] keeper card|host early|late: files by which memory is mapped, and the memory freed behind them. Early:
 * they are mapped before that, and late after it, when the test has sent a line. Rests with how many show what the neighbour wrote.
 *
 * kept_mapping [--dev DIR] neighbour card|host: memory of its own, mapped when the test has sent a line. Rests, after another line,
 * with how much of it somebody has written to.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

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
static sigjmp_buf not_mapped;

struct mapped {
	int fd;
	volatile uint64_t *at; /* NULL: it is not mapped */
};

static uint32_t make_memory(uint32_t handle)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &settings.abi->NV_MEMORY_ALLOCATION_PARAMS;
	uint32_t attr = of_card ? NVOS32_ATTR_PAGE_SIZE_BIG << NVOS32_ATTR_PAGE_SIZE_SHIFT :
				  NVOS32_ATTR_LOCATION_PCI << NVOS32_ATTR_LOCATION_SHIFT |
			NVOS32_ATTR_COHERENCY_CACHED << NVOS32_ATTR_COHERENCY_SHIFT;
	uint8_t params[CLIENT_PARAMS] = { 0 };

	rm_memory_params(params, settings.abi, attr, BYTES);
	return session_alloc(&session, session.device, of_card ? NV01_MEMORY_LOCAL_USER : NV01_MEMORY_SYSTEM, params,
		at->bytes, &handle);
}

/* Allocate memory, and ready a file to map it. */
static bool ready(uint32_t handle, struct mapped *mapped)
{
	mapped->at = NULL;
	mapped->fd = driver_open(&settings, of_card ? "nvidia0" : "nvidiactl");
	return make_memory(handle) == NV_OK &&
		client_map_memory(&session, session.device, handle, mapped->fd, BYTES) == NV_OK;
}

static void map(struct mapped *mapped)
{
	void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, mapped->fd, 0);

	mapped->at = at == MAP_FAILED ? NULL : at;
}

static void leave(int signal)
{
	(void)signal;
	siglongjmp(not_mapped, 1);
}

/* What is there; 0: nothing is. Overwrites it. */
static uint64_t look(volatile uint64_t *at)
{
	uint64_t found;

	if (!at || sigsetjmp(not_mapped, 1))
		return 0;
	found = *at;
	*at = KEEPER;
	return found;
}

static int keep(bool early)
{
	uint32_t i, made = 0, freed = 0, saw = 0;
	static struct mapped mapped[KEPT];

	for (i = 0; i < KEPT; i++) {
		made += ready(MEMORY + i, &mapped[i]);
		if (early)
			map(&mapped[i]);
	}
	for (i = 0; i < KEPT; i++)
		freed += session_free(&session, MEMORY + i) == NV_OK;
	printf("freed made=%u freed=%u\n", made, freed);
	client_next();
	for (i = 0; i < KEPT; i++) {
		if (!early)
			map(&mapped[i]);
		saw += look(mapped[i].at) == SECRET;
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
		map(&mapped[i]);
		if (mapped[i].at)
			*mapped[i].at = SECRET;
	}
	printf("has made=%u\n", made);
	client_next();
	for (i = 0; i < OWN; i++)
		written += look(mapped[i].at) != SECRET;
	printf("resting written=%u\n", written);
	client_rest();
}

int main(int argc, char **argv)
{
	client_begin(&settings, &argc, &argv, 2);
	client_open(&session, &settings);
	signal(SIGBUS, leave);
	of_card = strcmp(argv[1], "card") == 0;
	if (strcmp(argv[0], "neighbour") == 0)
		return own();
	return argc == 3 ? keep(strcmp(argv[2], "early") == 0) : 2;
}
