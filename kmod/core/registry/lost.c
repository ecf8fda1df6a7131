// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/*
 * GPUs that the driver has lost ("GPU has fallen off the bus", Xid 79): it answers NV_ERR_GPU_IS_LOST to what is asked of them.
 * A container's call tells, and so does a question of the engine's own. A GPU is back when the driver has answered a question
 * of the engine's own about its memory: the driver refuses that one as long as the GPU is lost (rmapi/control.c).
 */
#include "lib/text.h"
#include "registry/registry.h"

void core_lost_set(struct cgpu_state *state, u32 gpu, u32 lost, struct core_lost_line *line)
{
	struct core_gpu *found = core_gpu(state, gpu);
	struct core_text out;

	core_assert_locked();
	line->level = 0;
	if (found == NULL || found->lost == lost)
		return;
	memset(line->text, 0, sizeof(line->text));
	found->lost = lost;
	line->level = lost ? 3 : 6;
	line->gpu = gpu;
	line->lost = lost;
	core_text_start(&out, line->text, sizeof(line->text) - 1);
	core_text_format(&out, "GPU %u (%s): %s", gpu, found->facts.uuid,
		lost ? "the driver has lost it (NV_ERR_GPU_IS_LOST): its containers have no GPU any more, and new slices of "
		       "it are refused; why: the lines of NVRM in dmesg" :
		       "the driver answers for it again");
}

void core_lost_log(struct cgpu_core *core, const struct core_lost_line *line)
{
	if (!line->level)
		return;
	core->ops->log(core->ctx, line->level, line->text);
	core_event_lost(core, line->gpu, line->lost);
}

int cgpu_gpu_set_lost(struct cgpu_core *core, u32 gpu, u32 lost)
{
	struct core_lost_line line;
	int known;

	core_lock(core);
	known = core_gpu(core->state, gpu) != NULL;
	core_lost_set(core->state, gpu, lost != 0, &line);
	core_unlock(core);
	core_lost_log(core, &line);
	return known ? 0 : -ENOENT;
}
