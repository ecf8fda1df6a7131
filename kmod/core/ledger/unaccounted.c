// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * The reconciler. It takes the memory that a card is short of, and subtracts the charges, the memory that others have
 * by the driver's word, and the memory that the card needs by itself. The rest is memory that nobody is charged for, or
 * an estimate that is wrong.
 */
#include "ledger/ledger.h"
#include "registry/registry.h"
#include "lib/text.h"

#define LASTING 5u /* reconciliations in a row */

static u64 charged_on(struct cgpu_state *state, u32 gpu)
{
	u64 bytes = core_gpu_left(&state->gpu[gpu]);
	u32 i;

	for (i = 0; i < CGPU_MAX_INST; i++) {
		const struct core_instance *instance = core_instance(state, gpu, i);

		bytes += instance ? core_instance_has(instance) : 0;
	}
	return bytes;
}

/* With each process outside goes a context, as the driver's figure has none of it. */
static u64 outside_of(const struct cgpu_state *state, const struct cgpu_card_view *view)
{
	return view->outside + view->strangers * state->settings.context_memory;
}

/*
 * The card's own memory shows when no process has anything. It only ever sinks: memory that neither the driver nor the
 * ledger has on a list must not come to count as the card's own.
 */
static void own_learn(struct core_unaccounted *drift, u64 taken, u64 known, u32 idle)
{
	u64 own = taken > known ? taken - known : 0;

	if (drift->own_known && (!idle || own >= drift->own))
		return;
	drift->own = own;
	drift->own_known = 1;
}

static void count_streak(struct core_unaccounted *drift, u64 tolerance)
{
	if (drift->bytes > 0 && (u64)drift->bytes > tolerance)
		drift->streak += drift->streak < LASTING;
	else if (drift->streak)
		drift->streak--;
}

/* 1: a line was made, and is to be logged as a warning; 2: as information. */
static int drift_line(struct cgpu_state *state, u32 gpu, u64 charged, struct core_text *out)
{
	struct core_gpu *card = &state->gpu[gpu];
	struct core_unaccounted *drift = &card->drift;

	if (drift->lasting ? drift->streak > 0 : drift->streak < LASTING)
		return 0;
	drift->lasting = !drift->lasting;
	core_text_string(out, "GPU ");
	core_text_number(out, gpu);
	core_text_string(out, " (");
	core_text_string(out, card->facts.uuid);
	core_text_string(out, drift->lasting ? "): drift " : "): drift is within drift_tolerance again: ");
	core_text_signed(out, drift->bytes);
	core_text_string(out, " bytes");
	if (!drift->lasting)
		return 2;
	core_text_string(out, ": ");
	core_text_number(out, card->memfree);
	core_text_string(out, " free of ");
	core_text_number(out, card->facts.memtotal);
	core_text_string(out, ", ");
	core_text_number(out, charged);
	core_text_string(out, " charged, ");
	core_text_number(out, drift->strangers);
	core_text_string(out, " processes outside of containers; ");
	core_text_string(out, core_unaccounted_refuses(state, gpu) ? "nothing more is given of it" : "reported only");
	core_text_string(out, "; who has it: nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv");
	return 1;
}

static void look(struct cgpu_state *state, u32 gpu, const struct cgpu_card_view *view, u64 charged)
{
	struct core_gpu *card = &state->gpu[gpu];
	struct core_unaccounted *drift = &card->drift;
	u64 total = card->facts.memtotal;
	u64 taken = view->memfree < total ? total - view->memfree : 0;
	u64 known = charged + outside_of(state, view);

	own_learn(drift, taken, known, charged == 0 && view->users == 0);
	card->memfree = view->memfree;
	drift->strangers = view->strangers;
	drift->bytes = (s64)taken - (s64)drift->own - (s64)known;
	count_streak(drift, state->settings.drift_tolerance);
}

int cgpu_gpu_reconcile(struct cgpu_core *core, u32 gpu, const struct cgpu_card_view *view)
{
	struct cgpu_state *state = core->state;
	struct core_lost_line lost = { .level = 0 };
	char line[512] = "";
	struct core_text out;
	u64 charged;
	int say = 0, known;

	core_text_start(&out, line, sizeof(line) - 1);
	core_lock(core);
	core_pages_look(core, gpu);
	known = core_gpu(state, gpu) != NULL;
	if (view)
		core_lost_set(state, gpu, view->memfree == CGPU_CARD_LOST, &lost);
	if (view && view->memfree == CGPU_CARD_LOST)
		view = NULL;
	/* With MIG the driver does not tell what is free; a container with the whole card may take what it likes. */
	if (known && view && !state->gpu[gpu].mig && !core_passthroughs(state, gpu)) {
		charged = charged_on(state, gpu);
		look(state, gpu, view, charged);
		say = drift_line(state, gpu, charged, &out);
	} else if (known) {
		if (view)
			state->gpu[gpu].memfree = view->memfree;
		state->gpu[gpu].drift.bytes = 0;
		state->gpu[gpu].drift.streak = 0;
		state->gpu[gpu].drift.lasting = 0;
	}
	core_unlock(core);
	core_lost_log(core, &lost);
	if (say)
		core->ops->log(core->ctx, say == 1 ? 4 : 6, line);
	return known ? 0 : -ENOENT;
}

int core_unaccounted_refuses(const struct cgpu_state *state, u32 gpu)
{
	const struct core_unaccounted *drift = &state->gpu[gpu].drift;

	/* Memory that processes outside of containers take unreported must not be charged against containers. */
	return state->settings.enforce && state->settings.drift_refuse && drift->lasting && drift->strangers == 0;
}
