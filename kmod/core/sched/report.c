// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* What is said of how the time of a GPU is divided: in the tree, and in the log when the driver does not do it. */
#include "lib/text.h"
#include "sched/sched.h"

const char *core_sched_divided_by(const struct cgpu_state *state, u32 gpu)
{
	const struct core_share *share = &state->gpu[gpu].share;
	const struct cgpu_sched_settings *settings = &share->sched.settings;

	if (cgpu_policies[settings->policy].undivided)
		return "driver";
	if (cgpu_policies[settings->policy].timeslices && settings->time_slices && !share->sched.contended)
		return "time_slices";
	return share->enable_fail ? "nobody" : "gates";
}

const char *core_sched_usage_from(const struct cgpu_state *state, u32 gpu)
{
	const struct core_share *share = &state->gpu[gpu].share;

	if (core_sched_rounds_tell(share))
		return "gates";
	return share->samples ? "samples" : "none";
}

void core_sched_failure_line(struct cgpu_core *core, u32 gpu, const char *control, u32 status, const char *follows)
{
	char line[160] = "";
	struct core_text out;

	core_text_start(&out, line, sizeof(line) - 1);
	core_text_string(&out, "GPU ");
	core_text_number(&out, gpu);
	core_text_string(&out, ": the driver does not do ");
	core_text_string(&out, control);
	core_text_string(&out, " (status ");
	core_text_hex(&out, status);
	core_text_string(&out, "): ");
	core_text_string(&out, follows);
	core->ops->log(core->ctx, 4, line);
}
