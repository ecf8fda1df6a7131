// SPDX-License-Identifier: Apache-2.0
/* RM clients. A client belongs to the open file description that made it, not to a process; one of the kernel to none. */
#include <stdlib.h>

#include "sim.h"

/* resserv.h RS_CLIENT_HANDLE_BASE and RS_CLIENT_HANDLE_MAX. */
#define CLIENT_BASE 0xc1d00000u
#define CLIENT_RANGE 0x100000u

struct client *client_find(struct sim *sim, uint32_t handle)
{
	struct client *at = sim->clients;

	while (at && at->handle != handle)
		at = at->next;
	return at;
}

static uint32_t choose_handle(struct sim *sim)
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
	client->handle = chosen != 0 ? chosen : choose_handle(sim);
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
	if (client->next)
		client->next->prev = client;
	sim->clients = client;
	sim->client_count++;
	return NV_OK;
}

void client_free(struct sim *sim, struct client *client)
{
	object_free(sim, client->root);
	if (client->prev)
		client->prev->next = client->next;
	else
		sim->clients = client->next;
	if (client->next)
		client->next->prev = client->prev;
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
