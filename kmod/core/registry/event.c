// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Lines for the event log that `cgpu events` shows: words key=value, the first is event=. One for each slice of a container that
 * starts or ends, and one for each GPU that the driver loses. No other line of the log has their level.
 */
#include "registry/registry.h"
#include "tree/tree.h"

#define LINE_BYTES 1000u /* of a line to /dev/kmsg, and of one to the daemon's pipe */

static void line_begin(struct cgpu_core *core, struct core_text *out, const char *kind, u32 gpu)
{
	core_text_string(out, "event=");
	core_text_string(out, kind);
	core_text_string(out, " gpu=");
	core_text_number(out, gpu);
	core_text_string(out, " uuid=");
	core_text_string(out, core->state->gpu[gpu].facts.uuid);
}

static void line_end(struct cgpu_core *core, struct core_text *out)
{
	if (out->length == 0)
		return;
	out->text[out->length] = 0;
	core->ops->log(core->ctx, CGPU_LOG_EVENT, out->text);
}

/* The number of a registration's instance, which may have ended. Its place keeps what it was until another takes the place. */
static u32 instance_number(const struct cgpu_state *state, u32 gpu, u32 slot, u64 generation)
{
	u32 i;

	for (i = 0; i < CGPU_MAX_INST; i++) {
		if (state->gpu[gpu].instance[i].slot == slot && state->gpu[gpu].instance[i].generation == generation)
			return i;
	}
	return CORE_NONE;
}

/* Write a slice's line; the line of a slice that has ended has all its counters. */
static void say_slice(struct cgpu_core *core, const struct core_event *event, u32 gpu, int ended)
{
	char line[LINE_BYTES];
	struct core_text out;
	u32 number;

	core_text_start(&out, line, sizeof(line) - 1);
	core_lock(core);
	number = instance_number(core->state, gpu, event->slot, event->generation);
	if (number != CORE_NONE) {
		line_begin(core, &out, ended ? "ended" : "started", gpu);
		core_text_string(&out, " id=");
		core_text_string(&out, event->id);
	}
	if (number != CORE_NONE && ended) {
		core_stat_words(core, gpu, number, &out);
	} else if (number != CORE_NONE) {
		core_slice_words(&core->state->gpu[gpu].instance[number].slice, &out);
	}
	core_unlock(core);
	line_end(core, &out);
}

static void say_slices(struct cgpu_core *core, const struct core_event *event, int ended)
{
	u32 gpu;

	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		if (event->gpus >> gpu & 1)
			say_slice(core, event, gpu, ended);
	}
}

void core_event_started(struct cgpu_core *core, const struct core_event *event)
{
	say_slices(core, event, 0);
}

void core_event_ended(struct cgpu_core *core, const struct core_event *event)
{
	say_slices(core, event, 1);
}

void core_event_lost(struct cgpu_core *core, u32 gpu, u32 lost)
{
	char line[128]; /* the stack is deep where a call of the driver tells it */
	struct core_text out;

	core_text_start(&out, line, sizeof(line) - 1);
	core_lock(core);
	line_begin(core, &out, lost ? "lost" : "back", gpu);
	core_unlock(core);
	line_end(core, &out);
}
