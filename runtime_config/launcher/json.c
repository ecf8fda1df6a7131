// SPDX-License-Identifier: Apache-2.0
/* A strict reader of one JSON object (RFC 8259), without recursion and without allocation. */
#include <string.h>

#include "json.h"

#define NESTING_MAX 32
#define DIGITS_MAX 18

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

static bool take_hex(struct cursor *cursor)
{
	for (int i = 0; i < 4; i++, cursor->at++) {
		if (cursor->at == cursor->end || !memchr("0123456789abcdefABCDEF", *cursor->at, 22))
			return false;
	}
	return true;
}

/* Take the part of an escape that follows the backslash. */
static bool take_escape(struct cursor *cursor)
{
	if (cursor->at == cursor->end)
		return false;
	if (*cursor->at == 'u') {
		cursor->at++;
		return take_hex(cursor);
	}
	return memchr("\"\\/bfnrt", *cursor->at++, 8) != NULL;
}

static bool take_string(struct cursor *cursor, struct json_token *token)
{
	if (!take(cursor, '"'))
		return false;
	*token = (struct json_token){ .kind = JSON_STRING, .text = cursor->at };
	while (cursor->at < cursor->end && *cursor->at != '"') {
		unsigned char letter = (unsigned char)*cursor->at++;

		if (letter < 0x20 || letter > 0x7e)
			return false;
		if (letter == '\\') {
			token->escaped = true;
			if (!take_escape(cursor))
				return false;
		}
	}
	token->length = (size_t)(cursor->at - token->text);
	return take(cursor, '"');
}

static bool take_number(struct cursor *cursor, struct json_token *token)
{
	const char *first;

	*token = (struct json_token){ .kind = JSON_NUMBER, .text = cursor->at };
	if (*cursor->at == '-')
		cursor->at++;
	first = cursor->at;
	while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9')
		cursor->at++;
	token->length = (size_t)(cursor->at - token->text);
	if (cursor->at == first || cursor->at - first > DIGITS_MAX || (*first == '0' && cursor->at - first > 1))
		return false;
	/* A fraction or an exponent. */
	return cursor->at == cursor->end || !memchr(".eE", *cursor->at, 3);
}

static bool take_word(struct cursor *cursor, struct json_token *token)
{
	static const char *const words[] = { "true", "false", "null", NULL };

	for (int i = 0; words[i]; i++) {
		size_t length = strlen(words[i]);

		if ((size_t)(cursor->end - cursor->at) >= length && memcmp(cursor->at, words[i], length) == 0) {
			*token = (struct json_token){ .kind = JSON_WORD, .text = cursor->at, .length = length };
			cursor->at += length;
			return true;
		}
	}
	return false;
}

static bool take_scalar(struct cursor *cursor, struct json_token *token)
{
	skip_space(cursor);
	if (cursor->at == cursor->end)
		return false;
	if (*cursor->at == '"')
		return take_string(cursor, token);
	if (*cursor->at == '-' || (*cursor->at >= '0' && *cursor->at <= '9'))
		return take_number(cursor, token);
	return take_word(cursor, token);
}

static bool take_key(struct cursor *cursor, struct json_token *key)
{
	return take_string(cursor, key) && !key->escaped && take(cursor, ':');
}

/* Behind a value: the ends of what it closes, then the comma before the next one. */
static bool take_closers(struct cursor *cursor, const char *closers, int *depth)
{
	struct json_token key;

	while (*depth && take(cursor, closers[*depth - 1]))
		--*depth;
	if (!*depth)
		return true;
	return take(cursor, ',') && (closers[*depth - 1] == ']' || take_key(cursor, &key));
}

static bool take_nested(struct cursor *cursor, struct json_token *token)
{
	char closers[NESTING_MAX];
	struct json_token inner;
	const char *first = cursor->at;
	int depth = 0;

	do {
		bool opened = false;

		skip_space(cursor);
		if (cursor->at < cursor->end && (*cursor->at == '{' || *cursor->at == '[')) {
			if (depth == NESTING_MAX)
				return false;
			closers[depth++] = *cursor->at++ == '{' ? '}' : ']';
			skip_space(cursor);
			opened = cursor->at == cursor->end || *cursor->at != closers[depth - 1];
			if (opened && closers[depth - 1] == '}' && !take_key(cursor, &inner))
				return false;
		} else if (!take_scalar(cursor, &inner)) {
			return false;
		}
		if (!opened && !take_closers(cursor, closers, &depth))
			return false;
	} while (depth);
	*token = (struct json_token){ .kind = JSON_NESTED, .text = first, .length = (size_t)(cursor->at - first) };
	return true;
}

static bool take_value(struct cursor *cursor, struct json_token *token)
{
	skip_space(cursor);
	if (cursor->at < cursor->end && (*cursor->at == '{' || *cursor->at == '['))
		return take_nested(cursor, token);
	return take_scalar(cursor, token);
}

bool json_read_object(const char *text, size_t size, json_member member, void *context)
{
	struct cursor cursor = { text, text + size };
	struct json_token key;
	struct json_token value;
	bool more;

	if (!take(&cursor, '{'))
		return false;
	more = !take(&cursor, '}');
	while (more) {
		if (!take_key(&cursor, &key) || !take_value(&cursor, &value) || !member(&key, &value, context))
			return false;
		more = take(&cursor, ',');
		if (!more && !take(&cursor, '}'))
			return false;
	}
	skip_space(&cursor);
	return cursor.at == cursor.end;
}

bool json_copy_path(const struct json_token *token, char path[PATH_MAX])
{
	if (token->kind != JSON_STRING || token->escaped || token->length == 0 || token->length >= PATH_MAX ||
		token->text[0] != '/')
		return false;
	memcpy(path, token->text, token->length);
	path[token->length] = '\0';
	return true;
}

bool json_is(const struct json_token *token, const char *word)
{
	return token->length == strlen(word) && memcmp(token->text, word, token->length) == 0;
}
