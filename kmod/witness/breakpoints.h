/* SPDX-License-Identifier: Apache-2.0 */
/* Hardware breakpoints on each processor, which call programs in the kernel. */
#ifndef CGPU_WITNESS_BREAKPOINTS_H
#define CGPU_WITNESS_BREAKPOINTS_H

#include <stdbool.h>
#include <stdint.h>

#include "witness.h"

#define BREAKPOINTS_MAX 4 /* that x86 has */

struct breakpoint {
	uint64_t address;
	enum witness_place place;
	int program; /* its descriptor */
};

struct breakpoints_state {
	unsigned int online, watched; /* processors */
	unsigned int processor; /* one that is not watched */
	int error; /* of that, negative */
	unsigned int again; /* processors that are watched since this look */
};

/* Have so many breakpoints from now on. 0, or a negative errno. */
int breakpoints_init(const struct breakpoint *wanted, unsigned int count);
/* Place breakpoints on processors that have none, as after they came, or after others have given their registers back. */
void breakpoints_place(struct breakpoints_state *state);
/* How often a place was reached. */
uint64_t breakpoints_hits(enum witness_place place);

#endif
