// SPDX-License-Identifier: Apache-2.0
/* Clients and their objects. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rm_client.h"

#define FIRST_HANDLE 0x5c000001u

void session_init(struct session *session, const struct settings *settings, uint32_t gpu)
{
	*session = (struct session){
		.settings = settings, .gpu = gpu, .ctl = -1, .card = -1, .next_handle = FIRST_HANDLE
	};
}

/* handle: 0 lets the driver choose. */
uint32_t session_alloc(struct session *session, uint32_t parent, uint32_t class_id, void *params, uint32_t params_size,
	uint32_t *handle)
{
	const struct settings *settings = session->settings;
	struct rm_ioctl io = rm_alloc_ioctl(
		settings->abi, settings->via, session->client, parent, *handle, class_id, params, params_size);
	uint32_t status = driver_make(settings, session->ctl, &io);

	if (status != RM_ERRNO)
		*handle = get32(io.data, io.handle);
	return status;
}

uint32_t session_control(struct session *session, uint32_t object, uint32_t command, void *params, uint32_t size)
{
	struct rm_ioctl io = rm_control_ioctl(session->settings->abi, session->client, object, command, params, size);

	return driver_make(session->settings, session->ctl, &io);
}

uint32_t session_free(struct session *session, uint32_t handle)
{
	struct rm_ioctl io = rm_free_ioctl(session->settings->abi, session->client, session->device, handle);

	return driver_make(session->settings, session->ctl, &io);
}

/* Device number that the driver gives to a card. */
static uint32_t device_number(struct session *session, uint32_t *number)
{
	const struct nv_layout_NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS *at =
		&session->settings->abi->NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS;
	uint32_t ids[RM_MAX_GPUS], count, status;
	uint8_t params[64] = { 0 };

	status = driver_cards(session->settings, session->ctl, ids, &count);
	if (status != NV_OK)
		return status;
	if (ids[session->gpu] == 0)
		return NV_ERR_INVALID_DEVICE;
	put32(params, at->gpuId, ids[session->gpu]);
	status = session_control(session, session->client, NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2, params, at->bytes);
	*number = get32(params, at->deviceInstance);
	return status;
}

static uint32_t register_card(struct session *session)
{
	uint8_t data[4] = { 0 };

	put32(data, session->settings->abi->nv_ioctl_register_fd_t.ctl_fd, (uint32_t)session->ctl);
	return driver_call(session->settings, session->card, NV_ESC_REGISTER_FD, data, sizeof(data));
}

uint32_t session_begin(struct session *session)
{
	uint8_t device[64] = { 0 }, subdevice[8] = { 0 };
	const struct nv_abi *abi = session->settings->abi;
	uint32_t status = register_card(session), number = 0;

	if (status == NV_OK)
		status = session_alloc(session, 0, NV01_ROOT_CLIENT, NULL, 0, &session->client);
	if (status == NV_OK)
		status = device_number(session, &number);
	if (status == NV_OK) {
		put32(device, abi->NV0080_ALLOC_PARAMETERS.deviceId, number);
		status = session_alloc(session, session->client, NV01_DEVICE_0, device,
			abi->NV0080_ALLOC_PARAMETERS.bytes, &session->device);
	}
	if (status == NV_OK)
		status = session_alloc(session, session->device, NV20_SUBDEVICE_0, subdevice,
			abi->NV2080_ALLOC_PARAMETERS.bytes, &session->subdevice);
	return status;
}

uint32_t session_open(struct session *session)
{
	uint32_t status;
	char card[16];
	int error;

	if (session->ctl >= 0)
		return NV_OK;
	session->ctl = driver_open(session->settings, "nvidiactl");
	if (session->ctl < 0)
		return RM_ERRNO;
	snprintf(card, sizeof(card), "nvidia%u", session->gpu);
	session->card = driver_open(session->settings, card);
	status = session->card < 0 ? RM_ERRNO : session_begin(session);
	if (status != NV_OK) {
		error = errno;
		session_drop(session);
		errno = error;
	}
	return status;
}

void session_drop(struct session *session)
{
	const struct settings *settings = session->settings;

	if (session->card >= 0)
		close(session->card);
	if (session->ctl >= 0)
		close(session->ctl);
	free(session->held);
	session_init(session, settings, session->gpu);
}

void session_close(struct session *session)
{
	if (session->ctl >= 0 && session->client != 0) {
		while (session->count > 0)
			memory_free_at(session, session->count - 1);
		session_free(session, session->client);
	}
	session_drop(session);
}
