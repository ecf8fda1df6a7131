// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* What to do with one driver call, before it runs. */
#include "call.h"

#define UNKNOWN_CLASS_LINES 16u /* for one container */

int cgpu_call_unwrap(const struct cgpu_core *core, const u8 *envelope, u32 bytes, u32 *nr, u32 *inner, u64 *address)
{
	const struct nv_layout_nv_ioctl_xfer_t *at = &core->abi->nv_ioctl_xfer_t;

	if (bytes != at->bytes)
		return -EINVAL;
	*nr = core_get32(envelope, at->cmd);
	*inner = core_get32(envelope, at->size);
	*address = core_get64(envelope, at->ptr);
	/* An envelope inside an envelope is nothing that the driver opens. */
	return *inner > NV_MAX_IOCTL_XFER_SIZE || *nr == NV_ESC_IOCTL_XFER_CMD ? -EINVAL : 0;
}

int core_class_memory(u32 class)
{
	u32 low = 0, high = nv_class_count;

	while (low < high) {
		u32 middle = low + (high - low) / 2;

		if (nv_classes[middle].id == class)
			return nv_classes[middle].memory;
		if (nv_classes[middle].id < class)
			low = middle + 1;
		else
			high = middle;
	}
	return -ENOENT;
}

int core_segment(struct core_frame *frame, u32 index, u32 parent, u32 pointer, u32 bytes)
{
	struct cgpu_call *call = frame->call;
	const u8 *holder = parent ? call->segment[parent - 1].data : call->top;
	struct cgpu_segment *segment = &call->segment[index];

	if (index < call->segments) {
		if (segment->data == NULL || segment->bytes != bytes || segment->parent != parent)
			return -EINVAL;
		return segment->pointer == pointer ? 0 : -EINVAL;
	}
	if (index != call->segments || index >= CGPU_MAX_SEGMENTS || bytes > CGPU_SEGMENT_MAX)
		return -EINVAL;
	segment->parent = parent;
	segment->pointer = pointer;
	segment->bytes = bytes;
	segment->address = core_get64(holder, pointer);
	segment->data = NULL;
	call->segments = index + 1;
	return 1;
}

/* Escapes that CUDA does not use and that reach around the driver's own checks or around the charges. */
static int is_denied(u32 nr)
{
	switch (nr) {
	case NV_ESC_RM_CONFIG_GET:
	case NV_ESC_RM_CONFIG_SET:
	case NV_ESC_RM_CONFIG_GET_EX:
	case NV_ESC_RM_CONFIG_SET_EX:
	case NV_ESC_RM_I2C_ACCESS:
	case NV_ESC_RM_ACCESS_REGISTRY:
	case NV_ESC_RM_ADD_VBLANK_CALLBACK:
	case NV_ESC_RM_LOCKLESS_DIAGNOSTIC:
	case NV_ESC_SET_NUMA_STATUS:
	case NV_ESC_EXPORT_TO_DMABUF_FD:
	case NV_ESC_IOCTL_XFER_CMD:
		return 1;
	default:
		return 0;
	}
}

static enum cgpu_verdict by_escape(struct core_frame *frame)
{
	switch (frame->call->nr) {
	case NV_ESC_RM_ALLOC:
		return core_begin_alloc(frame);
	case NV_ESC_RM_ALLOC_MEMORY:
		return core_begin_alloc_memory(frame);
	case NV_ESC_RM_ALLOC_OBJECT:
		return core_begin_alloc_object(frame);
	case NV_ESC_RM_VID_HEAP_CONTROL:
		return core_begin_heap(frame);
	case NV_ESC_RM_CONTROL:
		return core_begin_control(frame);
	case NV_ESC_RM_DUP_OBJECT:
		return core_begin_dup(frame);
	case NV_ESC_RM_FREE:
		return core_begin_free(frame);
	default:
		return is_denied(frame->call->nr) ? core_refuse(frame, EINVAL) : CGPU_CONTINUE;
	}
}

static enum cgpu_verdict decide(struct core_frame *frame)
{
	struct cgpu_call *call = frame->call;
	u32 claimed;

	frame->container = core_container(frame->state, call->slot, call->generation);
	/* Freeing what came too late is right for whoever asks. */
	if (call->opaque[CORE_NOTE_UNDO] == CORE_UNDO && call->nr == NV_ESC_RM_FREE)
		return core_begin_free(frame);
	if (frame->container == NULL)
		return core_refuse(frame, ENODEV);
	if (call->device == CGPU_DEVICE_UVM)
		return CGPU_CONTINUE;
	if (call->device == CGPU_DEVICE_OTHER)
		return core_refuse(frame, EPERM);
	if (call->device == CGPU_DEVICE_GPU && core_instance_of(frame->state, call->gpu, call->slot, NULL) == NULL)
		return core_refuse(frame, EPERM);
	if (core_names_holder(frame))
		return core_answer(frame, NV_ERR_INVALID_CLIENT);
	claimed = core_claimed(frame);
	return claimed ? core_not_yours(frame, claimed) : by_escape(frame);
}

/* A class in a fresh log line, once until another one comes: and not for ever, as the container chooses them. */
static int unknown_class_line(struct core_frame *frame, struct core_text *out)
{
	if (frame->unknown_class == 0 || frame->container == NULL)
		return 0;
	if (frame->container->refused_class == frame->unknown_class ||
		frame->container->refused_lines >= UNKNOWN_CLASS_LINES)
		return 0;
	frame->container->refused_lines++;
	frame->container->refused_class = frame->unknown_class;
	core_text_string(out, "container ");
	core_text_string(out, frame->container->id);
	core_text_string(out, ": driver class ");
	core_text_hex(out, frame->unknown_class);
	core_text_string(out, " is not known here and was refused");
	return 1;
}

enum cgpu_verdict cgpu_call_begin(struct cgpu_core *core, struct cgpu_call *call)
{
	struct core_frame frame = { .core = core, .state = core->state, .abi = core->abi, .call = call };
	char line[CGPU_ID_BYTES + 96] = "";
	enum cgpu_verdict verdict;
	struct core_text out;
	int say;

	core_text_start(&out, line, sizeof(line) - 1);
	call->error = 0;
	call->no_room = 0;
	core_lock(core);
	verdict = decide(&frame);
	say = verdict == CGPU_ANSWER && unknown_class_line(&frame, &out);
	if ((verdict == CGPU_ANSWER || verdict == CGPU_REFUSE) && !core->state->settings.enforce) {
		call->no_room = 0;
		verdict = CGPU_CONTINUE;
	}
	core_unlock(core);
	if (verdict == CGPU_ANSWER)
		core_put32(call->top, frame.status_at, frame.status);
	if (say)
		core->ops->log(core->ctx, 4, line);
	return verdict;
}
