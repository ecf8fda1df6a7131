// SPDX-License-Identifier: Apache-2.0
/* NV_ESC_RM_CONTROL: makes the driver's checks, then hands a copy of the parameters to one function. */
#include <stdlib.h>

#include "control.h"
#include "engines.h"

static const struct control_set *const sets[] = {
	&controls_card,
	&controls_graphics,
	&controls_root,
	&controls_channel,
	&controls_process,
	&controls_memory,
	&controls_export,
	&controls_nothing,
};

static const struct control_entry *find_entry(uint32_t command)
{
	size_t i, j;

	for (i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		for (j = 0; j < sets[i]->count; j++) {
			if (sets[i]->entries[j].command == command)
				return &sets[i]->entries[j];
		}
	}
	return NULL;
}

static bool is_for(const struct control_entry *entry, const struct object *object)
{
	uint32_t class_id = entry->command >> 16;

	/* Clients and the card's memory have other numbers as objects; a channel's are of all generations. */
	if (class_id == 0)
		return object->class_id == NV01_ROOT_CLIENT;
	if (class_id == NV0041_CTRL_CMD_GET_SURFACE_INFO >> 16)
		return object->class_id == NV01_MEMORY_LOCAL_USER;
	return class_is_channel(class_id) ? class_is_channel(object->class_id) : object->class_id == class_id;
}

static bool allows(const struct call *call, enum rights rights)
{
	if (rights == RIGHTS_NONE || call_is_kernel(call))
		return true;
	return rights == RIGHTS_NICE ? caller_is_nice(&call->caller) : caller_is_admin(&call->caller);
}

/* Finds the object and copies the facts for the answer, so that the rest can do without the lock. */
static uint32_t resolve(
	struct control *control, const struct control_entry *entry, uint32_t client_handle, uint32_t handle)
{
	struct sim *sim = control->sim;
	struct client *client;
	struct object *object;
	uint32_t status;

	pthread_mutex_lock(&sim->lock);
	status = client_for_call(control->call, client_handle, &client);
	/* control.c:434 */
	if (status == NV_ERR_INVALID_OBJECT_HANDLE)
		status = NV_ERR_INVALID_CLIENT;
	if (status == NV_OK) {
		object = object_find(sim, client, handle);
		if (!object)
			status = NV_ERR_OBJECT_NOT_FOUND;
		else if (!entry || !is_for(entry, object))
			status = NV_ERR_NOT_SUPPORTED;
		else
			control->card_index = object->card;
		/* control.c:844, but that controls which need no access to the card are not told apart here. */
		if (status == NV_OK && object->card != SIM_NO_CARD && sim->cards[object->card].lost)
			status = NV_ERR_GPU_IS_LOST;
		if (status == NV_OK && object->card != SIM_NO_CARD)
			control->card = sim->cards[object->card];
		control->denied = status == NV_OK && mig_denies(sim, object);
	}
	pthread_mutex_unlock(&sim->lock);
	return status;
}

/* Runs the control on its object, which may have gone since it was found. */
static uint32_t run_on_object(struct control *control)
{
	struct call *call = control->call;
	struct sim *sim = call->sim;
	const struct nv_layout_NVOS54_PARAMETERS *at = &sim->abi->NVOS54_PARAMETERS;
	const struct control_entry *entry = control->entry;
	struct object *object = NULL;
	struct client *client;
	uint64_t file = 0;
	intptr_t hold;
	uint32_t status;

	if (entry->descriptor_at) {
		control->process = caller_process(&call->caller);
		file = file_resolve(
			call, (int)get32(control->params, layout_word(sim, false, entry->descriptor_at)), &hold);
	}
	pthread_mutex_lock(&sim->lock);
	control->file = file ? file_find(sim, file) : NULL;
	if (control->file && control->file->card != SIM_NO_CARD)
		control->file = NULL;
	status = client_for_call(call, get32(call->data, at->hClient), &client);
	if (status == NV_OK)
		object = object_find(sim, client, get32(call->data, at->hObject));
	if (!object || !is_for(entry, object)) {
		status = status == NV_OK ? NV_ERR_OBJECT_NOT_FOUND : NV_ERR_INVALID_CLIENT;
	} else {
		engines_advance(sim, object->group ? object->group->card : object->card);
		status = entry->run(control, object);
	}
	pthread_mutex_unlock(&sim->lock);
	if (file)
		file_let_go(hold);
	if (control->waits)
		engines_wait(sim, control->card_index);
	return status;
}

static uint32_t answer(struct control *control)
{
	if (control->entry->run)
		return run_on_object(control);
	return control->entry->answer ? control->entry->answer(control) : NV_OK;
}

static uint32_t run(struct control *control, uint64_t address, uint32_t size)
{
	uint32_t status = NV_ERR_INVALID_ADDRESS;

	if (!allows(control->call, control->entry->rights))
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	control->size = size;
	control->params = malloc(size ? size : 1);
	if (!control->params)
		return NV_ERR_INSUFFICIENT_RESOURCES;
	if (user_read(&control->call->caller, address, control->params, size))
		status = answer(control);
	if (status == NV_OK && !user_write(&control->call->caller, address, control->params, size))
		status = NV_ERR_INVALID_ADDRESS;
	free(control->params);
	return status;
}

static uint32_t control(struct call *call)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &call->sim->abi->NVOS54_PARAMETERS;
	const struct control_entry *entry = find_entry(get32(call->data, at->cmd));
	uint64_t address = get64(call->data, at->params);
	uint32_t size = get32(call->data, at->paramsSize), status;
	struct control control = {
		.call = call,
		.sim = call->sim,
		.abi = call->sim->abi,
		.card_abi = call->sim->card_abi,
		.entry = entry,
		.card_index = SIM_NO_CARD,
	};
	uint16_t expected = 0;

	if ((size == 0) != (address == 0) || size > SIM_MAX_PARAMS)
		return NV_ERR_INVALID_ARGUMENT;
	if (entry) {
		if (entry->bytes_at != SIZE_MAX)
			expected = layout_word(call->sim, entry->of_card, entry->bytes_at);
		/* This version of the driver lacks the control. */
		if (expected == 0 && entry->bytes_at != SIZE_MAX)
			entry = NULL;
		else if (entry->command == NV2080_CTRL_CMD_FB_GET_INFO)
			/* The driver ignores the size of this one (rmapi_deprecated_control.c, ctrlparamAcquire()). */
			size = expected;
		else if (size != expected)
			return NV_ERR_INVALID_ARGUMENT;
	}
	status = resolve(&control, entry, get32(call->data, at->hClient), get32(call->data, at->hObject));
	return status == NV_OK ? run(&control, address, size) : status;
}

int escape_control(struct call *call)
{
	put32(call->data, call->sim->abi->NVOS54_PARAMETERS.status, control(call));
	return 0;
}
