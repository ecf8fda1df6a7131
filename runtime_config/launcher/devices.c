// SPDX-License-Identifier: Apache-2.0
/*
 * Device nodes of the driver in a config.json, without a parser: a "major" of the driver's or of the DRM, and a rule
 * of the device cgroup that allows every major (as for a privileged container). Keys, numbers and words have to be as
 * every engine writes them; anything else "may" give a device node.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher.h"

/* Linux, Documentation/admin-guide/devices.txt */
#define MAJOR_NVIDIA 195
#define MAJOR_DRM 226
#define MAJORS_MAX 32
#define DRIVER "nvidia"

struct majors {
	long number[MAJORS_MAX];
	size_t count;
	bool whole; /* false: there may be more */
};

static void read_majors(struct majors *majors)
{
	FILE *file = fopen(CGPU_DEVICES_PATH, "re");
	char line[128];
	char name[64];
	long number;

	majors->number[0] = MAJOR_NVIDIA;
	majors->number[1] = MAJOR_DRM;
	majors->count = 2;
	majors->whole = file != NULL;
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "Block", 5) == 0)
			break;
		if (sscanf(line, "%ld %63s", &number, name) != 2 || strncmp(name, DRIVER, strlen(DRIVER)) != 0)
			continue;
		if (majors->count == MAJORS_MAX) {
			majors->whole = false;
			break;
		}
		majors->number[majors->count++] = number;
	}
	if (file)
		fclose(file);
}

static const char *skip_space(const char *at, const char *end)
{
	while (at < end && memchr(" \t\r\n", *at, 4))
		at++;
	return at;
}

/* The value of the next member of that name, which has to be quoted; NULL: there is none. */
static const char *value_of(const char *at, const char *end, const char *quoted)
{
	while ((at = memmem(at, (size_t)(end - at), quoted, strlen(quoted)))) {
		at = skip_space(at + strlen(quoted), end);
		if (at < end && *at == ':')
			return skip_space(at + 1, end);
	}
	return NULL;
}

/* Whether a major is none of the driver's for sure: a plain number, and another one. */
static bool is_foreign(const char *at, const char *end, const struct majors *majors)
{
	long number = 0;
	int digits = 0;

	for (; at < end && *at >= '0' && *at <= '9' && digits < 9; at++, digits++)
		number = number * 10 + (*at - '0');
	at = skip_space(at, end);
	if (!digits || at == end || !memchr(",}", *at, 2))
		return false;
	for (size_t i = 0; i < majors->count; i++)
		if (majors->number[i] == number)
			return false;
	return true;
}

static bool has_driver_major(const char *text, const char *end)
{
	const char *at = text;
	struct majors majors;

	majors.count = 0;
	while ((at = value_of(at, end, "\"major\""))) {
		if (!majors.count)
			read_majors(&majors);
		if (!majors.whole || !is_foreign(at, end, &majors))
			return true;
	}
	return false;
}

static bool is_word(const char *at, const char *end, const char *word)
{
	return (size_t)(end - at) >= strlen(word) && memcmp(at, word, strlen(word)) == 0;
}

/* Whether one rule, an object without objects in it, allows every major to be opened, or may. */
static bool is_wide(const char *rule, const char *end)
{
	const char *allow = value_of(rule, end, "\"allow\"");
	const char *access = value_of(rule, end, "\"access\"");
	const char *type = value_of(rule, end, "\"type\"");

	if (!allow)
		return true;
	if (is_word(allow, end, "false") || value_of(rule, end, "\"major\""))
		return false;
	return !(access && is_word(access, end, "\"m\"")) && !(type && is_word(type, end, "\"b\""));
}

static bool has_wide_rule(const char *text, const char *end)
{
	const char *at = text;

	while ((at = value_of(at, end, "\"allow\""))) {
		const char *first = memrchr(text, '{', (size_t)(at - text));
		const char *last = memchr(at, '}', (size_t)(end - at));

		if (!first || !last || is_wide(first, last))
			return true;
	}
	return false;
}

bool launcher_may_open_driver(const char *text, size_t size)
{
	const char *end = text + size;

	return has_driver_major(text, end) || has_wide_rule(text, end);
}
