// SPDX-License-Identifier: GPL-2.0-only
/*
 * The entry points of the binary half. In the driver it is an object without a place for the function tracer in its
 * functions, so this file, and those of the card, are compiled without one.
 */
#include <linux/errno.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "driver.h"

static bool answer_gates(const struct call *call)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &nvidia_card->abi->NVOS54_PARAMETERS;

	if (!knob_free_gates() || get32(call->data, at->cmd) != NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS)
		return false;
	put32(call->data, at->status, NV_OK);
	return true;
}

noinline u32 rm_ioctl(
	struct nvidia_stack *sp, struct nv_state *nv, struct nv_file_private *nvfp, u32 cmd, void *data, u32 size)
{
	struct call call = {
		.sim = nvidia_card,
		.file = nvfp->file,
		.caller = { .thread = task_pid_nr(current) },
		.nr = cmd,
		.data = data,
		.size = size,
	};
	int result;

	knob_sleep();
	if (knob_fails(__func__))
		return NV_ERR_GENERIC;
	if (cmd == NV_ESC_RM_CONTROL && size == nvidia_card->abi->NVOS54_PARAMETERS.bytes && answer_gates(&call))
		return NV_OK;
	result = escape_dispatch(&call);
	knob_linger();
	return result == 0 ? NV_OK : NV_ERR_INVALID_ARGUMENT;
}

noinline void rm_cleanup_file_private(struct nvidia_stack *sp, struct nv_state *nv, struct nv_file_private *nvfp)
{
	file_release(nvidia_card, nvfp->file);
	nvfp->file = NULL;
}

/* NVOS21 was the form of an allocation here until 570 (nv-kernel-rmapi-ops.h). */
static size_t alloc_bytes(const struct sim *sim)
{
	return version_at_least(sim, 575, 51, 2) ? sim->abi->NVOS64_PARAMETERS.bytes :
						   sim->abi->NVOS21_PARAMETERS.bytes;
}

noinline void rm_kernel_rmapi_op(struct nvidia_stack *sp, void *ops_cmd)
{
	const struct nv_layout_nvidia_kernel_rmapi_ops_t *at = &nvidia_card->abi->nvidia_kernel_rmapi_ops_t;
	struct call call = {
		.sim = nvidia_card,
		.caller = { .thread = SIM_KERNEL },
		.data = (u8 *)ops_cmd + at->params,
	};

	switch (get32(ops_cmd, at->op)) {
	case NV01_FREE:
		escape_free(&call);
		break;
	case NV04_ALLOC:
		call.size = alloc_bytes(nvidia_card);
		escape_alloc(&call);
		break;
	case NV04_CONTROL:
		if (!answer_gates(&call))
			escape_control(&call);
		break;
	default:
		break;
	}
}

static bool copy_in(void *out, u8 *from, u32 size)
{
	u8 more;

	if (knob_copies("aside"))
		return copy_from_user(out, (const void __user *)from, size) == 0;
	if (knob_copies("more") && os_memcpy_from_user(&more, from + size, 1) != NV_OK)
		return false;
	return os_memcpy_from_user(out, from, size) == NV_OK;
}

static bool copy_out(u8 *to, const void *data, u32 size)
{
	if (knob_copies("aside"))
		return copy_to_user((void __user *)to, data, size) == 0;
	return os_memcpy_to_user(to, data, size) == NV_OK;
}

bool user_read(const struct caller *caller, uint64_t address, void *out, size_t size)
{
	void *from = (void *)(uintptr_t)address;

	if (caller->thread == SIM_KERNEL)
		return memcpy(out, from, size) == out;
	return size == 0 || copy_in(out, from, (u32)size);
}

bool user_write(const struct caller *caller, uint64_t address, const void *data, size_t size)
{
	void *to = (void *)(uintptr_t)address;

	if (caller->thread == SIM_KERNEL)
		return memcpy(to, data, size) == to;
	return size == 0 || copy_out(to, data, (u32)size);
}

int file_look_up(struct call *call, int fd, uint64_t *id, intptr_t *hold)
{
	void *held;
	struct nv_file_private *ctl = nv_get_file_private(fd, true, &held);

	if (!ctl)
		return -EINVAL;
	*id = ctl->file->id;
	*hold = (intptr_t)held;
	return 0;
}

static struct nv_file_private *look_up_aside(int fd, void **held)
{
	struct file *file = fget(fd);

	*held = file;
	return file ? file->private_data : NULL;
}

uint64_t file_resolve(struct call *call, int fd, intptr_t *hold)
{
	void *held;
	struct nv_file_private *ctl =
		knob_copies("descriptors") ? look_up_aside(fd, &held) : nv_get_file_private(fd, true, &held);

	if (!ctl)
		return 0;
	*hold = (intptr_t)held;
	return ctl->file->id;
}

void file_let_go(intptr_t hold)
{
	nv_put_file_private((void *)hold);
}
