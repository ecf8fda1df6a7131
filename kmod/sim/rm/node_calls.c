// SPDX-License-Identifier: Apache-2.0
/* Calls about the driver and its nodes rather than about RM objects (kernel-open/nvidia/nv.c). */
#include <errno.h>

#include "sim.h"

int escape_card_info(struct call *call)
{
	const struct sim *sim = call->sim;
	const struct nv_layout_nv_ioctl_card_info_t *at = &sim->abi->nv_ioctl_card_info_t;
	size_t room = call->size / at->bytes;
	uint32_t i;

	memset(call->data, 0, room * at->bytes);
	if (room < sim->card_count)
		return -EINVAL;
	for (i = 0; i < sim->card_count; i++) {
		uint8_t *entry = call->data + (size_t)i * at->bytes;

		entry[at->valid] = 1;
		entry[at->pci_info_bus] = card_bus(i);
		put16(entry, at->pci_info_vendor_id, SIM_PCI_VENDOR);
		put16(entry, at->pci_info_device_id, sim->cards[i].model->pci_device);
		put32(entry, at->gpu_id, sim->cards[i].gpu_id);
		put16(entry, at->interrupt_line, card_irq(i));
		put64(entry, at->reg_address, card_bar(i, 0));
		put64(entry, at->reg_size, card_bar_bytes(0));
		put64(entry, at->fb_address, card_bar(i, 1));
		put64(entry, at->fb_size, card_bar_bytes(1));
		put32(entry, at->minor_number, i);
	}
	return 0;
}

static bool same_version(const char *ours, const char *theirs, bool relaxed)
{
	uint32_t i;

	for (i = 0; i < NV_RM_API_VERSION_STRING_LENGTH; i++) {
		if (ours[i] != theirs[i])
			return false;
		if (ours[i] == '\0' || (relaxed && ours[i] == '.'))
			return true;
	}
	return false;
}

int escape_check_version(struct call *call)
{
	const struct nv_layout_nv_ioctl_rm_api_version_t *at = &call->sim->abi->nv_ioctl_rm_api_version_t;
	uint32_t command = get32(call->data, at->cmd);
	char *text = (char *)call->data + at->versionString;

	put32(call->data, at->reply, NV_RM_API_VERSION_REPLY_RECOGNIZED);
	if (command != NV_RM_API_VERSION_CMD_QUERY &&
		same_version(call->sim->version, text, command == NV_RM_API_VERSION_CMD_RELAXED))
		return 0;
	memcpy(text, call->sim->version, NV_RM_API_VERSION_STRING_LENGTH);
	return command == NV_RM_API_VERSION_CMD_QUERY ? 0 : -EINVAL;
}

/* The first caller sets the size for good. */
int escape_sys_params(struct call *call)
{
	uint64_t size = get64(call->data, call->sim->abi->nv_ioctl_sys_params_t.memblock_size);
	int result;

	pthread_mutex_lock(&call->sim->lock);
	if (call->sim->memblock_size == 0)
		call->sim->memblock_size = size;
	result = call->sim->memblock_size == size ? 0 : -EBUSY;
	pthread_mutex_unlock(&call->sim->lock);
	return result;
}

int escape_register_fd(struct call *call)
{
	int fd = (int)get32(call->data, call->sim->abi->nv_ioctl_register_fd_t.ctl_fd), result;
	intptr_t hold;
	uint64_t id;

	result = file_look_up(call, fd, &id, &hold);
	if (result != 0)
		return result;
	result = file_tie(call, id, hold);
	if (result != 0)
		file_let_go(hold);
	return result;
}

/* A file can do this once, and then keeps these cards open: a process that imports its exports needs them. */
int escape_attach_cards(struct call *call)
{
	uint32_t count = call->size / sizeof(uint32_t), cards = 0, i;
	struct sim *sim = call->sim;
	int result = 0;

	if (count == 0 || call->size % sizeof(uint32_t) != 0)
		return -EINVAL;
	pthread_mutex_lock(&sim->lock);
	if (call->file->has_cards)
		result = -EINVAL;
	for (i = 0; i < count && result == 0; i++) {
		uint32_t id = get32(call->data, (uint16_t)(i * sizeof(uint32_t)));
		uint32_t card = card_of_id(sim, id);

		if (id != 0 && card == SIM_NO_CARD)
			result = -EINVAL;
		else if (id != 0)
			cards |= 1u << card;
	}
	if (result == 0) {
		call->file->has_cards = true;
		call->file->cards = cards;
		for (i = 0; i < sim->card_count; i++)
			if (cards & 1u << i)
				card_attach(sim, i);
	}
	pthread_mutex_unlock(&sim->lock);
	return result;
}

/* A simulated card's memory is no NUMA node of the machine (nv.c, osapi.c rm_get_gpu_numa_info()). */
int escape_numa_info(struct call *call)
{
	const struct card_layout_nv_ioctl_numa_info_t *at = &call->sim->card_abi->nv_ioctl_numa_info_t;

	put32(call->data, at->nid, UINT32_MAX);
	put32(call->data, at->status, NV_IOCTL_NUMA_STATUS_DISABLED);
	put64(call->data, at->memblock_size, call->sim->memblock_size);
	put64(call->data, at->numa_mem_addr, 0);
	put64(call->data, at->numa_mem_size, 0);
	if (at->use_auto_online != NV_ABI_ABSENT)
		call->data[at->use_auto_online] = 0;
	put32(call->data, at->offline_addresses_numEntries, 0);
	return 0;
}

/* An open file that poll(2) would wake for events. No event of an object ever comes here. */
int escape_alloc_event(struct call *call)
{
	const struct card_layout_nv_ioctl_alloc_os_event_t *at = &call->sim->card_abi->nv_ioctl_alloc_os_event_t;

	put32(call->data, at->Status, NV_OK);
	return 0;
}

int escape_free_event(struct call *call)
{
	const struct card_layout_nv_ioctl_free_os_event_t *at = &call->sim->card_abi->nv_ioctl_free_os_event_t;

	put32(call->data, at->Status, NV_OK);
	return 0;
}

/* nv_ioctl_wait_open_complete_t */
#define WAIT_OPEN_BYTES 8u

/* Cards open at once here: result 0, adapter status NV_OK. */
int escape_wait_open(struct call *call)
{
	if (call->size != WAIT_OPEN_BYTES || !version_at_least(call->sim, 550, 40, 7))
		return -EINVAL;
	memset(call->data, 0, call->size);
	return 0;
}
