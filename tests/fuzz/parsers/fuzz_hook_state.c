// SPDX-License-Identifier: Apache-2.0
/* Fuzz target: the hook's reader of a container's state. */
#include "json.c"
#include "state.c"
#include "../must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct hook_state state;
	size_t length;

	memset(&state, 'x', sizeof(state));
	if (!hook_read_state((const char *)data, bytes, &state))
		return 0;
	length = strnlen(state.id, sizeof(state.id));
	MUST(length > 0 && length <= HOOK_ID_MAX && state.id[0] != '-');
	for (size_t i = 0; i < length; i++)
		MUST(isalnum((unsigned char)state.id[i]) || strchr("_.+-", state.id[i]));
	MUST(state.pid >= 0 && state.pid <= PID_MAX_LIMIT);
	return 0;
}
