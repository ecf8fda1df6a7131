// SPDX-License-Identifier: Apache-2.0
/* A client on one card, as CUDA makes it, and the objects that checks leave in it. */
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

static u32 open_nodes(struct session *session)
{
	const struct nv_layout_nv_ioctl_register_fd_t *at = &session->abi->nv_ioctl_register_fd_t;
	const struct span written[] = { { 0, 0 } };
	u8 data[128] = { 0 };

	session->ctl = node_open(session->driver, "nvidiactl");
	session->card = node_open_card(session->driver, session->minor);
	if (session->ctl < 0 || session->card < 0)
		return CALL_ERRNO | (u32)errno;
	put32(data, at->ctl_fd, (u32)session->ctl);
	return call_escape(session, session->card, NV_ESC_REGISTER_FD, data, at->bytes, written);
}

/* A card gets the first free number when it is attached: no card has the same one for ever. */
static u32 device_number(struct session *session)
{
	const __auto_type at = &session->abi->NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS;
	u8 *params = rm_params(session, at->bytes);
	u32 status;

	put32(params, at->gpuId, session->gpu_id);
	put32(params, at->deviceInstance, UINT32_MAX);
	status = rm_control(session, session->client, NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2, at->bytes);
	session->number = get32(params, at->deviceInstance);
	return status;
}

u32 session_make_objects(struct session *session, enum via via)
{
	const struct nv_layout_NV0080_ALLOC_PARAMETERS *at = &session->abi->NV0080_ALLOC_PARAMETERS;
	const u16 bytes = session->abi->NV2080_ALLOC_PARAMETERS.bytes;
	u32 status;

	session->device = session->next_handle++;
	session->subdevice = session->next_handle++;
	put32(rm_params(session, at->bytes), at->deviceId, session->number);
	status = rm_alloc(session, via, session->client, NV01_DEVICE_0, at->bytes, &session->device);
	if (status != NV_OK)
		return status;
	rm_params(session, bytes);
	return rm_alloc(session, via, session->device, NV20_SUBDEVICE_0, bytes, &session->subdevice);
}

enum verdict check_open(struct session *session)
{
	u32 status;

	if (!guarded_make(&session->top) || !guarded_make(&session->params) || !guarded_make(&session->list))
		return verdict_failed(session, "no memory: %s", strerror(errno));
	status = open_nodes(session);
	if (status != NV_OK)
		return verdict_failed(session, "nodes: %s", call_text(session, status));
	status = rm_alloc(session, VIA_RM64, 0, NV01_ROOT_CLIENT, 0, &session->client);
	if (status != NV_OK)
		return verdict_failed(session, "client: %s", call_text(session, status));
	status = device_number(session);
	if (status != NV_OK || session->number >= NV0000_CTRL_GPU_MAX_ATTACHED_GPUS)
		return verdict_failed(session, "number of the device: %s", call_text(session, status));
	status = session_make_objects(session, VIA_RM64);
	if (status != NV_OK)
		return verdict_failed(session, "device and subdevice: %s", call_text(session, status));
	return PASSED;
}

u32 session_free_copy(struct session *session)
{
	u32 handle = session->copy;

	session->copy = 0;
	return rm_free(session, handle);
}

u32 session_free_range(struct session *session)
{
	const struct nv_layout_UVM_FREE_PARAMS *at = &session->abi->UVM_FREE_PARAMS;
	u8 data[128] = { 0 };
	u32 status;

	put64(data, at->base, session->range.base);
	put64(data, at->length, session->range.bytes);
	status = UVM(session, session->uvm, FREE, data);
	munmap(session->range.area, session->range.area_bytes);
	session->range.area = NULL;
	return status;
}

void session_clean(struct session *session)
{
	if (session->range.area)
		session_free_range(session);
	if (session->exported >= 0)
		close(session->exported);
	session->exported = -1;
	if (session->copy)
		session_free_copy(session);
	if (session->memory.handle)
		rm_free(session, session->memory.handle);
	session->memory.handle = 0;
}

void session_close(struct session *session)
{
	if (session->client)
		rm_free(session, session->client);
	if (session->card >= 0)
		close(session->card);
	if (session->ctl >= 0)
		close(session->ctl);
	guarded_drop(&session->top);
	guarded_drop(&session->params);
	guarded_drop(&session->list);
}
