// SPDX-License-Identifier: Apache-2.0
#include "chain.h"

#include <stdio.h>
#include <stdlib.h>

#include "doorbell.h"
#include "state/state.h"

#define STEP 1000000ull /* queues are filled up at least so often */
#define WAIT 5000ull /* how finely a closing call's end is waited for */

static uint64_t clock_of(void *ctx)
{
	return ((struct chain *)ctx)->now;
}

static void turn_of(void *ctx, u32 gpu)
{
	(void)gpu;
	((struct chain *)ctx)->due = 1;
}

struct chain *chain_new(struct stage *stage, uint64_t file, uint32_t client, uint32_t subdevice, uint64_t slice)
{
	struct chain *chain = calloc(1, sizeof(*chain));
	struct cgpu_core *core = &stage->transport.core;
	struct cgpu_settings settings = core->state->settings;

	if (!chain)
		return NULL;
	*chain = (struct chain){ .stage = stage, .file = file, .client = client, .subdevice = subdevice };
	chain->ops = *core->ops;
	chain->ops.clock = clock_of;
	chain->ops.round = turn_of;
	core->ops = &chain->ops;
	core->ctx = chain;
	settings.slice = slice;
	if (cgpu_settings_apply(core, &settings) == 0)
		return chain;
	free(chain);
	return NULL;
}

void chain_free(struct chain *chain)
{
	free(chain);
}

static void move(struct chain *chain, uint64_t now)
{
	chain->now = now;
	cards_set_time(chain->stage->transport.sim, now);
}

/* --- scheduling controls --- */

static void put32(uint8_t *at, uint32_t value)
{
	memcpy(at, &value, sizeof(value));
}

/* A control of ours, past the core as the engine's own calls are. Returns the driver's status. */
static u32 control(struct chain *chain, uint64_t file, u32 client, u32 object, u32 cmd, uint8_t *params, u32 bytes)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &chain->stage->transport.core.abi->NVOS54_PARAMETERS;
	const struct file *open = transport_find(&chain->stage->transport, file);
	uint64_t pointer = (uintptr_t)params;
	struct driver_call call = { .nr = NV_ESC_RM_CONTROL, .bytes = at->bytes, .process = 1 };
	uint8_t top[64] = { 0 };
	u32 status;

	chain->calls++;
	put32(top + at->hClient, client);
	put32(top + at->hObject, object);
	put32(top + at->cmd, cmd);
	memcpy(top + at->params, &pointer, sizeof(pointer));
	put32(top + at->paramsSize, bytes);
	call.top = top;
	call.memory = params;
	call.memory_bytes = bytes;
	if (!open || cards_call(chain->stage->transport.sim, open->open, &call))
		return CGPU_CONTROL_FAILED;
	memcpy(&status, top + at->status, sizeof(status));
	return status;
}

static u32 set_channels(struct chain *chain, const struct cgpu_channel_batch *batch)
{
	const struct nv_layout_NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS *at =
		&chain->stage->transport.core.abi->NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS;
	uint8_t params[1024] = { 0 };
	u32 status;

	params[at->bDisable] = (uint8_t)batch->disable;
	put32(params + at->numChannels, batch->count);
	memcpy(params + at->hClientList, batch->client, 4 * batch->count);
	memcpy(params + at->hChannelList, batch->channel, 4 * batch->count);
	status = control(chain, chain->file, chain->client, chain->subdevice, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS,
		params, at->bytes);
	/* It returns when it has acted: when the channels have left the engine. */
	while (chain_pending(chain->stage->transport.sim, 0))
		move(chain, chain->now + WAIT);
	return status;
}

static u32 set_slice(struct chain *chain, const struct cgpu_timeslice *slice)
{
	const struct nv_layout_NVA06C_CTRL_TIMESLICE_PARAMS *at =
		&chain->stage->transport.core.abi->NVA06C_CTRL_TIMESLICE_PARAMS;
	uint8_t params[16] = { 0 };
	uint64_t us = slice->us;
	u32 n = 0;

	while (n < chain->clients && chain->client_of[n] != slice->client)
		n++;
	if (n == chain->clients)
		return CGPU_CONTROL_FAILED;
	memcpy(params + at->timesliceUs, &us, sizeof(us));
	return control(chain, chain->file_of[n], slice->client, slice->group, NVA06C_CTRL_CMD_SET_TIMESLICE, params,
		at->bytes);
}

