// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* The line that says to a writer of inst_ctl why it was refused. */
#include "registry/registry.h"
#include "lib/text.h"

int core_refuse_line(struct cgpu_refusal *why, int err, const char *format, ...)
{
	struct core_text out;
	va_list arguments;

	if (why == NULL)
		return err;
	core_text_start(&out, why->text, sizeof(why->text) - 2);
	va_start(arguments, format);
	core_text_arguments(&out, format, arguments);
	va_end(arguments);
	if (out.length)
		why->text[out.length++] = '\n';
	why->text[out.length] = 0;
	return err;
}

int core_refuse_unknown_gpu(struct cgpu_state *state, struct cgpu_refusal *why, u32 gpu)
{
	char list[4 * CGPU_MAX_GPUS + 1];
	struct core_text out;
	u32 i;

	core_text_start(&out, list, sizeof(list) - 1);
	for (i = 0; i < CGPU_MAX_GPUS; i++) {
		if (core_gpu(state, i) == NULL)
			continue;
		core_text_format(&out, "%s%u", out.length ? ", " : "", i);
	}
	list[out.length] = 0;
	if (gpu == CORE_NONE)
		return core_refuse_line(why, -ENOENT, "there is no such GPU; available: %s", list);
	return core_refuse_line(why, -ENOENT, "no GPU %u here; available: %s", gpu, list);
}
