// SPDX-License-Identifier: Apache-2.0
/* Writes to inst_ctl: one per line of the input. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	struct fuzz *fuzz = fuzz_core();
	struct cgpu_node control;
	size_t from = 0, at;

	MUST(cgpu_tree_lookup(&fuzz->core, "inst_ctl", &control) == 0);
	for (at = 0; at <= bytes; at++) {
		char *line;

		if (at < bytes && data[at] != '\n')
			continue;
		/* A copy of exactly the line, so that reading past its end is seen. */
		line = malloc(at - from + 1);
		MUST(line);
		memcpy(line, data + from, at - from);
		fuzz_write(fuzz, &control, line, at - from);
		free(line);
		fuzz_check(fuzz);
		from = at + 1;
	}
	return 0;
}
