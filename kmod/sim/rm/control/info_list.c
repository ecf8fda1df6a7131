// SPDX-License-Identifier: Apache-2.0
/* Fills lists of (index, value) pairs, which many controls have in their parameters or at an address in them. */
#include <stdlib.h>

#include "control.h"

static uint32_t info_list_fill(struct control *control, uint8_t *list, uint32_t count, info_value value)
{
	const struct card_layout_NV2080_CTRL_BUS_INFO *at = &control->card_abi->NV2080_CTRL_BUS_INFO;
	uint32_t i, data, status;

	for (i = 0; i < count; i++, list += at->bytes) {
		status = value(control, get32(list, at->index), &data);
		if (status != NV_OK)
			return status;
		put32(list, at->data, data);
	}
	return NV_OK;
}

uint32_t info_list_inside(struct control *control, uint16_t list, uint32_t count, uint32_t most, info_value value)
{
	if (count == 0 || count > most)
		return NV_ERR_INVALID_ARGUMENT;
	return info_list_fill(control, control->params + list, count, value);
}

uint32_t info_list_outside(struct control *control, uint64_t address, uint32_t count, uint32_t most, info_value value)
{
	const struct caller *caller = &control->call->caller;
	size_t bytes = (size_t)count * control->card_abi->NV2080_CTRL_BUS_INFO.bytes;
	uint32_t status;
	uint8_t *list;

	if (count == 0 || count > most || address == 0)
		return NV_ERR_INVALID_ARGUMENT;
	list = malloc(bytes);
	if (!list)
		return NV_ERR_INSUFFICIENT_RESOURCES;
	status = user_read(caller, address, list, bytes) ? info_list_fill(control, list, count, value) :
							   NV_ERR_INVALID_ADDRESS;
	if (status == NV_OK && !user_write(caller, address, list, bytes))
		status = NV_ERR_INVALID_ADDRESS;
	free(list);
	return status;
}
