// SPDX-License-Identifier: Apache-2.0
/*
 * Clients, and the objects of all of them: one hash table by client and handle, and a tree in each client. A client belongs
 * to the open file description that made it, not to a process; one of the kernel to none.
 *
 * Clients of the same process may duplicate each other's objects, and NV_ESC_RM_SHARE gives others leave for an object and
 * all below it (resserv/src/rs_access_map.c, rmapi/sharing.c). The simulation records that right alone, and takes none back.
 * All clients count as of one user, and nothing is shared by card or instance, which memory is not by itself.
 */
#include <stdlib.h>

#include "backing.h"
#include "engines.h"

/* Start of the handles that the driver chooses itself (rs_client.h RS_UNIQUE_HANDLE_BASE). */
#define HANDLE_BASE 0xcaf00000u
/* resserv.h RS_CLIENT_HANDLE_BASE and RS_CLIENT_HANDLE_MAX. */
#define CLIENT_BASE 0xc1d00000u
#define CLIENT_RANGE 0x100000u

#define DUP (1u << RS_ACCESS_DUP_OBJECT)
/* Rights that an owner has without a check of access (rs_access_rights.c). */
#define OWNER_RIGHTS (DUP | 1u << RS_ACCESS_DEBUG)

/* Leave for others to duplicate an object and all below it. */
struct share {
	struct share *next;
	uint16_t type;
	uint32_t target;
	uint64_t target_number; /* of the client that has this handle now */
};

static void shares_free(struct object *object)
{
	struct share *next;

	for (; object->shares; object->shares = next) {
		next = object->shares->next;
		free(object->shares);
	}
}

static bool share_matches(const struct share *share, const struct client *owner, const struct client *client)
{
	switch (share->type) {
	case RS_SHARE_TYPE_ALL:
	case RS_SHARE_TYPE_OS_SECURITY_TOKEN:
		return true;
	case RS_SHARE_TYPE_CLIENT:
		return share->target == client->handle && share->target_number == client->number;
	default:
		return share->type == RS_SHARE_TYPE_PID && owner->process == client->process;
	}
}

bool share_lets_dup(const struct object *object, const struct client *client)
{
	const struct object *at;
	const struct share *share;

	if (object->client == client || object->client->process == client->process)
		return true;
	for (at = object; at; at = at->parent) {
		for (share = at->shares; share; share = share->next) {
			if (share_matches(share, object->client, client))
				return true;
		}
	}
	return false;
}

uint32_t share_add(
	struct sim *sim, struct object *object, uint16_t type, uint8_t action, uint32_t target, uint32_t rights)
{
	const struct client *client = client_find(sim, target);
	struct share *share;

	if (type >= RS_SHARE_TYPE_MAX)
		return NV_ERR_INVALID_ARGUMENT;
	if (type == RS_SHARE_TYPE_CLIENT && !client)
		return NV_ERR_INVALID_OBJECT_HANDLE;
	if (action & (RS_SHARE_ACTION_FLAG_REVOKE | RS_SHARE_ACTION_FLAG_REQUIRE))
		return NV_ERR_NOT_SUPPORTED;
	if (rights & ~OWNER_RIGHTS)
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	share = rights & DUP ? calloc(1, sizeof(*share)) : NULL;
	if (!share)
		return rights & DUP ? NV_ERR_NO_MEMORY : NV_OK;
	*share = (struct share){ object->shares, type, target, client ? client->number : 0 };
	object->shares = share;
	return NV_OK;
}

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

static struct object *dependant(const struct object *va_space)
{
	struct object *at = va_space->client->root;

	while ((at = object_next(va_space->client->root, at))) {
		if (at->va_space == va_space->handle)
			return at;
	}
	return NULL;
}

/* Frees the dependants of an address space before the space itself (refAddDependant). */
static void free_dependants(struct sim *sim, const struct object *va_space)
{
	struct object *at;

	while (va_space->class_id == FERMI_VASPACE_A && (at = dependant(va_space)))
		object_free(sim, at);
}

