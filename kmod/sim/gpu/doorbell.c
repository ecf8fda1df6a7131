// SPDX-License-Identifier: Apache-2.0
/* The doorbell, without the lock: the node's write(2) and read(2). */
#include <errno.h>

#include "doorbell.h"
#include "engines.h"

/* The channel that a record names, for whom the file belongs to. */
static int find(
	struct sim *sim, const struct open_file *file, uint32_t client, uint32_t channel, struct engine_channel **found)
{
	const struct client *owner = client_find(sim, client);
	const struct object *object;

	if (!owner || !owner->owner || !file->registered || owner->owner->id != file->registered)
		return -EPERM;
	object = object_find(sim, owner, channel);
	if (!object || !object->channel || object->group->card != file->card)
		return -ENOENT;
	*found = object->channel;
	return 0;
}

static int ring(struct sim *sim, struct open_file *file, const struct doorbell *record)
{
	struct work_kernel kernel = { .length = record->length, .grain = record->grain };
	struct work *work = sim->cards[file->card].engines ? sim->cards[file->card].engines->work : NULL;
	struct work_channel_figures figures;
	struct engine_channel *channel;
	int result = find(sim, file, record->client, record->channel, &channel);
	uint32_t i;

	if (result != 0)
		return result;
	file->rung_client = record->client;
	file->rung_channel = record->channel;
	if (record->count > channel->queue || (record->count && (!record->length || record->length > WORK_LONGEST)))
		return -EINVAL;
	result = work_channel_figures(work, channel->id, &figures);
	if (result == 0 && record->count > channel->queue - figures.queued)
		result = -EAGAIN;
	for (i = 0; i < record->count && result == 0; i++)
		result = work_submit(work, channel->id, &kernel);
	return result;
}

int doorbell_write(struct sim *sim, struct open_file *file, const void *data, size_t size)
{
	struct doorbell record;
	int result;

	if (file->card == SIM_NO_CARD || size != sizeof(record))
		return -EINVAL;
	memcpy(&record, data, sizeof(record));
	pthread_mutex_lock(&sim->lock);
	engines_advance(sim, file->card);
	result = ring(sim, file, &record);
	pthread_mutex_unlock(&sim->lock);
	return result == 0 ? (int)sizeof(record) : result;
}

int doorbell_read(struct sim *sim, struct open_file *file, void *out, size_t size)
{
	struct doorbell_figures told;
	struct work_channel_figures figures;
	struct engine_channel *channel;
	struct work *work;
	int result;

	if (file->card == SIM_NO_CARD || size < sizeof(told))
		return -EINVAL;
	pthread_mutex_lock(&sim->lock);
	engines_advance(sim, file->card);
	result = file->rung_client ? find(sim, file, file->rung_client, file->rung_channel, &channel) : -ENODATA;
	if (result == 0) {
		work = sim->cards[file->card].engines->work;
		result = work_channel_figures(work, channel->id, &figures);
	}
	if (result == 0) {
		told = (struct doorbell_figures){
			.submitted = figures.submitted,
			.completed = figures.completed,
			.queued = figures.queued,
			.busy = figures.busy,
			.now = work_now(work),
		};
		memcpy(out, &told, sizeof(told));
		result = sizeof(told);
	}
	pthread_mutex_unlock(&sim->lock);
	return result;
}