static uint64_t apply(struct chain *chain)
{
	struct cgpu_core *core = &chain->stage->transport.core;
	struct cgpu_timeslice slice;
	struct cgpu_channel_batch batch;
	struct cgpu_round turn;
	u32 cursor = 0;

	chain->turns++;
	chain->due = 0;
	cgpu_round(core, 0, &turn);
	while (cgpu_channels_next(core, 0, &batch) == 0)
		cgpu_channels_done(core, &batch, set_channels(chain, &batch));
	while (cgpu_timeslices_next(core, 0, 0, &cursor, &slice) == 0)
		cgpu_timeslices_done(core, &slice, set_slice(chain, &slice));
	return turn.until;
}

/* --- work --- */

void chain_client(struct chain *chain, uint32_t client, uint64_t file)
{
	if (chain->clients == CHAIN_CLIENTS)
		return;
	chain->client_of[chain->clients] = client;
	chain->file_of[chain->clients++] = file;
}

int chain_program(
	struct chain *chain, uint64_t file, uint32_t client, uint32_t channel, uint64_t length, uint64_t grain)
{
	if (chain->programs == CHAIN_PROGRAMS)
		return -1;
	chain->program[chain->programs] = (struct chain_program){
		.file = file, .client = client, .channel = channel, .length = length, .grain = grain
	};
	return (int)chain->programs++;
}

void chain_ahead(struct chain *chain, uint32_t program, uint64_t ahead)
{
	chain->program[program % CHAIN_PROGRAMS].ahead = ahead;
}

static int ring(struct chain *chain, const struct chain_program *program, u32 count)
{
	const struct file *file = transport_find(&chain->stage->transport, program->file);
	struct doorbell record = { program->client, program->channel, program->length, program->grain, count, 0 };

	return file ? cards_ring(chain->stage->transport.sim, file->open, &record, sizeof(record)) : -EBADF;
}

static struct doorbell_figures figures(struct chain *chain, const struct chain_program *program)
{
	const struct file *file = transport_find(&chain->stage->transport, program->file);
	struct doorbell_figures found = { 0 };

	if (file && ring(chain, program, 0) >= 0)
		cards_figures(chain->stage->transport.sim, file->open, &found, sizeof(found));
	return found;
}

uint64_t chain_busy(struct chain *chain, uint32_t program)
{
	return figures(chain, &chain->program[program % CHAIN_PROGRAMS]).busy;
}

uint64_t chain_completed(struct chain *chain, uint32_t program)
{
	struct doorbell_figures found = figures(chain, &chain->program[program % CHAIN_PROGRAMS]);

	/* Nothing that was launched is ever lost. */
	return found.submitted == found.completed + found.queued ? found.completed : ~0ull;
}

static int fill(struct chain *chain)
{
	u32 n;

	for (n = 0; n < chain->programs; n++) {
		struct chain_program *program = &chain->program[n];
		uint64_t most = program->ahead / program->length + (program->ahead != 0), queued;
		int result;

		if (most == 0)
			continue;
		queued = figures(chain, program).queued;
		if (queued >= most)
			continue;
		result = ring(chain, program, (u32)(most - queued));
		if (result < 0)
			return result;
	}
	return 0;
}

int chain_run(struct chain *chain, uint64_t ns)
{
	uint64_t end = chain->now + ns, until = 0, next;
	int result = 0;

	while (chain->now < end && result == 0) {
		result = fill(chain);
		if (chain->now >= until || chain->due)
			until = apply(chain);
		next = chain->now + STEP;
		next = next < until ? next : until;
		next = next < end ? next : end;
		if (next > chain->now)
			move(chain, next);
	}
	return result;
}

/* --- the tree --- */

int chain_write(struct chain *chain, const char *path, const char *text)
{
	struct cgpu_core *core = &chain->stage->transport.core;
	struct cgpu_node node;
	int result = cgpu_tree_lookup(core, path, &node);

	return result ? result : cgpu_tree_write(core, &node, text, strlen(text));
}

long chain_read(struct chain *chain, const char *path, char *text, size_t bytes)
{
	struct cgpu_core *core = &chain->stage->transport.core;
	struct cgpu_node node;
	int result = cgpu_tree_lookup(core, path, &node);

	return result ? result : cgpu_tree_read(core, &node, text, bytes);
}
