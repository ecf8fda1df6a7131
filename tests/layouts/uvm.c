// SPDX-License-Identifier: Apache-2.0
/* UVM's work for a process, as the engine sees it (kmod/module/probes). */
#include <errno.h>

#include "stage.h"

static struct stage_hold *free_hold(struct stage *stage, uint32_t *number)
{
	for (*number = 0; *number < STAGE_HOLDS; (*number)++) {
		if (!stage->hold[*number].live)
			return &stage->hold[*number];
	}
	return NULL;
}

static struct cgpu_reference_request request_of(const struct stage *stage, uint32_t container, uint32_t process)
{
	const struct cgpu_container_info *info = &stage->container[container];

	return (struct cgpu_reference_request){
		.slot = info->slot, .generation = info->generation, .tgid = (s32)process
	};
}

/* Memory that is not charged has no hold. */
static int dup_judged(struct stage *stage, const struct cgpu_reference_request *request, struct stage_hold *hold,
	bool fail, void (*between)(void))
{
	struct cgpu_core *core = &stage->transport.core;
	int result = cgpu_reference_begin(core, request, &hold->hold[0]);
	uint32_t status = NV_ERR_NO_MEMORY;

	if (result)
		return result;
	if (!fail)
		status = holdings_uvm_dup(stage->holdings, request->client, request->handle, &hold->handle[0][0]);
	if (between)
		between();
	if (status == NV_OK && hold->hold[0].serial) {
		if (cgpu_reference_confirm(core, &hold->hold[0]) == 0)
			return 0;
		holdings_uvm_free(stage->holdings, hold->handle[0][0]);
		cgpu_reference_drop(core, &hold->hold[0]);
		return -EPERM;
	}
	cgpu_reference_drop(core, &hold->hold[0]);
	if (status == NV_OK)
		holdings_uvm_free(stage->holdings, hold->handle[0][0]);
	return -EIO;
}

int stage_hold(struct stage *stage, uint32_t container, uint32_t process, uint32_t client, uint32_t handle,
	uint32_t fail, void (*between)(void))
{
	struct cgpu_reference_request request = request_of(stage, container, process);
	uint32_t number;
	struct stage_hold *hold = free_hold(stage, &number);
	int result;

	if (!hold)
		return -ENFILE;
	request.client = client;
	request.handle = handle;
	*hold = (struct stage_hold){ .live = true, .container = container, .process = process, .count = 1 };
	result = dup_judged(stage, &request, hold, fail != 0, between);
	hold->live = result == 0;
	holdings_look(stage->holdings, container);
	return result ? result : (int)number;
}

/* On a card: charge it, then take all of it, as UVM may. */
static int take(struct stage *stage, struct cgpu_reference_request *request, struct stage_hold *hold, uint32_t pieces)
{
	uint32_t at = hold->count, i;
	int result = cgpu_reference_charge(&stage->transport.core, request, &hold->hold[at]);

	if (result)
		return result;
	hold->card[at] = request->gpu;
	hold->count++;
	for (i = 0; i < pieces; i++) {
		if (holdings_uvm_take(stage->holdings, request->gpu, STAGE_PIECE_BYTES, &hold->handle[at][i]))
			return -ENOMEM;
	}
	return 0;
}

int stage_managed(struct stage *stage, uint32_t container, uint32_t process, uint32_t pieces)
{
	struct cgpu_reference_request request = request_of(stage, container, process);
	uint32_t number, gpus = cgpu_container_gpus(&stage->transport.core, request.slot, request.generation);
	struct stage_hold *hold = free_hold(stage, &number);
	int result = hold && gpus && pieces <= STAGE_PIECES ? 0 : -ENFILE;

	if (result)
		return result;
	*hold = (struct stage_hold){ .live = true, .container = container, .process = process, .pieces = pieces };
	request.bytes = pieces * STAGE_PIECE_BYTES;
	for (request.gpu = 0; request.gpu < HOLDINGS_CARDS && result == 0; request.gpu++) {
		if (gpus >> request.gpu & 1)
			result = take(stage, &request, hold, pieces);
	}
	if (result)
		stage_let_go(stage, number);
	holdings_look(stage->holdings, container);
	return result ? result : (int)number;
}

void stage_shrink(struct stage *stage, uint32_t number)
{
	struct stage_hold *hold = &stage->hold[number];
	uint32_t i;

	if (!hold->live || hold->pieces < 2)
		return;
	hold->pieces--;
	for (i = 0; i < hold->count; i++) {
		holdings_uvm_free(stage->holdings, hold->handle[i][hold->pieces]);
		cgpu_reference_shrink(&stage->transport.core, &hold->hold[i], STAGE_PIECE_BYTES);
	}
	holdings_look(stage->holdings, hold->container);
}

void stage_let_go(struct stage *stage, uint32_t number)
{
	struct stage_hold *hold = &stage->hold[number];
	uint32_t i, piece;

	if (!hold->live)
		return;
	for (i = 0; i < hold->count; i++) {
		for (piece = 0; piece < (hold->pieces ? hold->pieces : 1); piece++) {
			if (hold->handle[i][piece])
				holdings_uvm_free(stage->holdings, hold->handle[i][piece]);
		}
		cgpu_reference_drop(&stage->transport.core, &hold->hold[i]);
	}
	hold->live = false;
	holdings_look(stage->holdings, hold->container);
}
