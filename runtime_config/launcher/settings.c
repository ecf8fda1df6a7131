// SPDX-License-Identifier: Apache-2.0
/*
 * The one setting the launcher needs, out of the file the engine writes: one flat JSON object of strings without
 * escapes, whole numbers, true, false and null. Anything else makes the settings unknown, and Python reads them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher.h"

#define SETTINGS_LIMIT 16384

struct token {
	const char *text; /* without the quotes of a string */
	size_t length;
	bool is_string;
};

struct cursor {
	const char *at;
	const char *end;
};

static void skip_space(struct cursor *cursor)
{
	while (cursor->at < cursor->end && memchr(" \t\r\n", *cursor->at, 4))
		cursor->at++;
}

static bool take(struct cursor *cursor, char wanted)
{
	skip_space(cursor);
	if (cursor->at == cursor->end || *cursor->at != wanted)
		return false;
	cursor->at++;
	return true;
}

static bool take_string(struct cursor *cursor, struct token *token)
{
	if (!take(cursor, '"'))
		return false;
	token->text = cursor->at;
	token->is_string = true;
	while (cursor->at < cursor->end && *cursor->at != '"') {
		if (*cursor->at == '\\' || (unsigned char)*cursor->at < 0x20)
			return false;
		cursor->at++;
	}
	token->length = (size_t)(cursor->at - token->text);
	return take(cursor, '"');
}

static bool take_bare(struct cursor *cursor, struct token *token)
{
	static const char allowed[] = "0123456789-aeflnrstu";

	token->text = cursor->at;
	token->is_string = false;
	while (cursor->at < cursor->end && memchr(allowed, *cursor->at, sizeof(allowed) - 1))
		cursor->at++;
	token->length = (size_t)(cursor->at - token->text);
	return token->length > 0;
}

static bool take_value(struct cursor *cursor, struct token *token)
{
	skip_space(cursor);
	if (cursor->at < cursor->end && *cursor->at == '"')
		return take_string(cursor, token);
	return take_bare(cursor, token);
}

static bool is_word(const struct token *token, const char *word)
{
	return token->length == strlen(word) && memcmp(token->text, word, token->length) == 0;
}

static bool note_runtime(const struct token *value, struct launcher_settings *settings)
{
	if (!value->is_string)
		return is_word(value, "null");
	if (value->length == 0 || value->length >= sizeof(settings->runtime) || value->text[0] != '/')
		return false;
	memcpy(settings->runtime, value->text, value->length);
	settings->runtime[value->length] = '\0';
	return true;
}

static bool note(const struct token *key, const struct token *value, struct launcher_settings *settings)
{
	if (!is_word(key, "low_level_runtime"))
		return true;
	return settings->runtime[0] == '\0' && note_runtime(value, settings);
}

static bool parse(struct cursor *cursor, struct launcher_settings *settings)
{
	struct token key;
	struct token value;
	bool more = true;

	if (!take(cursor, '{'))
		return false;
	if (take(cursor, '}'))
		more = false;
	while (more) {
		if (!take_string(cursor, &key) || !take(cursor, ':') || !take_value(cursor, &value))
			return false;
		if (!note(&key, &value, settings))
			return false;
		more = take(cursor, ',');
		if (!more && !take(cursor, '}'))
			return false;
	}
	skip_space(cursor);
	return cursor->at == cursor->end;
}

void launcher_read_settings(const char *path, struct launcher_settings *settings)
{
	char *text = NULL;
	long size = launcher_read_file(path, SETTINGS_LIMIT, &text);
	struct cursor cursor;

	memset(settings, 0, sizeof(*settings));
	if (size < 0) {
		/* Without a right to read it there is no engine to reach either: a rootless container engine. */
		settings->known = errno == ENOENT || errno == EACCES;
		return;
	}
	cursor.at = text;
	cursor.end = text + size;
	settings->known = parse(&cursor, settings);
	free(text);
}
