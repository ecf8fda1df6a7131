/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads JSON objects that programs of this project or an OCI runtime write. The reader takes less than JSON allows, and
 * never more: Python judges the rest. A text is one object in ASCII; its numbers are whole ones of at most 18 digits;
 * control characters and bytes above 127 are refused everywhere.
 */
#ifndef CGPU_JSON_H
#define CGPU_JSON_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum json_kind {
	JSON_STRING, /* text is what stands between the quotes, with escapes as written */
	JSON_NUMBER, /* a whole one */
	JSON_WORD, /* true, false or null */
	JSON_NESTED, /* an object or an array, which is well-formed */
};

struct json_token {
	enum json_kind kind;
	const char *text;
	size_t length;
	bool escaped; /* a string with a backslash in it */
};

/* Takes one member of an object; false ends the reading. */
typedef bool (*json_member)(const struct json_token *key, const struct json_token *value, void *context);

/* Read a text that is one object and give each member to a function. False: it is not taken, or the function said so. */
bool json_read_object(const char *text, size_t size, json_member member, void *context);

/* Copy an absolute path. False: the token is no string without escapes, or none that is one. */
bool json_copy_path(const struct json_token *token, char path[PATH_MAX]);

/* Whether a token's text is that word. */
bool json_is(const struct json_token *token, const char *word);

#endif
