// SPDX-License-Identifier: Apache-2.0
/* Counts helpers that do not end, by whose they are. */
#include <ctype.h>
#include <string.h>

#include "descriptors.h"
#include "processes.h"
#include "stuck.h"

void stuck_open(struct stuck *stuck)
{
	pthread_mutex_init(&stuck->lock, NULL);
}

void stuck_close(struct stuck *stuck)
{
	while (stuck->count)
		close_any(stuck->at[--stuck->count].pidfd);
}

/*
 * How much of a control group's path leads to a pod; 0: it is in none. Kubelet names the group pod<UID>, with systemd
 * kubepods-pod<UID>.slice (kubernetes/pkg/kubelet/cm/pod_container_manager_linux.go), Podman machine-libpod_pod_<ID>.slice.
 */
static size_t pod_bytes(const char *cgroup)
{
	const char *at = cgroup;

	while ((at = strstr(at + 1, "pod"))) {
		if (strchr("/-_", at[-1]) && (isxdigit((unsigned char)at[3]) || at[3] == '_'))
			return (size_t)(at - cgroup) + strcspn(at, "/");
	}
	return 0;
}

static u64 hash(const char *text, size_t bytes)
{
	u64 value = 0xcbf29ce484222325ull;
	size_t i;

	for (i = 0; i < bytes; i++)
		value = (value ^ (unsigned char)text[i]) * 0x100000001b3ull;
	return value;
}

struct stuck_owner stuck_owner_of(const struct cgpu_container_info *info)
{
	size_t pod = info->cgroup[0] ? pod_bytes(info->cgroup) : 0;

	return (struct stuck_owner){ .key = pod ? hash(info->cgroup, pod) : hash(info->id, strlen(info->id)) };
}

struct stuck_owner stuck_owner_gone(u64 generation)
{
	return (struct stuck_owner){ .key = generation, .gone = 1 };
}

/* With the lock. */
static void drop_ended(struct stuck *stuck)
{
	u32 i = 0;

	while (i < stuck->count) {
		if (process_ended(stuck->at[i].pidfd)) {
			close_any(stuck->at[i].pidfd);
			stuck->at[i] = stuck->at[--stuck->count];
		} else {
			i++;
		}
	}
}

/* Whether one more of these is at most half of the places that all others leave. */
static int is_half(const struct stuck *stuck, u32 count)
{
	return 2 * (count + 1) + (stuck->count - count) <= STUCK_MAX;
}

int stuck_has_room(struct stuck *stuck, const struct stuck_owner *owner)
{
	u32 i, own = 0, gone = 0;
	int room;

	pthread_mutex_lock(&stuck->lock);
	drop_ended(stuck);
	for (i = 0; i < stuck->count; i++) {
		gone += stuck->at[i].owner.gone;
		own += stuck->at[i].owner.key == owner->key && stuck->at[i].owner.gone == owner->gone;
	}
	room = own < STUCK_SHARE && is_half(stuck, own) && (!owner->gone || is_half(stuck, gone));
	pthread_mutex_unlock(&stuck->lock);
	return room;
}

void stuck_add(struct stuck *stuck, const struct stuck_owner *owner, int pidfd)
{
	pthread_mutex_lock(&stuck->lock);
	if (stuck->count == STUCK_ROOM)
		drop_ended(stuck);
	if (stuck->count < STUCK_ROOM) {
		stuck->at[stuck->count].pidfd = pidfd;
		stuck->at[stuck->count++].owner = *owner;
		pidfd = -1;
	}
	pthread_mutex_unlock(&stuck->lock);
	close_any(pidfd);
}
