/* SPDX-License-Identifier: Apache-2.0 */
/* Places of the loaded driver that the witness watches: functions by the kernel's symbols, and returns in their code. */
#ifndef CGPU_WITNESS_PLACES_H
#define CGPU_WITNESS_PLACES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PLACES_RETURNS 2u /* x86 has four registers, and the two entries take one each */

/* Why the driver's pages cannot be watched: a word for tools, and one line for people. */
struct obstacle {
	const char *word;
	char text[192];
};

struct span {
	uint64_t begin, end;
};

/* Functions of the driver, and the kernel's thunk in place of returns, 0 without one. */
struct symbols {
	struct span allocate, free, chunks, numa;
	uint64_t thunk;
};

struct returns {
	uint64_t address[PLACES_RETURNS];
	unsigned int count;
};

/* Read lines of /proc/kallsyms. These return 0, or -1 with the obstacle. */
int symbols_read(FILE *table, struct symbols *symbols, struct obstacle *obstacle);
/* Find the addresses at which the code of pmaAllocatePages() returns. */
int returns_find(uint8_t *code, const struct symbols *symbols, struct returns *returns, struct obstacle *obstacle);

#endif
