/* SPDX-License-Identifier: Apache-2.0 */
/* Containers and charges whose processes have ended. */
#ifndef CGPUD_RECLAIM_H
#define CGPUD_RECLAIM_H

#include "cgpu_types.h"

struct cgpud;
struct reaper;

/* Watch the init process of every registered container; remove a container whose init has ended and
 * whose control group holds no process any more. Returns how many were removed. Reaper only. */
u32 reclaim_containers(struct cgpud *d);
/* Room is short, and removed containers have left memory behind: drop what the driver has dropped, and
 * wait a moment for what it is about to drop. Any thread. */
void reclaim_orphans(struct cgpud *d);
/* Be told when an init process ends; takes pidfd over when it succeeds. */
int reaper_watch_init(struct reaper *reaper, u32 slot, int pidfd);

#endif
