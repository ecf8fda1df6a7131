// SPDX-License-Identifier: Apache-2.0
/*
 * The engine's tree, by the effective configuration: the file that an engine writes. As for Python, a key that is not
 * known or has another type makes the whole file unknown.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config_defaults.h"
#include "hook.h"
#include "json.h"
#include "launcher.h"

#define SETTINGS_LIMIT (1u << 16)

enum { BOOLEAN = 1, INTEGER = 2, STRING = 4, NULLABLE = 8 };

struct setting {
	const char *key;
	int types;
};

#define SETTING(key, types) { #key, types },
static const struct setting settings[] = { CGPU_CONFIG_KEYS(SETTING) };

static int type_of(const struct json_token *value)
{
	switch (value->kind) {
	case JSON_STRING:
		return value->escaped ? 0 : STRING;
	case JSON_NUMBER:
		return INTEGER;
	case JSON_WORD:
		return json_is(value, "null") ? NULLABLE : BOOLEAN;
	default:
		return 0;
	}
}

static bool is_known(const struct json_token *key, const struct json_token *value)
{
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (json_is(key, settings[i].key))
			return (settings[i].types & type_of(value)) != 0;
	}
	return false;
}

static bool note(const struct json_token *key, const struct json_token *value, void *context)
{
	char *tree = context;

	if (!is_known(key, value))
		return false;
	if (json_is(key, "log_format"))
		return json_is(value, "text");
	if (!json_is(key, "tree"))
		return true;
	if (tree[0])
		return false; /* of two, Python takes the last */
	return value->kind != JSON_STRING || json_copy_path(value, tree);
}

bool hook_find_tree(char tree[PATH_MAX])
{
	char *text = NULL;
	long size = launcher_read_file(CGPU_CONFIG_PATH, SETTINGS_LIMIT, &text);
	bool known = size < 0 && errno == ENOENT;

	tree[0] = '\0';
	if (size >= 0)
		known = json_read_object(text, (size_t)size, note, tree);
	free(text);
	if (known && !tree[0])
		strcpy(tree, access(CGPU_TREE_MODULE "/version", F_OK) == 0 ? CGPU_TREE_MODULE : CGPU_TREE_DAEMON);
	return known;
}
