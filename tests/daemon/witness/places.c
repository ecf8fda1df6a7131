// SPDX-License-Identifier: Apache-2.0
/* places TABLE CODE: finds the places of a driver by lines of /proc/kallsyms, and the code of its allocator, in hexadecimal. */
#include <stdlib.h>
#include <string.h>

#include "places.h"

#define CODE_BYTES 4096

int main(int argc, char **argv)
{
	static uint8_t code[CODE_BYTES];
	struct obstacle obstacle;
	struct symbols symbols;
	struct returns returns;
	FILE *table = argc == 3 ? fopen(argv[1], "re") : NULL;
	unsigned int i;

	if (!table || strlen(argv[2]) > 2 * sizeof(code))
		return 2;
	memset(code, 0x90, sizeof(code));
	for (i = 0; argv[2][2 * i]; i++)
		code[i] = (uint8_t)strtoul((char[]){ argv[2][2 * i], argv[2][2 * i + 1], 0 }, NULL, 16);
	if (symbols_read(table, &symbols, &obstacle) || returns_find(code, &symbols, &returns, &obstacle)) {
		printf("%s: %s\n", obstacle.word, obstacle.text);
		return 1;
	}
	printf("%lx %lx %lx %lx", symbols.allocate.begin, symbols.free.begin, symbols.chunks.begin, symbols.chunks.end);
	for (i = 0; i < returns.count; i++)
		printf(" +%lu", returns.address[i] - symbols.allocate.begin);
	putchar('\n');
	return 0;
}