static void remove_leaf(struct sim *sim, struct object *object)
{
	struct object **at = &sim->buckets[bucket_of(object->client, object->handle)];

	free_dependants(sim, object);
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
	tables_free(sim, object);
	backing_put(sim, object->backing);
	if (object->work)
		sim->contents->forget_work(sim, object);
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

uint32_t object_without_parent(struct sim *sim)
{
	sim->stuck |= version_at_least(sim, 575, 51, 2) && !version_at_least(sim, 615, 0, 0);
	return NV_ERR_OBJECT_NOT_FOUND;
}

uint32_t object_duplicate(struct sim *sim, const struct object *source, struct object *parent, uint32_t *handle)
{
	struct object *copy;
	uint32_t status = object_create(sim, parent->client, parent, handle, source->class_id, &copy);

	if (status != NV_OK)
		return status;
	copy->va_space = copy->client == source->client ? source->va_space : 0;
	copy->external = source->external;
	copy->memory = source->memory;
	if (copy->memory)
		copy->memory->refs++;
	copy->backing = source->backing;
	if (copy->backing)
		copy->backing->refs++;
	engines_share(source, copy);
	return NV_OK;
}

struct client *client_find(struct sim *sim, uint32_t handle)
{
	struct client *at = sim->clients;

	while (at && at->handle != handle)
		at = at->next;
	return at;
}

struct client *client_numbered(const struct sim *sim, uint64_t number)
{
	struct client *at = sim->clients;

	while (at && at->number != number)
		at = at->next;
	return at;
}

static uint32_t choose_client_handle(struct sim *sim)
{
	uint32_t handle;

	do {
		handle = CLIENT_BASE + sim->next_client;
		sim->next_client = (sim->next_client + 1) % CLIENT_RANGE;
	} while (client_find(sim, handle));
	return handle;
}

uint32_t client_create(struct sim *sim, struct open_file *owner, struct alloc_request *request)
{
	/* The driver takes the handle from where others name their client, and not from that of a new object. */
	uint32_t chosen = request->client, status;
	struct client *client;

	if (chosen != 0 && client_find(sim, chosen))
		return NV_ERR_INSERT_DUPLICATE_NAME;
	if (sim->client_count >= SIM_MAX_CLIENTS)
		return NV_ERR_INSUFFICIENT_RESOURCES;
	client = calloc(1, sizeof(*client));
	if (!client)
		return NV_ERR_INSUFFICIENT_RESOURCES;
	client->handle = chosen != 0 ? chosen : choose_client_handle(sim);
	client->number = ++sim->last_client;
	client->owner = owner;
	client->process = request->process;
	request->handle = client->handle;
	status = object_create(sim, client, NULL, &request->handle, NV01_ROOT_CLIENT, &client->root);
	if (status != NV_OK) {
		free(client);
		return status;
	}
	client->next = sim->clients;
	sim->clients = client;
	sim->client_count++;
	return NV_OK;
}

void client_free(struct sim *sim, struct client *client)
{
	struct client **at = &sim->clients;

	object_free(sim, client->root);
	while (*at != client)
		at = &(*at)->next;
	*at = client->next;
	sim->client_count--;
	free(client);
}

void clients_free_of(struct sim *sim, const struct open_file *owner)
{
	struct client *at = sim->clients, *next;

	for (; at; at = next) {
		next = at->next;
		if (at->owner == owner)
			client_free(sim, at);
	}
}

uint32_t client_for_call(struct call *call, uint32_t handle, struct client **client)
{
	*client = client_find(call->sim, handle);
	if (!*client)
		return NV_ERR_INVALID_OBJECT_HANDLE;
	if (call_is_kernel(call))
		return NV_OK;
	if (!(*client)->owner || (*client)->owner->id != file_identity(call->file))
		return NV_ERR_INVALID_CLIENT;
	return NV_OK;
}

static uint32_t share_object(struct call *call, uint16_t type)
{
	const struct nv_layout_NVOS57_PARAMETERS *at = &call->sim->abi->NVOS57_PARAMETERS;
	uint32_t handle = get32(call->data, at->hClient), status = NV_OK;
	struct client *client = client_find(call->sim, handle);
	struct object *object;

	/* rs_server.c:1763: the driver does not check whose client that is, where one client gets leave. */
	if (type != RS_SHARE_TYPE_CLIENT)
		status = client_for_call(call, handle, &client);
	else if (!client)
		status = NV_ERR_INVALID_OBJECT_HANDLE;
	if (status != NV_OK)
		return status;
	object = object_find(call->sim, client, get32(call->data, at->hObject));
	if (!object)
		return NV_ERR_OBJECT_NOT_FOUND;
	return share_add(call->sim, object, type, call->data[at->sharePolicy_action],
		get32(call->data, at->sharePolicy_target), get32(call->data, at->sharePolicy_accessMask));
}

int escape_share(struct call *call)
{
	const struct nv_layout_NVOS57_PARAMETERS *at = &call->sim->abi->NVOS57_PARAMETERS;
	uint32_t status;

	pthread_mutex_lock(&call->sim->lock);
	status = share_object(call, get16(call->data, at->sharePolicy_type));
	pthread_mutex_unlock(&call->sim->lock);
	put32(call->data, at->status, status);
	return 0;
}
