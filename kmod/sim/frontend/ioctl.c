// SPDX-License-Identifier: Apache-2.0
/*
 * One ioctl of a mounted node. As in the driver (nv.c:2404), only number and size count. The driver ignores the
 * command's magic byte and direction bits, though FUSE copies by the direction.
 */
#include <errno.h>
#include <linux/ioctl.h>

#include "sim.h"

/* Opens the transfer wrapper, NV_ESC_IOCTL_XFER_CMD: number, size and place of the real structure. */
static int open_envelope(struct call *call, uint64_t *address)
{
	const struct nv_layout_nv_ioctl_xfer_t *at = &call->sim->abi->nv_ioctl_xfer_t;
	uint8_t wrapper[16];

	if (call->size != sizeof(wrapper) || at->bytes != sizeof(wrapper))
		return -EINVAL;
	if (!user_read(&call->caller, *address, wrapper, sizeof(wrapper)))
		return -EFAULT;
	call->nr = get32(wrapper, at->cmd);
	call->size = get32(wrapper, at->size);
	*address = get64(wrapper, at->ptr);
	return call->size > NV_MAX_IOCTL_XFER_SIZE ? -EINVAL : 0;
}

int escape_ioctl(struct sim *sim, struct open_file *file, pid_t thread, uint32_t command, uint64_t argument, void *data)
{
	uint8_t copy[NV_MAX_IOCTL_XFER_SIZE];
	struct call call = {
		.sim = sim,
		.file = file,
		.caller = { .thread = thread },
		.nr = _IOC_NR(command),
		.data = copy,
		.size = _IOC_SIZE(command),
	};
	uint32_t direction = call.size > 0 && data ? _IOC_DIR(command) : 0;
	int result;

	if (call.nr == NV_ESC_IOCTL_XFER_CMD) {
		/* FUSE copies the wrapper back, which has not changed. */
		if (direction == _IOC_READ && !user_read(&call.caller, argument, data, call.size))
			return -EFAULT;
		direction = 0;
		result = open_envelope(&call, &argument);
		if (result != 0)
			return result;
	}
	if (direction & _IOC_WRITE)
		memcpy(copy, data, call.size);
	else if (!user_read(&call.caller, argument, copy, call.size))
		return -EFAULT;
	result = escape_dispatch(&call);
	/* The driver copies back after an error too, except after a fault; FUSE only after a success. */
	if (direction & _IOC_READ && result == 0)
		memcpy(data, copy, call.size);
	else if (result != -EFAULT && !user_write(&call.caller, argument, copy, call.size))
		return -EFAULT;
	return result;
}
