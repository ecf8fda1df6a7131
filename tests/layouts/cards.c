// SPDX-License-Identifier: Apache-2.0
/* The simulated cards without their file system: a call itself names its caller and its memory (cards.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cards.h"
#include "engines.h"

struct sim *cards_new(const char *driver, const char *cards, char error[CARDS_ERROR_BYTES])
{
	struct sim *sim = calloc(1, sizeof(*sim));
	const char *problem = "out of memory";
	uint32_t i;

	if (sim)
		sim->buckets = calloc(SIM_BUCKETS, sizeof(struct object *));
	if (sim && sim->buckets && !version_select(sim, driver))
		problem = "the driver version is not in the tables";
	else if (sim && sim->buckets && cards_parse(sim, cards, &problem))
		problem = NULL;
	if (!problem) {
		/* No container is charged for contexts here, so contexts take nothing from the card. */
		for (i = 0; i < sim->card_count; i++)
			sim->cards[i].context = 0;
		pthread_mutex_init(&sim->lock, NULL);
		return sim;
	}
	snprintf(error, CARDS_ERROR_BYTES, "%s", problem);
	if (sim)
		free(sim->buckets);
	free(sim);
	return NULL;
}

void cards_free(struct sim *sim)
{
	uint32_t i;

	while (sim->files)
		file_release(sim, sim->files);
	while (sim->clients)
		client_free(sim, sim->clients);
	for (i = 0; i < sim->card_count; i++)
		engines_destroy(&sim->cards[i]);
	pthread_mutex_destroy(&sim->lock);
	free(sim->buckets);
	free(sim);
}

uint32_t cards_count(const struct sim *sim)
{
	return sim->card_count;
}

struct card_facts cards_facts(const struct sim *sim, uint32_t card)
{
	const struct card *one = &sim->cards[card];

	return (struct card_facts){ one->gpu_id, one->bytes, one->used, one->uuid_text, one->model->name };
}

struct open_file *cards_open(struct sim *sim, int card, uint64_t *id)
{
	struct open_file *file;

	pthread_mutex_lock(&sim->lock);
	file = file_open(sim, card < 0 ? SIM_NO_CARD : (uint32_t)card);
	pthread_mutex_unlock(&sim->lock);
	*id = file ? file->id : 0;
	return file;
}

void cards_close(struct sim *sim, struct open_file *file)
{
	file_release(sim, file);
}

bool cards_keep(const struct sim *sim, uint64_t id)
{
	const struct open_file *file = sim->files;

	while (file && file->registered != id)
		file = file->next;
	return file != NULL;
}

/* The cards pass on the caller of a call, by which the given call is found. */
struct carried_call {
	struct call call;
	const struct driver_call *given;
};

static const struct driver_call *given_of(const struct caller *caller)
{
	size_t offset = offsetof(struct carried_call, call) + offsetof(struct call, caller);

	return ((const struct carried_call *)(const void *)((const char *)caller - offset))->given;
}

int cards_call(struct sim *sim, struct open_file *file, const struct driver_call *given)
{
	struct carried_call carried = {
		.call = {
			.sim = sim,
			.file = file,
			.caller = { .thread = (pid_t)given->process },
			.nr = given->nr,
			.data = given->top,
			.size = given->bytes,
		},
		.given = given,
	};

	return escape_dispatch(&carried.call);
}

bool user_read(const struct caller *caller, uint64_t address, void *out, size_t size)
{
	if (!call_reaches(given_of(caller), address, size))
		return false;
	memcpy(out, (const void *)(uintptr_t)address, size);
	return true;
}

bool user_write(const struct caller *caller, uint64_t address, const void *data, size_t size)
{
	if (!call_reaches(given_of(caller), address, size))
		return false;
	memcpy((void *)(uintptr_t)address, data, size);
	return true;
}

pid_t caller_process(const struct caller *caller)
{
	return caller->thread;
}

bool caller_is_admin(const struct caller *caller)
{
	(void)caller;
	return false;
}

bool caller_is_nice(const struct caller *caller)
{
	(void)caller;
	return false;
}

/* A descriptor in a structure is the number of an open file. */
uint64_t file_resolve(struct call *call, int fd, intptr_t *hold)
{
	(void)call;
	*hold = 0;
	return fd <= 0 ? 0 : (uint64_t)fd;
}

int file_look_up(struct call *call, int fd, uint64_t *id, intptr_t *hold)
{
	*id = file_resolve(call, fd, hold);
	return *id == 0 ? -EINVAL : 0;
}

void file_let_go(intptr_t hold)
{
	(void)hold;
}

void pid_view_open(struct pid_view *view, const struct sim *sim, const struct caller *caller)
{
	(void)sim;
	(void)caller;
	memset(view, 0, sizeof(*view));
}

uint32_t pid_view_of(const struct pid_view *view, pid_t process)
{
	(void)view;
	return (uint32_t)process;
}
