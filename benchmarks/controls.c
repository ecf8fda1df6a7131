// SPDX-License-Identifier: Apache-2.0
/* controls ROUNDS: ns to look up the verdict of a control: of each known one, of a family, of an unknown one. */
#include <stdio.h>
#include <stdlib.h>

#include "call/call.h"
#include "clock.h"

#define FAMILY 0x20808159u
#define NOBODY 0x7fffffffu

static double each(u32 rounds, u32 one)
{
	volatile u32 sum = 0;
	uint64_t start = clock_now();
	u32 i, j;

	for (i = 0; i < rounds; i++) {
		/* In an order that a processor cannot guess. */
		for (j = 0; j < nv_controls_count; j++)
			sum += core_control_verdict(one ? one : nv_controls[j * 769u % nv_controls_count].number);
	}
	return (double)(clock_now() - start) / ((double)rounds * nv_controls_count);
}

int main(int argc, char **argv)
{
	u32 rounds = argc > 1 ? (u32)strtoul(argv[1], NULL, 0) : 10000;

	printf("known %.1f family %.1f none %.1f controls %u bytes %zu\n", each(rounds, 0), each(rounds, FAMILY),
		each(rounds, NOBODY), nv_controls_count, nv_controls_count * sizeof(nv_controls[0]));
	return 0;
}
