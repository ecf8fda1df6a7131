// SPDX-License-Identifier: Apache-2.0
/* Fuzz target: how the hook finds the pid in a container's state, on texts of exact size. */
#define _GNU_SOURCE
#include "state_pid.c"
#include "../must.h"

static long find(const char *text, size_t size)
{
	char *copy = malloc(size ? size : 1);
	long pid;

	MUST(copy);
	memcpy(copy, text, size);
	pid = hook_find_pid(copy, size);
	free(copy);
	return pid;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const char *text = (const char *)data;
	long pid = find(text, bytes);

	MUST(pid >= 0 && pid <= PID_MAX_LIMIT);
	MUST(!pid || memmem(text, bytes, KEY, sizeof(KEY) - 1));
	/* A state that was cut is none. */
	if (pid && bytes)
		MUST(text[bytes - 1] != '}' || find(text, bytes - 1) == 0);
	return 0;
}
