// SPDX-License-Identifier: Apache-2.0
/* Pieces of memory, whoever refers to them. */
#include <stdlib.h>

#include "sim.h"
#include "backing.h"

struct backing *backing_make(uint64_t size)
{
	struct backing *made = calloc(1, sizeof(*made));

	if (made) {
		made->refs = 1;
		made->size = size;
	}
	return made;
}

struct backing *backing_of_process(pid_t process, uint64_t address, uint64_t size)
{
	struct backing *made = backing_make(size);

	if (made) {
		made->process = process;
		made->address = address;
	}
	return made;
}

void backing_put(struct sim *sim, struct backing *backing)
{
	if (!backing || --backing->refs > 0)
		return;
	if (backing->drop)
		backing->drop(sim, backing);
	free(backing);
}

struct backing *backing_of(struct sim *sim, struct object *object)
{
	/* Registers are the card's, whoever maps them. */
	if (object->class_id == VOLTA_USERMODE_A || object->class_id == TURING_USERMODE_A ||
		object->class_id == AMPERE_USERMODE_A || object->class_id == HOPPER_USERMODE_A) {
		struct card *card;

		/* One that was made below its client is of no card. */
		if (object->card == SIM_NO_CARD)
			return NULL;
		card = &sim->cards[object->card];

		if (!card->registers)
			card->registers = backing_make(SIM_USERMODE_BYTES);
		return card->registers;
	}
	/* An engine's object has a page of its own (kernel_graphics_object.c, kgrobjGetMemInterMapParams). */
	if (!object->backing && object->parent && class_is_channel(object->parent->class_id))
		object->backing = backing_make(SIM_PAGE);
	if (!object->memory)
		return object->backing;
	if (!object->memory->backing && object->memory->size)
		object->memory->backing = backing_make(object->memory->size);
	return object->memory->backing;
}
