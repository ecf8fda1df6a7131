// SPDX-License-Identifier: Apache-2.0
/* The table of clients whose groups have timeslices, by handle. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/random.h>

#include "engine.h"
#include "timeslice.h"

void timeslice_init(struct cgpud *d)
{
	struct timeslices *timeslices = &d->timeslices;
	u32 i;

	pthread_mutex_init(&timeslices->lock, NULL);
	for (i = 0; i < CGPU_MAX_CONTAINERS; i++)
		pthread_mutex_init(&timeslices->busy[i], NULL);
	/* Containers may choose handles: which ones share a place is not theirs to know. */
	if (getrandom(&timeslices->seed, sizeof(timeslices->seed), GRND_NONBLOCK) != sizeof(timeslices->seed))
		timeslices->seed = 0;
}

/* Whether it is the better one to be taken for another client. */
static int is_rather(const struct timeslice_client *place, const struct timeslice_client *than)
{
	if (!place->client || !than->client)
		return !place->client;
	if (!place->left != !than->left)
		return !place->left;
	return place->order < than->order;
}

/* Under the lock: the place that a client has, or is to have. */
static struct timeslice_client *place_of(struct timeslices *timeslices, u32 client)
{
	u32 first = ((client ^ timeslices->seed) * 2654435761u >> 16) % TIMESLICE_CLIENTS, i;
	struct timeslice_client *found = &timeslices->at[first], *place;

	for (i = 0; i < TIMESLICE_PROBES; i++) {
		place = &timeslices->at[(first + i) % TIMESLICE_CLIENTS];
		if (place->client == client)
			return place;
		if (is_rather(place, found))
			found = place;
	}
	return found;
}

static void set_left(struct timeslices *timeslices, struct timeslice_client *place, u32 left)
{
	if (!place->left && left)
		atomic_fetch_add(&timeslices->left, 1);
	if (place->left && !left)
		atomic_fetch_sub(&timeslices->left, 1);
	place->left = left;
}

int timeslice_find(struct timeslices *timeslices, u32 client, struct timeslice_client *found)
{
	struct timeslice_client *place;
	int r = 0;

	pthread_mutex_lock(&timeslices->lock);
	place = place_of(timeslices, client);
	if (client && place->client == client) {
		*found = *place;
		r = 1;
	}
	pthread_mutex_unlock(&timeslices->lock);
	return r;
}

void timeslice_remember(struct timeslices *timeslices, const struct timeslice_client *one)
{
	struct timeslice_client *place;

	pthread_mutex_lock(&timeslices->lock);
	place = place_of(timeslices, one->client);
	set_left(timeslices, place, place->client == one->client ? place->left | one->left : one->left);
	place->client = one->client;
	place->order = ++timeslices->order;
	place->tid = one->tid;
	place->tgid = one->tgid;
	place->number = one->number;
	place->slot = one->slot;
	place->mark = one->mark;
	place->started = one->started;
	place->searched = one->searched;
	pthread_mutex_unlock(&timeslices->lock);
}

void timeslice_not_left(struct timeslices *timeslices, u32 client, u32 gpus)
{
	struct timeslice_client *place;

	pthread_mutex_lock(&timeslices->lock);
	place = place_of(timeslices, client);
	if (place->client == client)
		set_left(timeslices, place, place->left & ~gpus);
	pthread_mutex_unlock(&timeslices->lock);
}
