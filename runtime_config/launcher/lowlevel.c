// SPDX-License-Identifier: Apache-2.0
/*
 * Which low-level runtime does the work: the configured one, else the first found, never this program itself. The
 * setting is in the file that the engine writes: one flat JSON object of strings without escapes, whole numbers, true,
 * false and null. Anything else makes the settings unknown, and Python reads them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher.h"

#define VENDOR_RUNTIME "nvidia-container-runtime"
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

const char *launcher_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool launcher_may_return(const char *path)
{
	return strncmp(launcher_base_name(path), VENDOR_RUNTIME, strlen(VENDOR_RUNTIME)) == 0;
}

/* Whether a path leads to a program of our names: this one, or another copy of it, as a wheel brings it. */
static bool is_ours(const char *path)
{
	char real[PATH_MAX];
	const char *name = realpath(path, real) ? launcher_base_name(real) : "";

	return strcmp(name, LAUNCHER_NAME) == 0 || strcmp(name, LAUNCHER_LOW_LEVEL) == 0;
}

static bool usable(const char *path)
{
	struct stat status;
	struct stat self;

	if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) || access(path, X_OK) != 0 || is_ours(path))
		return false;
	if (stat("/proc/self/exe", &self) != 0)
		return false;
	return status.st_dev != self.st_dev || status.st_ino != self.st_ino;
}

static bool search(const char *name, char path[PATH_MAX])
{
	const char *at = CGPU_SEARCH_PATH;

	while (*at) {
		size_t length = strcspn(at, ":");
		int written = snprintf(path, PATH_MAX, "%.*s/%s", (int)length, at, name);

		if (written > 0 && written < PATH_MAX && usable(path))
			return true;
		at += length;
		at += *at == ':';
	}
	return false;
}

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

/* Take a member of the settings. False: it is not what the engine writes. */
static bool note(const struct token *key, const struct token *value, char runtime[PATH_MAX])
{
	if (!is_word(key, "low_level_runtime"))
		return true;
	if (runtime[0])
		return false;
	if (!value->is_string)
		return is_word(value, "null");
	if (value->length == 0 || value->length >= PATH_MAX || value->text[0] != '/')
		return false;
	memcpy(runtime, value->text, value->length);
	runtime[value->length] = '\0';
	return true;
}

static bool parse(struct cursor *cursor, char runtime[PATH_MAX])
{
	struct token key;
	struct token value;
	bool more;

	if (!take(cursor, '{'))
		return false;
	more = !take(cursor, '}');
	while (more) {
		if (!take_string(cursor, &key) || !take(cursor, ':') || !take_value(cursor, &value))
			return false;
		if (!note(&key, &value, runtime))
			return false;
		more = take(cursor, ',');
		if (!more && !take(cursor, '}'))
			return false;
	}
	skip_space(cursor);
	return cursor->at == cursor->end;
}

/* Read low_level_runtime, empty where it is not set. False: the settings are not what the engine writes. */
static bool read_settings(char runtime[PATH_MAX])
{
	char *text = NULL;
	long size = launcher_read_file(CGPU_CONFIG_PATH, SETTINGS_LIMIT, &text);
	struct cursor cursor = { text, text + (size < 0 ? 0 : size) };
	bool known;

	runtime[0] = '\0';
	/* Without a right to read it there is no engine to reach either: a rootless container engine. */
	if (size < 0)
		return errno == ENOENT || errno == EACCES;
	known = parse(&cursor, runtime);
	free(text);
	return known;
}

bool launcher_find_runtime(bool plain, char path[PATH_MAX])
{
	if (!read_settings(path))
		return false;
	if (path[0] && !(plain && launcher_may_return(path)))
		return usable(path);
	if (!plain && search(VENDOR_RUNTIME, path))
		return true;
	return search("runc", path) || search("crun", path);
}
