// SPDX-License-Identifier: Apache-2.0
/*
 * Who may duplicate an object of another client's: those of the same process, until NV_ESC_RM_SHARE says otherwise
 * (resserv/src/rs_access_map.c, rmapi/sharing.c). Of the rights only that one is kept. All clients count as of one user,
 * and nothing is shared by card or instance, which memory is not by itself.
 */
#include <stdlib.h>

#include "sim.h"

#define DUP (1u << RS_ACCESS_DUP_OBJECT)
/* What an owner has without being asked who he is (rs_access_rights.c). */
#define OWNER_RIGHTS (DUP | 1u << RS_ACCESS_DEBUG)

/* One line of an object's list. */
struct share {
	struct share *next;
	uint16_t type;
	uint8_t action;
	uint32_t target;
	uint64_t target_number; /* of the client that has this handle now */
};

static const struct share same_process = { .type = RS_SHARE_TYPE_PID };

void shares_free(struct object *object)
{
	struct share *next;

	for (; object->shares; object->shares = next) {
		next = object->shares->next;
		free(object->shares);
	}
}

/* The list that counts is that of the first object upwards that has one. */
static const struct share *list_of(const struct object *object)
{
	while (object && !object->has_shares)
		object = object->parent;
	return object ? object->shares : &same_process;
}

static bool matches(const struct share *share, const struct client *owner, const struct client *client)
{
	switch (share->type) {
	case RS_SHARE_TYPE_ALL:
	case RS_SHARE_TYPE_OS_SECURITY_TOKEN:
		return true;
	case RS_SHARE_TYPE_CLIENT:
		return share->target == client->handle && share->target_number == client->number;
	case RS_SHARE_TYPE_PID:
		return owner->process == client->process;
	case RS_SHARE_TYPE_SMC_PARTITION:
	case RS_SHARE_TYPE_GPU:
		/* Not asked of what is no part of a card. */
		return share->action & RS_SHARE_ACTION_FLAG_REQUIRE;
	default:
		return false;
	}
}

bool share_lets_dup(const struct object *object, const struct client *client)
{
	const struct share *at = list_of(object);
	bool granted = object->client == client;

	/* Its own client needs nobody's leave. */
	if (granted)
		return true;
	for (; at; at = at->next) {
		bool found = matches(at, object->client, client);

		if ((at->action & RS_SHARE_ACTION_FLAG_REQUIRE) && !found)
			return false;
		granted = granted || (found && !(at->action & RS_SHARE_ACTION_FLAG_REQUIRE));
	}
	return granted;
}

static uint32_t add(struct object *object, const struct share *share)
{
	struct share *copy = malloc(sizeof(*copy));

	if (!copy)
		return NV_ERR_NO_MEMORY;
	*copy = *share;
	copy->next = object->shares;
	object->shares = copy;
	return NV_OK;
}

static struct share **find(struct object *object, const struct share *share)
{
	struct share **at = &object->shares;

	while (*at &&
		((*at)->type != share->type || (*at)->target != share->target ||
			((*at)->action ^ share->action) & RS_SHARE_ACTION_FLAG_REQUIRE))
		at = &(*at)->next;
	return at;
}

/* What it had by inheritance, where the new line is put beside that. */
static uint32_t inherit(struct object *object, const struct share *share)
{
	const struct share *at = share->action & RS_SHARE_ACTION_FLAG_COMPOSE ? list_of(object) : NULL;
	uint32_t status = NV_OK;

	for (; at && status == NV_OK; at = at->next)
		status = add(object, at);
	return status;
}

static uint32_t change(struct object *object, const struct share *share, uint32_t rights)
{
	struct share **found, *gone;
	uint32_t status = object->has_shares ? NV_OK : inherit(object, share);

	if (status != NV_OK) {
		shares_free(object);
		return status;
	}
	object->has_shares = true;
	if (!(share->action & RS_SHARE_ACTION_FLAG_COMPOSE))
		shares_free(object);
	found = find(object, share);
	if (!(rights & DUP))
		return NV_OK;
	if (!(share->action & RS_SHARE_ACTION_FLAG_REVOKE)) {
		gone = *found;
		if (gone)
			gone->target_number = share->target_number;
		return gone ? NV_OK : add(object, share);
	}
	gone = *found;
	if (gone) {
		*found = gone->next;
		free(gone);
	}
	return NV_OK;
}

static uint32_t share_object(struct call *call, struct share *share, uint32_t rights)
{
	const struct nv_layout_NVOS57_PARAMETERS *at = &call->sim->abi->NVOS57_PARAMETERS;
	uint32_t handle = get32(call->data, at->hClient), status = NV_OK;
	struct client *client, *target;
	struct object *object;

	if (share->type == RS_SHARE_TYPE_CLIENT) {
		/* rs_server.c:1763: nobody asks here whose client that is. */
		client = client_find(call->sim, handle);
		target = client_find(call->sim, share->target);
		if (!client || !target)
			return NV_ERR_INVALID_OBJECT_HANDLE;
		share->target_number = target->number;
	} else {
		share->target = 0;
		status = client_for_call(call, handle, &client);
	}
	if (status != NV_OK)
		return status;
	object = object_find(call->sim, client, get32(call->data, at->hObject));
	if (!object)
		return NV_ERR_OBJECT_NOT_FOUND;
	if ((rights & ~OWNER_RIGHTS) && !(share->action & RS_SHARE_ACTION_FLAG_REVOKE))
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	return change(object, share, rights);
}

uint32_t share_root(
	struct sim *sim, struct object *root, uint16_t type, uint8_t action, uint32_t target, uint32_t rights)
{
	struct share share = { .type = type, .action = action };
	const struct client *client;

	if (type >= RS_SHARE_TYPE_MAX)
		return NV_ERR_INVALID_ARGUMENT;
	if (type == RS_SHARE_TYPE_CLIENT) {
		client = client_find(sim, target);
		if (!client)
			return NV_ERR_INVALID_CLIENT;
		share.target = target;
		share.target_number = client->number;
	}
	if ((rights & ~OWNER_RIGHTS) && !(action & RS_SHARE_ACTION_FLAG_REVOKE))
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	return change(root, &share, rights);
}

int escape_share(struct call *call)
{
	const struct nv_layout_NVOS57_PARAMETERS *at = &call->sim->abi->NVOS57_PARAMETERS;
	struct share share = {
		.type = get16(call->data, at->sharePolicy_type),
		.action = call->data[at->sharePolicy_action],
		.target = get32(call->data, at->sharePolicy_target),
	};
	uint32_t status = NV_ERR_INVALID_ARGUMENT;

	pthread_mutex_lock(&call->sim->lock);
	if (share.type < RS_SHARE_TYPE_MAX)
		status = share_object(call, &share, get32(call->data, at->sharePolicy_accessMask));
	pthread_mutex_unlock(&call->sim->lock);
	put32(call->data, at->status, status);
	return 0;
}
