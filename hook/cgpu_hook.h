/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CGPU_HOOK_H
#define CGPU_HOOK_H

#include <stddef.h>

#ifndef CGPU_DRAINING_PATH
#define CGPU_DRAINING_PATH "/run/cgpu-draining"
#endif
#ifndef CGPU_HOOK_SCRIPT
#define CGPU_HOOK_SCRIPT "start.py"
#endif
/* RESTART_S of cgpu/client/tree.py. With a shorter hook_timeout the runtime ends the hook before that. */
#ifndef CGPU_RESTART_MS
#define CGPU_RESTART_MS 5000
#endif

/* MAX_STATE of hook/state.py. */
#define HOOK_STATE_MAX (1u << 20)
/* MAX_ID, MAX_CONTROL and MAX_REASON of cgpu/client/tree.py. */
#define HOOK_ID_MAX 127
#define HOOK_LINE_MAX 4096
#define HOOK_REASON_MAX 512

/* Return the pid in a container's state (OCI runtime-spec, runtime.md); 0 where the text has none, or is no whole object. */
long hook_find_pid(const char *text, size_t size);

#endif
