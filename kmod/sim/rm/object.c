// SPDX-License-Identifier: Apache-2.0
/* Objects of all clients: one hash table by client and handle, and a tree in each client. */
#include <stdlib.h>

#include "backing.h"
#include "engines.h"

/* Where the driver's own choice of handles begins (rs_client.h RS_UNIQUE_HANDLE_BASE). */
#define HANDLE_BASE 0xcaf00000u

static uint32_t bucket_of(const struct client *client, uint32_t handle)
{
	uint64_t key = ((uint64_t)client->handle << 32 | handle) * 0x9e3779b97f4a7c15ull;

	return (uint32_t)(key >> 46) % SIM_BUCKETS;
}

struct object *object_find(struct sim *sim, const struct client *client, uint32_t handle)
{
	struct object *at = sim->buckets[bucket_of(client, handle)];

	while (at && (at->client != client || at->handle != handle))
		at = at->bucket_next;
	return at;
}

static uint32_t choose_handle(struct sim *sim, struct client *client)
{
	uint32_t tries, handle;

	for (tries = 0; tries < SIM_MAX_CLIENT_OBJECTS; tries++) {
		handle = HANDLE_BASE + client->next_handle;
		client->next_handle = (client->next_handle + 1) % SIM_MAX_CLIENT_OBJECTS;
		if (!object_find(sim, client, handle))
			return handle;
	}
	return 0;
}

static void link_object(struct sim *sim, struct object *object, struct object *parent)
{
	uint32_t bucket = bucket_of(object->client, object->handle);

	object->bucket_next = sim->buckets[bucket];
	sim->buckets[bucket] = object;
	if (parent) {
		object->parent = parent;
		object->depth = (uint16_t)(parent->depth + 1);
		object->next = parent->child;
		if (object->next)
			object->next->prev = object;
		parent->child = object;
	}
	sim->object_count++;
	object->client->objects++;
}

uint32_t object_create(struct sim *sim, struct client *client, struct object *parent, uint32_t *handle,
	uint32_t class_id, struct object **created)
{
	struct object *object;

	if (parent && *handle == client->handle)
		return NV_ERR_INVALID_OBJECT_HANDLE;
	if (*handle != 0 && object_find(sim, client, *handle))
		return NV_ERR_INSERT_DUPLICATE_NAME;
	if (parent && parent->depth + 1u > SIM_MAX_DEPTH)
		return NV_ERR_ILLEGAL_ACTION;
	if (client->objects >= SIM_MAX_CLIENT_OBJECTS || sim->object_count >= SIM_MAX_OBJECTS)
		return NV_ERR_INSUFFICIENT_RESOURCES;
	object = calloc(1, sizeof(*object));
	if (!object)
		return NV_ERR_INSUFFICIENT_RESOURCES;
	if (*handle == 0)
		*handle = choose_handle(sim, client);
	object->client = client;
	object->handle = *handle;
	object->class_id = class_id;
	object->card = parent ? parent->card : SIM_NO_CARD;
	link_object(sim, object, parent);
	*created = object;
	return NV_OK;
}

static void remove_leaf(struct sim *sim, struct object *object)
{
	struct object **at = &sim->buckets[bucket_of(object->client, object->handle)];

	while (*at != object)
		at = &(*at)->bucket_next;
	*at = object->bucket_next;
	if (object->prev)
		object->prev->next = object->next;
	else if (object->parent)
		object->parent->child = object->next;
	if (object->next)
		object->next->prev = object->prev;
	if (object->memory)
		memory_release(sim, object->memory);
	backing_put(sim, object->backing);
	if (object->maps)
		sim->forget_maps(sim, object);
	if (object->work)
		sim->forget_work(sim, object);
	shares_free(object);
	engines_leave(sim, object);
	sim->object_count--;
	object->client->objects--;
	free(object);
}

void object_free(struct sim *sim, struct object *object)
{
	struct object *at = object, *above;

	for (;;) {
		while (at->child)
			at = at->child;
		above = at->parent;
		if (at == object)
			break;
		remove_leaf(sim, at);
		at = above;
	}
	remove_leaf(sim, object);
}

/* The object after `at` in a walk over everything below top; NULL at the end. Start with at = top. */
struct object *object_next(const struct object *top, struct object *at)
{
	if (at->child)
		return at->child;
	while (at != top && !at->next)
		at = at->parent;
	return at == top ? NULL : at->next;
}
