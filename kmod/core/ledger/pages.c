// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * Pages that the driver's own allocator has given out, by the container whose call took them. Where the transport
 * counts them, a slice has those that were given out for it: page tables, buffers of contexts and memory that no class
 * tells of are in that count. UVM's chunks are not, as several containers may have parts of one: managed memory is
 * charged by its length beside it. The transport refuses pages beyond a limit in the allocator itself; the ledger
 * refuses before, without the driver's work, and explains.
 */
#include "ledger/ledger.h"
#include "registry/registry.h"

int core_pages_counted(struct cgpu_core *core)
{
	u64 bytes;

	return core->ops->pages != NULL && core->ops->pages(core->ctx, 0, 0, &bytes);
}

void core_pages_look_at(struct cgpu_core *core, u32 gpu, struct core_instance *instance)
{
	u64 bytes = 0;
	u32 number = (u32)(instance - core->state->gpu[gpu].instance);

	core_assert_locked();
	instance->counted =
		core->ops->pages != NULL && core->ops->pages(core->ctx, gpu, instance->generation, &bytes) != 0;
	instance->pages = bytes;
	if (instance->counted)
		core_stat_taken(core->state, gpu, number, core_instance_has(instance));
}

/* Whether a container that has pages of a GPU is still registered. */
static int is_registered(struct cgpu_state *state, u32 gpu, u64 generation)
{
	u32 i;

	for (i = 0; i < CGPU_MAX_INST; i++) {
		const struct core_instance *instance = core_instance(state, gpu, i);

		if (instance && instance->generation == generation)
			return 1;
	}
	return 0;
}

/* The next removed container that has left pages on a GPU. */
static int left_next(struct cgpu_core *core, u32 gpu, u32 *cursor, struct cgpu_pages *pages)
{
	while (core->ops->pages_next(core->ctx, gpu, cursor, pages) == 0) {
		if (pages->bytes && !is_registered(core->state, gpu, pages->generation))
			return 0;
	}
	return -ENOENT;
}

void core_pages_look(struct cgpu_core *core, u32 gpu)
{
	struct core_gpu *found = core_gpu(core->state, gpu);
	struct cgpu_pages pages;
	u32 i, cursor = 0;

	if (found == NULL)
		return;
	found->counted = (u32)core_pages_counted(core);
	found->left = 0;
	for (i = 0; i < CGPU_MAX_INST; i++) {
		if (core_instance(core->state, gpu, i))
			core_pages_look_at(core, gpu, &found->instance[i]);
	}
	while (found->counted && left_next(core, gpu, &cursor, &pages) == 0)
		found->left += pages.bytes;
}

void core_pages_look_all(struct cgpu_core *core)
{
	u32 gpu;

	for (gpu = 0; core->ops->pages && gpu < CGPU_MAX_GPUS; gpu++)
		core_pages_look(core, gpu);
}

static void left_line(struct core_text *out, const char *id, u64 bytes)
{
	core_text_string(out, id);
	core_text_string(out, " ");
	core_text_number(out, bytes);
	core_text_string(out, "\n");
}

void core_left_text(struct cgpu_core *core, u32 gpu, struct core_text *out)
{
	const struct core_gpu *found = &core->state->gpu[gpu];
	u64 unnamed = found->counted ? found->orphaned_managed : found->orphaned;
	struct cgpu_pages pages;
	u32 cursor = 0;

	while (found->counted && left_next(core, gpu, &cursor, &pages) == 0) {
		if (pages.generation)
			left_line(out, pages.id, pages.bytes);
		else
			unnamed += pages.bytes;
	}
	if (unnamed)
		left_line(out, "-", unnamed);
}

/* Bytes of pages that the driver may give an instance. */
static u64 limit_of(const struct cgpu_settings *settings, const struct core_instance *instance)
{
	u64 most = instance->slice.memsize + settings->page_margin;

	if (!settings->enforce)
		return ~0ull;
	return instance->managed < most ? most - instance->managed : 0;
}

/* A container with a limit and no instance was removed: maybe by a core that ended before it told the transport, or
 * by recovery. */
static void publish_ends(struct cgpu_core *core, u32 gpu)
{
	struct cgpu_pages pages;
	u32 cursor = 0;

	while (core->ops->pages_next(core->ctx, gpu, &cursor, &pages) == 0) {
		if (pages.generation && !is_registered(core->state, gpu, pages.generation))
			core->ops->pages_limit(core->ctx, gpu, pages.generation, 0, NULL);
	}
}

static void publish(struct cgpu_core *core, u32 gpu)
{
	struct cgpu_state *state = core->state;
	/* Containers without a limit may have any pages of a passthrough GPU. */
	u64 others = core_passthroughs(state, gpu) || !state->settings.enforce ? ~0ull : 0;
	u32 i;

	core->ops->pages_limit(core->ctx, gpu, 0, others, "");
	publish_ends(core, gpu);
	for (i = 0; i < CGPU_MAX_INST; i++) {
		const struct core_instance *record = core_instance(state, gpu, i);

		if (record)
			core->ops->pages_limit(core->ctx, gpu, record->generation, limit_of(&state->settings, record),
				state->container[record->slot].id);
	}
}

void core_pages_publish(struct cgpu_core *core)
{
	u32 due = core->state->limits_due, gpu;

	core->state->limits_due = 0;
	for (gpu = 0; core->ops->pages_limit && due; gpu++, due >>= 1) {
		if ((due & 1) && core_gpu(core->state, gpu))
			publish(core, gpu);
	}
}
