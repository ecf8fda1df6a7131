// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <string.h>
#include <sys/random.h>

#include "engine.h"
#include "timeslice.h"

void slicing_init(struct cgpud *d)
{
	struct slicing *slicing = &d->slicing;
	u32 i;

	pthread_mutex_init(&slicing->lock, NULL);
	for (i = 0; i < CGPU_MAX_CONTAINERS; i++)
		pthread_mutex_init(&slicing->busy[i], NULL);
	/* Containers may choose handles: which ones share a place is not theirs to know. */
	if (getrandom(&slicing->seed, sizeof(slicing->seed), GRND_NONBLOCK) != sizeof(slicing->seed))
		slicing->seed = 0;
}

/* Whether it is the better one to be taken for another client. */
static int is_rather(const struct slicing_client *place, const struct slicing_client *than)
{
	if (!place->client || !than->client)
		return !place->client;
	if (!place->left != !than->left)
		return !place->left;
	return place->order < than->order;
}

/* Under the lock: the place that a client has, or is to have. */
static struct slicing_client *place_of(struct slicing *slicing, u32 client)
{
	u32 first = ((client ^ slicing->seed) * 2654435761u >> 16) % SLICING_CLIENTS, i;
	struct slicing_client *found = &slicing->at[first], *place;

	for (i = 0; i < SLICING_PROBES; i++) {
		place = &slicing->at[(first + i) % SLICING_CLIENTS];
		if (place->client == client)
			return place;
		if (is_rather(place, found))
			found = place;
	}
	return found;
}

static void set_left(struct slicing *slicing, struct slicing_client *place, u32 left)
{
	if (!place->left && left)
		atomic_fetch_add(&slicing->left, 1);
	if (place->left && !left)
		atomic_fetch_sub(&slicing->left, 1);
	place->left = left;
}

int slicing_find(struct slicing *slicing, u32 client, struct slicing_client *found)
{
	struct slicing_client *place;
	int r = 0;

	pthread_mutex_lock(&slicing->lock);
	place = place_of(slicing, client);
	if (client && place->client == client) {
		*found = *place;
		r = 1;
	}
	pthread_mutex_unlock(&slicing->lock);
	return r;
}

void slicing_remember(struct slicing *slicing, const struct slicing_client *one)
{
	struct slicing_client *place;

	pthread_mutex_lock(&slicing->lock);
	place = place_of(slicing, one->client);
	set_left(slicing, place, place->client == one->client ? place->left | one->left : one->left);
	place->client = one->client;
	place->order = ++slicing->order;
	place->tid = one->tid;
	place->tgid = one->tgid;
	place->number = one->number;
	place->slot = one->slot;
	place->mark = one->mark;
	place->started = one->started;
	place->searched = one->searched;
	pthread_mutex_unlock(&slicing->lock);
}

void slicing_not_left(struct slicing *slicing, u32 client, u32 gpus)
{
	struct slicing_client *place;

	pthread_mutex_lock(&slicing->lock);
	place = place_of(slicing, client);
	if (place->client == client)
		set_left(slicing, place, place->left & ~gpus);
	pthread_mutex_unlock(&slicing->lock);
}
