// SPDX-License-Identifier: Apache-2.0
/* Open file descriptions, and the tie between one of a card and one of nvidiactl. */
#include <errno.h>
#include <stdlib.h>

#include "sim.h"

struct open_file *file_open(struct sim *sim, uint32_t card)
{
	struct open_file *file;

	if (sim->file_count >= SIM_MAX_FILES)
		return NULL;
	file = calloc(1, sizeof(*file));
	if (!file)
		return NULL;
	file->id = ++sim->next_file;
	file->card = card;
	file->next = sim->files;
	sim->files = file;
	sim->file_count++;
	return file;
}

void file_release(struct sim *sim, struct open_file *file)
{
	struct open_file **at = &sim->files;
	uint32_t i;

	pthread_mutex_lock(&sim->lock);
	exports_drop(sim, file);
	clients_free_of(sim, file);
	while (*at != file)
		at = &(*at)->next;
	*at = file->next;
	sim->file_count--;
	for (i = 0; i < sim->card_count; i++)
		if (file->cards & 1u << i)
			card_release(sim, i);
	pthread_mutex_unlock(&sim->lock);
	if (file->registered)
		file_let_go(file->hold);
	free(file);
}

struct open_file *file_find(struct sim *sim, uint64_t id)
{
	struct open_file *at = sim->files;

	while (at && at->id != id)
		at = at->next;
	return at;
}

struct open_file *file_owner(struct sim *sim, const struct open_file *file)
{
	return file_find(sim, file_identity(file));
}

/* The driver's rules: once only, to an nvidiactl, not to itself, and no chains (escape.c, NV_ESC_REGISTER_FD). */
int file_tie(struct call *call, uint64_t id, intptr_t hold)
{
	struct open_file *target;
	int result = -EINVAL;

	pthread_mutex_lock(&call->sim->lock);
	target = file_find(call->sim, id);
	if (id != 0 && target && target->card == SIM_NO_CARD && target != call->file && target->registered == 0 &&
		call->file->registered == 0) {
		call->file->registered = id;
		call->file->hold = hold;
		result = 0;
	}
	pthread_mutex_unlock(&call->sim->lock);
	return result;
}
