/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgpu-hook without Python, for the calls that need no rule: the runtime wrapper has worked out what the container gets,
 * and the arguments say it. Each function here returns false in doubt and after a failure; hook/main.py then does the
 * whole call, and says what is wrong.
 */
#ifndef CGPU_HOOK_H
#define CGPU_HOOK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#ifndef CGPU_DRAINING_PATH
#define CGPU_DRAINING_PATH "/run/cgpu-draining"
#endif
#ifndef CGPU_TREE_MODULE
#define CGPU_TREE_MODULE "/proc/cgpu_km"
#endif
#ifndef CGPU_TREE_DAEMON
#define CGPU_TREE_DAEMON "/run/cgpu_km"
#endif
#ifndef CGPU_LOG_PATH
#define CGPU_LOG_PATH "/dev/log"
#endif
#ifndef CGPU_HOOK_SCRIPT
#define CGPU_HOOK_SCRIPT "start.py"
#endif

#define HOOK_NAME "cgpu-hook"
#define HOOK_ID_MAX 127
/* As in hook/state.py. */
#define HOOK_STATE_MAX (1u << 20)
/* As in cgpu/client/tree.py. */
#define HOOK_LINE_MAX 4096

/* Members of an OCI state that the hook needs. */
struct hook_state {
	char id[HOOK_ID_MAX + 1];
	long pid; /* 0: not given */
};

/* Read the state of a container from its JSON text. */
bool hook_read_state(const char *text, size_t size, struct hook_state *state);

/* Find the engine's tree in the effective configuration. False too where the log has another form than text. */
bool hook_find_tree(char tree[PATH_MAX]);

/* Register a container for what the arguments behind the stage say. A failed call has registered nothing. */
bool hook_register(const char *tree, const struct hook_state *state, int argc, char *const *argv);

/* Write a line about a container to the system log, where there is one. */
void hook_log(const char *container, const char *line);

/* Remove a container's registration. */
bool hook_remove(const char *tree, const struct hook_state *state);

#endif
