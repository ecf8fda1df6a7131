/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers that were killed and have not ended: memory of a hostile process keeps one for as long as that likes. They are
 * tasks of the service, which systemd bounds, so all of them together have a bound. A pod, or a container outside of pods, has
 * a share, and keeps it when it is registered anew: a restart would else bring it the next one.
 */
#ifndef CGPUD_STUCK_H
#define CGPUD_STUCK_H

#include <pthread.h>

#include "cgpu_core.h"

#define STUCK_MAX 1024 /* a quarter of TasksMax= in cgpud.service */
#define STUCK_SHARE 4 /* of one owner, which may never have more than half of the places that others leave */
#define STUCK_ROOM 2304 /* helpers that were started within the bound may get stuck all at once */

/* Owner of a stuck helper. */
struct stuck_owner {
	u64 key; /* of a pod, a container, or the registration of one that is gone */
	u32 gone; /* 1: of a container that is gone; all of these have one share of half, too */
};

struct stuck {
	pthread_mutex_t lock;
	u32 count;
	struct {
		int pidfd;
		struct stuck_owner owner;
	} at[STUCK_ROOM];
};

void stuck_open(struct stuck *stuck);
void stuck_close(struct stuck *stuck);
struct stuck_owner stuck_owner_of(const struct cgpu_container_info *info);
struct stuck_owner stuck_owner_gone(u64 generation);
/* 1 when an owner may have one more helper. */
int stuck_has_room(struct stuck *stuck, const struct stuck_owner *owner);
/* Counts a helper until it ends; owns its pidfd from here on. */
void stuck_add(struct stuck *stuck, const struct stuck_owner *owner, int pidfd);

#endif
