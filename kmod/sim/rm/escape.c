// SPDX-License-Identifier: Apache-2.0
/* Hands a call to the function that answers it. */
#include <errno.h>

#include "sim.h"

static const struct escape_entry entries[] = {
	{ NV_ESC_RM_ALLOC, ON_ANY, SIZE_OWN, escape_alloc },
	{ NV_ESC_RM_FREE, ON_CTL, BYTES(NVOS00_PARAMETERS), escape_free },
	{ NV_ESC_RM_CONTROL, ON_CTL, BYTES(NVOS54_PARAMETERS), escape_control },
	{ NV_ESC_RM_VID_HEAP_CONTROL, ON_CTL, BYTES(NVOS32_PARAMETERS), escape_heap_control },
	{ NV_ESC_RM_DUP_OBJECT, ON_CTL, BYTES(NVOS55_PARAMETERS), escape_dup },
	{ NV_ESC_RM_SHARE, ON_CTL, BYTES(NVOS57_PARAMETERS), escape_share },
	{ NV_ESC_RM_ALLOC_MEMORY, ON_CARD, BYTES(nv_ioctl_nvos02_parameters_with_fd), escape_alloc_memory },
	{ NV_ESC_CARD_INFO, ON_CTL, SIZE_OWN, escape_card_info },
	{ NV_ESC_REGISTER_FD, ON_ANY, BYTES(nv_ioctl_register_fd_t), escape_register_fd },
	{ NV_ESC_CHECK_VERSION_STR, ON_CTL, BYTES(nv_ioctl_rm_api_version_t), escape_check_version },
	{ NV_ESC_SYS_PARAMS, ON_CTL, BYTES(nv_ioctl_sys_params_t), escape_sys_params },
	{ NV_ESC_NUMA_INFO, ON_CARD, CARD_BYTES(nv_ioctl_numa_info_t), escape_numa_info },
	{ NV_ESC_ATTACH_GPUS_TO_FD, ON_CTL, SIZE_OWN, escape_attach_cards },
	{ NV_ESC_ALLOC_OS_EVENT, ON_ANY, CARD_BYTES(nv_ioctl_alloc_os_event_t), escape_alloc_event },
	{ NV_ESC_FREE_OS_EVENT, ON_ANY, CARD_BYTES(nv_ioctl_free_os_event_t), escape_free_event },
	{ NV_ESC_WAIT_OPEN_COMPLETE, ON_ANY, SIZE_OWN, escape_wait_open },
	{ 0 },
};

static const struct escape_entry *find_entry(const struct escape_entry *entry, uint32_t nr)
{
	while (entry->answer && entry->nr != nr)
		entry++;
	return entry->answer ? entry : NULL;
}

int escape_dispatch(struct call *call)
{
	const struct escape_entry *entry = find_entry(entries, call->nr);
	enum escape_node node = call->file->card == SIM_NO_CARD ? ON_CTL : ON_CARD;

	if (!entry && call->sim->contents)
		entry = find_entry(call->sim->contents->escapes, call->nr);
	if (call->sim->stuck)
		return -EIO;
	if (!entry || (entry->node != ON_ANY && entry->node != node))
		return -EINVAL;
	if (entry->bytes_at != SIZE_MAX && call->size != layout_word(call->sim, entry->of_card, entry->bytes_at))
		return -EINVAL;
	return entry->answer(call);
}
