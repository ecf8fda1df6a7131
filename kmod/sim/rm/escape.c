// SPDX-License-Identifier: Apache-2.0
/* Which function answers a call, and on which node and with which size it may come. */
#include <errno.h>

#include "sim.h"

enum node { CTL, CARD, ANY };

struct entry {
	uint32_t nr;
	enum node device;
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
	{ NV_ESC_RM_SHARE, CTL, BYTES(NVOS57_PARAMETERS), escape_share },
	{ NV_ESC_RM_ALLOC_MEMORY, CARD, BYTES(nv_ioctl_nvos02_parameters_with_fd), escape_alloc_memory },
	{ NV_ESC_CARD_INFO, CTL, SIZE_OWN, escape_card_info },
	{ NV_ESC_REGISTER_FD, ANY, BYTES(nv_ioctl_register_fd_t), escape_register_fd },
	{ NV_ESC_CHECK_VERSION_STR, CTL, BYTES(nv_ioctl_rm_api_version_t), escape_check_version },
	{ NV_ESC_SYS_PARAMS, CTL, BYTES(nv_ioctl_sys_params_t), escape_sys_params },
	{ NV_ESC_NUMA_INFO, CARD, SIZE_OWN, escape_numa_info },
	{ NV_ESC_ATTACH_GPUS_TO_FD, CTL, SIZE_OWN, escape_attach_cards },
	{ NV_ESC_ALLOC_OS_EVENT, ANY, SIZE_OWN, escape_alloc_event },
	{ NV_ESC_FREE_OS_EVENT, ANY, SIZE_OWN, escape_free_event },
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

int escape_dispatch(struct call *call)
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
