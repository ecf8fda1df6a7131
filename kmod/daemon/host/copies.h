/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of containers' descriptors. A descriptor is looked at first, without a copy. Between that look and the copy the
 * container can put any other file under its number, and some files cannot be closed: FUSE asks the file system's own
 * server at each close, and waits for it whatever signal comes (fs/fuse/file.c, fuse_flush). A process in which one thread
 * waits so can be killed by nobody. So each thread has its copies made by a small process of its own, which hands on
 * what is the very node that was looked at, and closes anything else itself. It keeps no copy: who has one has the only one. It has nothing of the daemon: no lock, no
 * listener. While it waits, so does its thread, by a wait that a signal ends: a container keeps no more of these processes
 * than of workers.
 */
#ifndef CGPUD_COPIES_H
#define CGPUD_COPIES_H

#include <stdatomic.h>

#include "device.h"

/*
 * A copy of a descriptor of the pidfd's task, which has to lead to the node that was looked at. -EBADF: it leads nowhere, or
 * elsewhere; -EINTR: *stopping has been set for a second; -ETIMEDOUT: after wait_ms (0: never); other negative errno. Without locks that others
 * wait for.
 */
int copies_take(int pidfd, int number, const struct identity *node, const atomic_uint *stopping, u32 wait_ms);
/* The calling thread needs no more copies. */
void copies_end(void);

#endif
