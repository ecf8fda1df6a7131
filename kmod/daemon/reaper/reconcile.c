// SPDX-License-Identifier: Apache-2.0
/* Drops charges and clients whose processes have ended. */
#define _GNU_SOURCE
#include <unistd.h>

#include "engine.h"
#include "processes.h"

#define CHARGES_MAX 1024
#define CLIENTS_MAX 1024
#define OWNERSHIPS_MAX 8
#define ORPHANS_WAIT_US 200000

/* Ask the driver for every client of a process. Returns how many are left. */
static u32 drop_dead_clients(struct cgpud *d, u32 slot, s32 tgid)
{
	u32 client[CLIENTS_MAX], cursor = 0, n = 0, left = 0, i;

	while (n < CLIENTS_MAX && cgpu_client_next(&d->core, tgid, &cursor, &client[n]) == 0)
		n++;
	for (i = 0; i < n; i++) {
		/* The container must not make it anew between question and consequence. */
		pthread_mutex_lock(engine_order(d, slot));
		if (driver_client_gone(&d->driver, client[i]))
			cgpu_client_gone(&d->core, tgid, client[i]);
		else
			left++;
		pthread_mutex_unlock(engine_order(d, slot));
	}
	return left;
}

/* The figure counts by the process that made the client, the charge by the one that allocated: after a
 * fork these differ. So a low figure only says where to look, and a charge goes with its client. Returns
 * 1 when the process has ended and the driver has not released its memory yet. */
static u32 reconcile_one(struct cgpud *d, u32 slot, const struct cgpu_process_charge *charge)
{
	u32 ended = process_has_ended(charge->tgid) ? 1 : 0;
	u64 used = 0;

	/* The driver has no figure for an estimate: ask for its client when room is short. */
	if (!ended && charge->reported == 0)
		return 0;
	/* A drop of the process's dead clients drops their charges. */
	if ((driver_process_bytes(&d->driver, charge->gpu, charge->tgid, &used) < 0 || used < charge->reported ||
		    ended) &&
		drop_dead_clients(d, slot, charge->tgid) == 0)
		return 0;
	return ended;
}

/* Clients without a charge have records too. Ask for clients of a live process only when room is short:
 * the process may have closed its descriptor. */
static void drop_idle_clients(struct cgpud *d, u32 slot, u32 of_live_too)
{
	u32 cursor = 0, n = 0, i;
	s32 tgid[CHARGES_MAX];

	while (n < CHARGES_MAX && cgpu_process_known(&d->core, slot, &cursor, &tgid[n]) == 0)
		n++;
	for (i = 0; i < n; i++)
		if (of_live_too || process_has_ended(tgid[i]))
			drop_dead_clients(d, slot, tgid[i]);
}

static u32 reconcile_container(struct cgpud *d, u32 slot, u32 of_live_too)
{
	struct cgpu_process_charge charge[CHARGES_MAX];
	u32 cursor = 0, n = 0, late = 0, i;

	while (n < CHARGES_MAX && cgpu_process_next(&d->core, slot, &cursor, &charge[n]) == 0)
		n++;
	for (i = 0; i < n; i++)
		late += reconcile_one(d, slot, &charge[i]);
	drop_idle_clients(d, slot, of_live_too);
	managed_drop_ended(d, slot);
	return late;
}

/* Returns how many clients of removed containers, and files of ended processes, are left. */
static u32 drop_gone_orphans(struct cgpud *d)
{
	u32 cursor = 0, client, left = 0;
	s32 tgid;

	managed_drop_ended(d, CGPU_ORPHANS);
	/* No process can make an orphan anew, so any order will do. */
	while (cgpu_orphan_next(&d->core, &cursor, &tgid, &client) == 0) {
		if (driver_client_gone(&d->driver, client))
			cgpu_orphan_gone(&d->core, tgid, client);
		else
			left++;
	}
	return left + external_left(d);
}

u32 reaper_reconcile(struct cgpud *d, s64 slot)
{
	struct cgpu_container_info info;
	u32 at, late = files_sweep(d);

	if (slot >= 0)
		return late + reconcile_container(d, (u32)slot, 1);
	for (at = 0; cgpu_container_next(&d->core, at, &info) == 0; at = info.slot + 1)
		late += reconcile_container(d, info.slot, 0);
	address_spaces_sweep(&d->managed.spaces, NULL);
	drop_gone_orphans(d);
	return late;
}

void reaper_drop_orphans(struct cgpud *d)
{
	useconds_t wait_us;

	/* The container has just ended, as a rule, and the driver is about to clean up. */
	for (wait_us = 500; files_sweep(d) + drop_gone_orphans(d) && wait_us < ORPHANS_WAIT_US; wait_us *= 2)
		usleep(wait_us);
}

/* A client that the driver has given out again has none of the objects that its record has. */
static int is_stale(struct cgpud *d, const struct cgpu_ownership *owned)
{
	u32 i;

	if (driver_client_gone(&d->driver, owned->client))
		return 1;
	for (i = 0; i < owned->handles; i++)
		if (!driver_object_gone(&d->driver, owned->client, owned->handle[i]))
			return 0;
	return owned->handles > 0;
}

void reaper_drop_stale_client(struct cgpud *d, u32 slot, u32 client)
{
	struct cgpu_ownership owned;
	u32 round, owner;
	int stale = 1;

	for (round = 0; round < OWNERSHIPS_MAX && stale; round++) {
		if (cgpu_ownership_find(&d->core, slot, client, &owned) < 0)
			return;
		/* The owner must not change anything between question and consequence. */
		owner = owned.slot;
		pthread_mutex_lock(engine_order(d, owner));
		stale = cgpu_ownership_find(&d->core, slot, client, &owned) == 0 && owned.slot == owner &&
			is_stale(d, &owned);
		if (stale)
			cgpu_ownership_drop(&d->core, &owned);
		pthread_mutex_unlock(engine_order(d, owner));
	}
}
