/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points of every fuzz target, and its assertion. */
#ifndef CGPU_FUZZ_MUST_H
#define CGPU_FUZZ_MUST_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(condition)                                                                 \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#endif
