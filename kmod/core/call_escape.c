// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* Which of the driver's escapes a container may use at all, and what is said of those that it may not. */
#include "call.h"

#define REFUSED_LINES 16u /* for one container */

/*
 * Those that CUDA and nvidia-smi use and that change no charge. Not here: what CUDA does not use and reaches around the
 * driver's own checks or around the charges, what no driver serves, and what nobody here has looked at.
 */
int core_escape_passes(u32 nr)
{
	switch (nr) {
	case NV_ESC_RM_IDLE_CHANNELS:
	case NV_ESC_RM_MAP_MEMORY:
	case NV_ESC_RM_UNMAP_MEMORY:
	case NV_ESC_RM_GET_EVENT_DATA:
	case NV_ESC_RM_ALLOC_CONTEXT_DMA2:
	case NV_ESC_RM_MAP_MEMORY_DMA:
	case NV_ESC_RM_UNMAP_MEMORY_DMA:
	case NV_ESC_RM_BIND_CONTEXT_DMA:
	case NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO:
	case NV_ESC_CARD_INFO:
	case NV_ESC_REGISTER_FD:
	case NV_ESC_ALLOC_OS_EVENT:
	case NV_ESC_FREE_OS_EVENT:
	case NV_ESC_STATUS_CODE:
	case NV_ESC_CHECK_VERSION_STR:
	case NV_ESC_ATTACH_GPUS_TO_FD:
	case NV_ESC_QUERY_DEVICE_INTR:
	case NV_ESC_SYS_PARAMS:
	case NV_ESC_NUMA_INFO:
	case NV_ESC_WAIT_OPEN_COMPLETE:
		return 1;
	default:
		return 0;
	}
}

/* Once until another one comes: and not for ever, as the container chooses them. */
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

int core_refusal_line(struct core_frame *frame, struct core_text *out)
{
	struct core_container *container = frame->container;

	if (container == NULL)
		return 0;
	core_text_string(out, "container ");
	core_text_string(out, container->id);
	if (is_news(container, &container->refused_class, frame->refused_class)) {
		class_line(out, frame->refused_class);
		return 1;
	}
	/* In one list with classes: hardly a control has the number of a class. */
	if (is_news(container, &container->refused_class, frame->unknown_control)) {
		core_text_string(out, ": driver control ");
		core_text_hex(out, frame->unknown_control);
		core_text_string(out, " is not known here and was refused");
		return 1;
	}
	if (is_news(container, &container->refused_escape, frame->unknown_uvm)) {
		core_text_string(out, ": call ");
		core_text_hex(out, frame->unknown_uvm - 1);
		core_text_string(out, " of nvidia-uvm is not known here and was refused");
		return 1;
	}
	if (is_news(container, &container->refused_escape, frame->unknown_escape)) {
		core_text_string(out, ": driver escape ");
		core_text_number(out, frame->unknown_escape - 1);
		core_text_string(out,
			frame->unknown_escape - 1 == NV_ESC_EXPORT_TO_DMABUF_FD ?
				" exports a dma-buf, which is not charged here, and was refused" :
				" is none of those that are let through and was refused");
		return 1;
	}
	return 0;
}
