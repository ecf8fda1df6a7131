/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the entries `stat`. */
#ifndef CGPU_TEST_STATS_H
#define CGPU_TEST_STATS_H

#include <stdlib.h>
#include "bench.h"

/* The number of a key in the first line of an entry. */
static __attribute__((unused)) u64 stat_of(struct bench *bench, const char *path, const char *key)
{
	char text[16384], word[64];
	const char *at;

	CHECK(bench_read(bench, path, text, sizeof(text)) > 0);
	*strchr(text, '\n') = 0;
	snprintf(word, sizeof(word), " %s=", key);
	at = strstr(text, word);
	CHECK(at != NULL);
	return strtoull(at + strlen(word), NULL, 10);
}

#define CHECK_STAT(path, key, value) CHECK_EQ(stat_of(bench, path, key), value)

#endif
