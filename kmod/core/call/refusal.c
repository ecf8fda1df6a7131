// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Log lines about calls that were refused because the core does not know them, and counts of all refused calls. */
#include "call/call.h"

#define REFUSED_LINES 16u /* for one container */

/* Whether a line is due: a number is logged once until another one comes, and only so often, as the container
 * chooses the numbers. */
static int is_news(struct core_container *container, u32 *last, u32 number)
{
	if (number == 0 || *last == number || container->refused_lines >= REFUSED_LINES)
		return 0;
	container->refused_lines++;
	*last = number;
	return 1;
}

static void class_line(struct core_text *out, u32 number)
{
	const struct nv_class *class = core_class(number);

	core_text_string(out, ": driver class ");
	if (class == NULL) {
		core_text_hex(out, number);
		core_text_string(out, " is not known here and was refused");
		return;
	}
	core_text_string(out, class->name);
	if (class->memory == NV_CLASS_MEMORY_EXPORT || class->memory == NV_CLASS_MEMORY_FABRIC ||
		class->memory == NV_CLASS_MEMORY_KEEPER)
		core_text_string(out, " keeps memory in a way that is not charged here and was refused");
	else
		core_text_string(out, " is not for a container and was refused");
}

static enum core_refusal refusal_of(const struct core_call_context *context)
{
	const struct cgpu_call *call = context->call;

	if (call->no_room == CGPU_NO_ROOM_OWNERSHIP)
		return CORE_REFUSAL_CLIENT;
	if (call->no_room == CGPU_NO_ROOM_LEFT)
		return CORE_REFUSAL_RECORDS;
	if (context->refused_class)
		return CORE_REFUSAL_CLASS;
	if (call->nr == NV_ESC_RM_CONTROL && (call->device == CGPU_DEVICE_CTL || call->device == CGPU_DEVICE_GPU))
		return CORE_REFUSAL_CONTROL;
	return CORE_REFUSAL_CALL;
}

void core_refusal_count(struct core_call_context *context)
{
	if (context->is_short)
		core_stat_short(context->state, context->short_gpu, context->short_instance, context->short_why);
	else
		core_stat_refused(
			context->state, context->container ? context->call->slot : CORE_NONE, refusal_of(context));
}

int core_refusal_line(struct core_call_context *context, struct core_text *out)
{
	struct core_container *container = context->container;

	if (container == NULL)
		return 0;
	core_text_string(out, "container ");
	core_text_string(out, container->id);
	if (is_news(container, &container->refused_class, context->refused_class)) {
		class_line(out, context->refused_class);
		return 1;
	}
	/* Classes and controls share one field: hardly a control has the number of a class. */
	if (is_news(container, &container->refused_class, context->unknown_control)) {
		core_text_string(out, ": driver control ");
		core_text_hex(out, context->unknown_control);
		core_text_string(out, " is not known here and was refused");
		return 1;
	}
	if (is_news(container, &container->refused_escape, context->unknown_uvm)) {
		core_text_string(out, ": call ");
		core_text_hex(out, context->unknown_uvm - 1);
		core_text_string(out, " of nvidia-uvm is none of those that are let through and was refused");
		return 1;
	}
	if (is_news(container, &container->refused_escape, context->unknown_escape)) {
		core_text_string(out, ": driver escape ");
		core_text_number(out, context->unknown_escape - 1);
		core_text_string(out,
			context->unknown_escape - 1 == NV_ESC_EXPORT_TO_DMABUF_FD ?
				" exports a dma-buf, which is not charged here, and was refused" :
				" is none of those that are let through and was refused");
		return 1;
	}
	return 0;
}
