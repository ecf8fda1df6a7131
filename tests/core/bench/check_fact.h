/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of test programs about a fact that does not hold. */
#ifndef CGPU_TEST_CHECK_FACT_H
#define CGPU_TEST_CHECK_FACT_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                        \
		}                                                                       \
	} while (0)

#define CHECK_EQ(found, wanted)                                                                                        \
	do {                                                                                                           \
		long long found_ = (long long)(found), wanted_ = (long long)(wanted);                                  \
		if (found_ != wanted_) {                                                                               \
			fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #found, found_, wanted_); \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

#endif
