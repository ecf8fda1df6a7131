// SPDX-License-Identifier: Apache-2.0
/* The container's state as a runtime gives it to a hook (OCI runtime-spec, runtime.md). */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "hook.h"
#include "json.h"

#define PID_MAX_LIMIT (1L << 22)
#define PID_TEXT sizeof("4194304")

struct reading {
	struct hook_state *state;
	bool has_pid;
};

/* Whether an id may be the name of a node of the tree, which Python refuses: these have small letters and _ alone. */
static bool is_like_node(const char *id)
{
	return !id[strspn(id, "abcdefghijklmnopqrstuvwxyz_")];
}

/* An id that is one word of a line for the engine. */
static bool take_id(const struct json_token *value, char id[HOOK_ID_MAX + 1])
{
	if (value->kind != JSON_STRING || value->length == 0 || value->length > HOOK_ID_MAX || id[0])
		return false;
	for (size_t i = 0; i < value->length; i++) {
		if (!isalnum((unsigned char)value->text[i]) && !memchr("_.+-", value->text[i], 4))
			return false;
	}
	memcpy(id, value->text, value->length);
	id[value->length] = '\0';
	return id[0] != '-' && strcmp(id, ".") != 0 && strcmp(id, "..") != 0 && !is_like_node(id);
}

static bool take_pid(const struct json_token *value, struct reading *reading)
{
	char digits[PID_TEXT] = "";

	if (value->kind != JSON_NUMBER || reading->has_pid || value->length >= sizeof(digits))
		return false;
	reading->has_pid = true;
	memcpy(digits, value->text, value->length); /* nothing ends the text behind its last byte */
	reading->state->pid = strtol(digits, NULL, 10);
	return reading->state->pid >= 0 && reading->state->pid <= PID_MAX_LIMIT;
}

static bool note(const struct json_token *key, const struct json_token *value, void *context)
{
	struct reading *reading = context;

	if (json_is(key, "id"))
		return take_id(value, reading->state->id);
	if (json_is(key, "pid"))
		return take_pid(value, reading);
	/* Before version 1.0.0-rc2 the bundle was called bundlePath. */
	if (json_is(key, "bundle") || json_is(key, "bundlePath"))
		return value->kind == JSON_STRING;
	return true;
}

bool hook_read_state(const char *text, size_t size, struct hook_state *state)
{
	struct reading reading = { .state = state };

	*state = (struct hook_state){ .pid = 0 };
	return json_read_object(text, size, note, &reading) && state->id[0];
}
