// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the member pid of a container's state. A runtime writes the state, but annotations in it may be an image's, so the
 * reader knows what is a string and what is nested; of all else it needs nothing.
 */
#include <string.h>

#include "cgpu_hook.h"

#define PID_MAX_LIMIT (1L << 22)
#define KEY "\"pid\""

/* Return what follows a string that begins at its quote; NULL where it does not end. */
static const char *skip_string(const char *at, const char *end)
{
	for (at++; at < end && *at != '"'; at++)
		at += *at == '\\';
	return at < end ? at + 1 : NULL;
}

static const char *skip_space(const char *at, const char *end)
{
	while (at < end && memchr(" \t\r\n", *at, 4))
		at++;
	return at;
}

/* Return a whole number that ends as a member does, from 1 to the most that Linux gives; else 0. */
static long read_pid(const char *at, const char *end)
{
	long pid = 0;

	while (at < end && *at >= '0' && *at <= '9' && pid <= PID_MAX_LIMIT)
		pid = pid * 10 + (*at++ - '0');
	at = skip_space(at, end);
	return at < end && (*at == ',' || *at == '}') && pid <= PID_MAX_LIMIT ? pid : 0;
}

/* Return where the value begins if a string was the key pid, else NULL. */
static const char *value_of_pid(const char *key, const char *after, const char *end)
{
	after = skip_space(after, end);
	if (memcmp(key, KEY, sizeof(KEY) - 1) != 0 || after == end || *after != ':')
		return NULL;
	return skip_space(after + 1, end);
}

long hook_find_pid(const char *text, size_t size)
{
	const char *end = text + size, *at = text, *value;
	long pid = 0;
	int depth = 0, found = 0;

	while (at < end) {
		const char *key = at;

		if (*at != '"') {
			depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
			at++;
			continue;
		}
		at = skip_string(at, end);
		if (!at)
			return 0;
		value = depth == 1 && at - key == sizeof(KEY) - 1 ? value_of_pid(key, at, end) : NULL;
		if (value) {
			pid = read_pid(value, end);
			found++;
		}
	}
	/* Readers differ in which of two equal members they take. */
	return depth == 0 && found == 1 ? pid : 0;
}
