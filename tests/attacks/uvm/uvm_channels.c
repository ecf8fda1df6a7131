// SPDX-License-Identifier: Apache-2.0
/* Channels that UVM is told of, and keeps after their group has been freed. */
#include <stdio.h>

#include "uvm_probe.h"

#define FIRST_PLACE 0x500000000000ull
#define PLACE_BYTES (64ull << 20) /* for what UVM maps of a channel */

static uint32_t make_group(struct uvm *uvm)
{
	const struct nv_layout_NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS *at =
		&uvm->settings.abi->NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS;
	uint8_t params[64] = { 0 };

	put32(params, at->engineType, NV2080_ENGINE_TYPE_COPY0);
	put32(params, at->hVASpace, uvm->va_space);
	uvm->group = session_handle(&uvm->session);
	return session_alloc(
		&uvm->session, uvm->session.device, KEPLER_CHANNEL_GROUP_A, params, at->bytes, &uvm->group);
}

static uint32_t make_channel(struct uvm *uvm)
{
	const struct nv_layout_NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS *at =
		&uvm->settings.abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS;
	uint8_t params[512] = { 0 };

	put32(params, at->engineType, NV2080_ENGINE_TYPE_COPY0);
	put32(params, at->gpFifoEntries, 1024);
	uvm->channel = session_handle(&uvm->session);
	return session_alloc(&uvm->session, uvm->group, TURING_CHANNEL_GPFIFO_A, params, at->bytes, &uvm->channel);
}

static uint32_t bind_channel(struct uvm *uvm)
{
	const struct nv_layout_NVA06F_CTRL_BIND_PARAMS *at = &uvm->settings.abi->NVA06F_CTRL_BIND_PARAMS;
	uint8_t params[8] = { 0 };

	put32(params, at->engineType, NV2080_ENGINE_TYPE_COPY0);
	return session_control(&uvm->session, uvm->channel, NVA06F_CTRL_CMD_BIND, params, at->bytes);
}

static uint32_t register_channel(struct uvm *uvm)
{
	const struct nv_layout_UVM_REGISTER_CHANNEL_PARAMS *at = &uvm->settings.abi->UVM_REGISTER_CHANNEL_PARAMS;
	uint8_t params[64] = { 0 };

	memcpy(params + at->gpuUuid, uvm->uuid, sizeof(uvm->uuid));
	put32(params, at->rmCtrlFd, (uint32_t)uvm->session.ctl);
	put32(params, at->hClient, uvm->session.client);
	put32(params, at->hChannel, uvm->channel);
	put64(params, at->base, FIRST_PLACE + uvm->channels++ * PLACE_BYTES);
	put64(params, at->length, PLACE_BYTES);
	return uvm_call(uvm->fd, UVM_REGISTER_CHANNEL, params, at->rmStatus);
}

uint32_t uvm_channel(struct uvm *uvm)
{
	uint32_t status = make_group(uvm);

	if (status == NV_OK)
		status = make_channel(uvm);
	if (status == NV_OK)
		status = bind_channel(uvm);
	return status == NV_OK ? register_channel(uvm) : status;
}

uint32_t uvm_retain(struct uvm *uvm, uint64_t rounds)
{
	uint32_t status = NV_OK;
	uint64_t i;

	for (i = 0; i < rounds && status == NV_OK; i++) {
		status = uvm_channel(uvm);
		if (status == NV_OK)
			status = session_free(&uvm->session, uvm->group);
	}
	printf("made=%llu ", (unsigned long long)(status == NV_OK ? i : i - 1));
	return status;
}

uint32_t uvm_unregister_channel(struct uvm *uvm)
{
	const struct nv_layout_UVM_UNREGISTER_CHANNEL_PARAMS *at = &uvm->settings.abi->UVM_UNREGISTER_CHANNEL_PARAMS;
	uint8_t params[64] = { 0 };

	if (at->gpuUuid != NV_ABI_ABSENT)
		memcpy(params + at->gpuUuid, uvm->uuid, sizeof(uvm->uuid));
	put32(params, at->hClient, uvm->session.client);
	put32(params, at->hChannel, uvm->channel);
	return uvm_call(uvm->fd, UVM_UNREGISTER_CHANNEL, params, at->rmStatus);
}

uint32_t uvm_unregister_space(struct uvm *uvm)
{
	const struct nv_layout_UVM_UNREGISTER_GPU_VASPACE_PARAMS *at =
		&uvm->settings.abi->UVM_UNREGISTER_GPU_VASPACE_PARAMS;
	uint8_t params[64] = { 0 };

	memcpy(params + at->gpuUuid, uvm->uuid, sizeof(uvm->uuid));
	return uvm_call(uvm->fd, UVM_UNREGISTER_GPU_VASPACE, params, at->rmStatus);
}
