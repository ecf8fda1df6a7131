/* SPDX-License-Identifier: Apache-2.0 */
/* Serves system calls that a seccomp filter notifies: from the kernel's notification to the engine's answer. */
#ifndef CGPUD_SUPERVISE_H
#define CGPUD_SUPERVISE_H

#include "engine.h"

/* Ask the kernel for its sizes of struct seccomp_notif and struct seccomp_notif_resp. 0; -ENOSYS: the kernel has no
 * seccomp(2); -EPROTO: a size is larger than NOTIF_BYTES_MAX. */
int supervise_sizes(struct cgpud *d);
/* Functions by which worker threads serve notifications. libcgpud/engine.c passes them to the workers. */
extern const struct worker_work supervise_work;

#endif
