// SPDX-License-Identifier: Apache-2.0
/* The reader of JSON that the launcher and the hook have, on texts of exact size. */
#include "json.c"
#include "../must.h"

struct seen {
	const char *at;
	const char *end;
	size_t members;
	size_t refuse; /* the member with this number, if there is one */
	enum json_kind kind; /* of the last value */
};

static void check_value(const struct json_token *value)
{
	char path[PATH_MAX];
	char first = value->length ? value->text[0] : '\0';

	if (value->kind == JSON_STRING)
		MUST(value->text[-1] == '"' && value->text[value->length] == '"');
	if (value->kind == JSON_NUMBER)
		MUST(value->length > 0 && value->length <= DIGITS_MAX + 1);
	if (value->kind == JSON_WORD)
		MUST(json_is(value, "true") || json_is(value, "false") || json_is(value, "null"));
	if (value->kind == JSON_NESTED)
		MUST(value->length > 1 && value->text[value->length - 1] == (first == '{' ? '}' : ']'));
	if (json_copy_path(value, path))
		MUST(value->kind == JSON_STRING && path[0] == '/' && strlen(path) == value->length);
}

static bool note(const struct json_token *key, const struct json_token *value, void *context)
{
	struct seen *seen = context;

	MUST(key->kind == JSON_STRING && !key->escaped);
	MUST(seen->at < key->text && key->text + key->length < value->text);
	MUST(value->text + value->length <= seen->end);
	check_value(value);
	seen->at = value->text + value->length - 1;
	seen->kind = value->kind;
	return ++seen->members != seen->refuse;
}

static bool reads(const char *text, size_t size, size_t refuse, struct seen *seen)
{
	*seen = (struct seen){ .at = text, .end = text + size, .refuse = refuse };
	return json_read_object(text, size, note, seen);
}

/* The first bytes of a text, alone in their memory. */
static bool reads_first(const char *text, size_t size)
{
	char *copy = malloc(size ? size : 1);
	struct seen seen;
	bool taken;

	MUST(copy);
	memcpy(copy, text, size);
	taken = reads(copy, size, 0, &seen);
	free(copy);
	return taken;
}

/* An object as the value of another one: only its depth may be too much. */
static void nest(const char *text, size_t size)
{
	size_t whole = size + 6, openers = 0, i;
	char *copy = malloc(whole);
	struct seen seen;

	MUST(copy);
	memcpy(copy, "{\"k\":", 5);
	memcpy(copy + 5, text, size);
	copy[whole - 1] = '}';
	for (i = 0; i < size; i++)
		openers += text[i] == '{' || text[i] == '[';
	if (reads(copy, whole, 0, &seen))
		MUST(seen.members == 1 && seen.kind == JSON_NESTED);
	else
		MUST(openers > NESTING_MAX);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const char *text = (const char *)data;
	struct seen seen, again;
	size_t last = bytes;

	if (!reads(text, bytes, 0, &seen))
		return 0;
	if (seen.members)
		MUST(!reads(text, bytes, seen.members, &again) && again.members == seen.members);
	while (text[last - 1] != '}')
		last--;
	MUST(!reads_first(text, last - 1) && reads_first(text, last));
	nest(text, bytes);
	return 0;
}
