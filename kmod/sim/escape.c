// SPDX-License-Identifier: Apache-2.0
/*
 * One ioctl of a node. As in the driver (nv.c:2404), only number and size count: the magic byte and the direction bits
 * of the command mean nothing to it, though FUSE goes by them in what it copies.
 */
#include <errno.h>
#include <linux/ioctl.h>

#include "sim.h"

enum device { CTL, CARD, ANY };

struct entry {
	uint32_t nr;
	enum device device;
	/* Where the table has the size that the structure must have; SIZE_OWN: the function checks it. */
	size_t bytes_at;
	int (*answer)(struct call *call);
};

#define BYTES(name) offsetof(struct nv_abi, name.bytes)
#define SIZE_OWN SIZE_MAX
/* nv_ioctl_wait_open_complete_t */
#define WAIT_OPEN_BYTES 8u

static const struct entry entries[] = {
	{ NV_ESC_RM_ALLOC, ANY, SIZE_OWN, escape_alloc },
	{ NV_ESC_RM_FREE, CTL, BYTES(NVOS00_PARAMETERS), escape_free },
	{ NV_ESC_RM_CONTROL, CTL, BYTES(NVOS54_PARAMETERS), escape_control },
	{ NV_ESC_RM_VID_HEAP_CONTROL, CTL, BYTES(NVOS32_PARAMETERS), escape_heap_control },
	{ NV_ESC_RM_DUP_OBJECT, CTL, BYTES(NVOS55_PARAMETERS), escape_dup },
	{ NV_ESC_RM_ALLOC_MEMORY, CARD, BYTES(nv_ioctl_nvos02_parameters_with_fd), escape_alloc_memory },
	{ NV_ESC_CARD_INFO, CTL, SIZE_OWN, escape_card_info },
	{ NV_ESC_REGISTER_FD, ANY, BYTES(nv_ioctl_register_fd_t), escape_register_fd },
	{ NV_ESC_CHECK_VERSION_STR, CTL, BYTES(nv_ioctl_rm_api_version_t), escape_check_version },
	{ NV_ESC_SYS_PARAMS, CTL, BYTES(nv_ioctl_sys_params_t), escape_sys_params },
	{ NV_ESC_WAIT_OPEN_COMPLETE, ANY, SIZE_OWN, escape_wait_open },
};

static bool size_fits(const struct call *call, const struct entry *entry)
{
	uint16_t expected;

	if (entry->nr == NV_ESC_WAIT_OPEN_COMPLETE)
		return call->size == WAIT_OPEN_BYTES;
	if (entry->bytes_at == SIZE_OWN)
		return true;
	memcpy(&expected, (const uint8_t *)call->sim->abi + entry->bytes_at, sizeof(expected));
	return call->size == expected;
}

static int dispatch(struct call *call)
{
	bool is_ctl = call->file->card == SIM_NO_CARD;
	size_t i;

	for (i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		const struct entry *entry = &entries[i];

		if (entry->nr != call->nr)
			continue;
		if (!size_fits(call, entry) || (entry->device == CTL && !is_ctl) || (entry->device == CARD && is_ctl))
			return -EINVAL;
		return entry->answer(call);
	}
	return -EINVAL;
}

/* Opens the envelope of NV_ESC_IOCTL_XFER_CMD: number, size and place of the real structure. */
static int open_envelope(struct call *call, uint64_t *address)
{
	const struct nv_layout_nv_ioctl_xfer_t *at = &call->sim->abi->nv_ioctl_xfer_t;
	uint8_t envelope[16];

	if (call->size != sizeof(envelope) || at->bytes != sizeof(envelope))
		return -EINVAL;
	if (!user_read(&call->caller, *address, envelope, sizeof(envelope)))
		return -EFAULT;
	call->nr = get32(envelope, at->cmd);
	call->size = get32(envelope, at->size);
	*address = get64(envelope, at->ptr);
	return call->size > NV_MAX_IOCTL_XFER_SIZE ? -EINVAL : 0;
}

int escape_ioctl(struct sim *sim, struct file *file, pid_t thread, uint32_t command, uint64_t argument, void *data)
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
		/* What FUSE copies back is the envelope, unchanged. */
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
	result = dispatch(&call);
	/* The driver copies back after an error too, except after a fault; FUSE only after a success. */
	if (direction & _IOC_READ && result == 0)
		memcpy(data, copy, call.size);
	else if (result != -EFAULT && !user_write(&call.caller, argument, copy, call.size))
		return -EFAULT;
	return result;
}
