// SPDX-License-Identifier: Apache-2.0
/* NV_ESC_RM_FREE and NV_ESC_RM_DUP_OBJECT. */
#include "backing.h"
#include "engines.h"

/* A handle that is not there counts as freed (rs_server.c:1163, built with RS_COMPATABILITY_MODE). */
uint32_t free_handle(struct sim *sim, struct client *client, uint32_t handle)
{
	struct object *object;

	if (handle == client->handle) {
		client_free(sim, client);
		return NV_OK;
	}
	object = object_find(sim, client, handle);
	if (object) {
		channels_free_of(sim, object);
		object_free(sim, object);
	}
	return NV_OK;
}

int escape_free(struct call *call)
{
	const struct nv_layout_NVOS00_PARAMETERS *at = &call->sim->abi->NVOS00_PARAMETERS;
	struct client *client;
	uint32_t status;

	pthread_mutex_lock(&call->sim->lock);
	status = client_for_call(call, get32(call->data, at->hRoot), &client);
	if (status == NV_OK)
		status = free_handle(call->sim, client, get32(call->data, at->hObjectOld));
	pthread_mutex_unlock(&call->sim->lock);
	put32(call->data, at->status, status);
	return 0;
}

static uint32_t duplicate(struct call *call, uint32_t *handle)
{
	const struct nv_layout_NVOS55_PARAMETERS *at = &call->sim->abi->NVOS55_PARAMETERS;
	struct sim *sim = call->sim;
	struct object *parent, *source;
	struct client *client, *from;
	uint32_t status;

	from = client_find(sim, get32(call->data, at->hClientSrc));
	if (!from)
		return NV_ERR_INVALID_OBJECT_HANDLE;
	status = client_for_call(call, get32(call->data, at->hClient), &client);
	if (status != NV_OK)
		return status;
	source = object_find(sim, from, get32(call->data, at->hObjectSrc));
	parent = object_find(sim, client, get32(call->data, at->hParent));
	if (!source || !parent)
		return NV_ERR_OBJECT_NOT_FOUND;
	if (!class_may_be_duplicated(source->class_id))
		return NV_ERR_INVALID_ARGUMENT;
	if (!call_is_kernel(call) && !share_lets_dup(source, client))
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	return object_duplicate(sim, source, parent, handle);
}

int escape_dup(struct call *call)
{
	const struct nv_layout_NVOS55_PARAMETERS *at = &call->sim->abi->NVOS55_PARAMETERS;
	uint32_t handle = get32(call->data, at->hObject), status;

	pthread_mutex_lock(&call->sim->lock);
	status = duplicate(call, &handle);
	pthread_mutex_unlock(&call->sim->lock);
	if (status == NV_OK)
		put32(call->data, at->hObject, handle);
	put32(call->data, at->status, status);
	return 0;
}
