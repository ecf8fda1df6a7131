// SPDX-License-Identifier: Apache-2.0
#include "holdings.h"

#include <stdlib.h>

#include "sim.h"

#define MOST 4096u

/* Memory keeps its place in the list from the look that found it until one that does not find it any more. */
struct seen {
	const struct memory *memory;
	uint32_t whose;
	bool there;
};

struct holdings {
	struct sim *sim;
	struct client *uvm;
	struct object *device[HOLDINGS_CARDS];
	uint32_t count;
	struct seen seen[MOST];
};

static bool start_uvm(struct holdings *holdings)
{
	struct alloc_request request = { .class_id = NV01_ROOT };
	struct sim *sim = holdings->sim;
	uint32_t card, handle;

	if (client_create(sim, NULL, &request) != NV_OK)
		return false;
	holdings->uvm = client_find(sim, request.handle);
	for (card = 0; card < HOLDINGS_CARDS; card++) {
		handle = 0;
		if (object_create(sim, holdings->uvm, holdings->uvm->root, &handle, NV01_DEVICE_0,
			    &holdings->device[card]) != NV_OK)
			return false;
		holdings->device[card]->card = card;
	}
	return true;
}

struct holdings *holdings_new(struct sim *sim)
{
	struct holdings *holdings = calloc(1, sizeof(*holdings));

	if (!holdings)
		return NULL;
	holdings->sim = sim;
	if (start_uvm(holdings))
		return holdings;
	free(holdings);
	return NULL;
}

void holdings_free(struct holdings *holdings)
{
	client_free(holdings->sim, holdings->uvm);
	free(holdings);
}

static bool note(struct holdings *holdings, const struct memory *memory, uint32_t whose)
{
	uint32_t i;

	for (i = 0; i < holdings->count; i++) {
		if (holdings->seen[i].memory == memory) {
			holdings->seen[i].there = true;
			return true;
		}
	}
	if (holdings->count == MOST)
		return false;
	holdings->seen[holdings->count++] = (struct seen){ memory, whose, true };
	return true;
}

static bool add_up(const struct holdings *holdings)
{
	uint64_t taken[SIM_MAX_CARDS] = { 0 };
	uint32_t i;

	for (i = 0; i < holdings->count; i++)
		taken[holdings->seen[i].memory->card] += holdings->seen[i].memory->taken;
	for (i = 0; i < holdings->sim->card_count; i++) {
		if (taken[i] != holdings->sim->cards[i].used)
			return false;
	}
	return true;
}

bool holdings_look(struct holdings *holdings, uint32_t whose)
{
	const struct client *client;
	uint32_t i, kept = 0;
	struct object *at;

	for (i = 0; i < holdings->count; i++)
		holdings->seen[i].there = false;
	for (client = holdings->sim->clients; client; client = client->next) {
		for (at = client->root; at; at = object_next(client->root, at)) {
			if (at->memory && !note(holdings, at->memory, whose))
				return false;
		}
	}
	for (i = 0; i < holdings->count; i++) {
		if (holdings->seen[i].there)
			holdings->seen[kept++] = holdings->seen[i];
	}
	holdings->count = kept;
	return add_up(holdings);
}

uint64_t holdings_of(const struct holdings *holdings, uint32_t whose, uint32_t card)
{
	uint64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < holdings->count; i++) {
		if (holdings->seen[i].whose == whose && holdings->seen[i].memory->card == card)
			bytes += holdings->seen[i].memory->taken;
	}
	return bytes;
}

bool holdings_has_client(const struct holdings *holdings, uint32_t client)
{
	return client_find(holdings->sim, client) != NULL;
}

uint32_t holdings_uvm_dup(struct holdings *holdings, uint32_t client_handle, uint32_t handle, uint32_t *copy)
{
	struct client *client = client_find(holdings->sim, client_handle);
	struct object *source = client ? object_find(holdings->sim, client, handle) : NULL;
	uint32_t card;

	*copy = 0;
	if (!source || !class_is_memory_request(source->class_id))
		return source ? NV_ERR_INVALID_ARGUMENT : NV_ERR_OBJECT_NOT_FOUND;
	card = source->memory ? source->memory->card : 0;
	return object_duplicate(holdings->sim, source, holdings->device[card], copy);
}

uint32_t holdings_uvm_take(struct holdings *holdings, uint32_t card, uint64_t bytes, uint32_t *handle)
{
	struct memory_request request = { .owner = 1, .size = bytes };
	struct object *created;
	uint32_t status = class_create_video_memory(holdings->sim, holdings->device[card], 0, &request, &created);

	*handle = status == NV_OK ? created->handle : 0;
	return status;
}

void holdings_uvm_free(struct holdings *holdings, uint32_t handle)
{
	struct object *object = object_find(holdings->sim, holdings->uvm, handle);

	if (object)
		object_free(holdings->sim, object);
}
