// SPDX-License-Identifier: GPL-2.0-only
/*
 * Answers of the fake GSP: a card of 15109 MiB by the name of Tesla T4 with a graphics and a copy engine. The values
 * are ours and say nothing of a card. The driver's use of them is NVIDIA's.
 */
#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/string.h>

#include "fields.h"
#include "gsp.h"
#include "gsp_layouts.h"

#define CARD_NAME "Tesla T4"
#define CARD_CHIP "TU104GL-A"
#define CARD_BYTES (15109ull << 20)
#define UUID_BYTES 16u
#define UUID_FIRST 0x10u
#define UUID_TEXT "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f"
#define CHANNELS 2048u
#define SUBCONTEXTS 64u
#define FAULT_BUFFER_BYTES 0x20000u
#define FAULT_METHOD_BUFFER_BYTES 0x5000u
/* NV2080_CTRL_CE_CAPS_CE_* (ctrl2080ce.h): of byte 0 */
#define CE_CAPS_SYSMEM 0x20u
#define CE_CAPS_P2P 0x40u
/* Handles of the client by which the driver reaches its GSP; any will do. */
#define INTERNAL_CLIENT 0xc2000000u
#define INTERNAL_DEVICE 0xbcde0000u
#define INTERNAL_SUBDEVICE 0xbcde0001u

static void put_uuid(u8 *at)
{
	u32 i;

	for (i = 0; i < UUID_BYTES; i++)
		at[i] = (u8)(UUID_FIRST + i);
}

static void answer_static_info(u8 *info)
{
	memset(info, 0, GSP_static_bytes);
	put32(info, GSP_static_gid_length, UUID_BYTES + 4);
	put_uuid(info + GSP_static_gid_data);
	put32(info, GSP_static_regions, 1);
	put64(info, GSP_static_region_limit, CARD_BYTES - 1);
	put32(info, GSP_static_region_performance, 100);
	info[GSP_static_region_compressed] = 1;
	info[GSP_static_region_iso] = 1;
	put64(info, GSP_static_fb_length, CARD_BYTES);
	put32(info, GSP_static_engineCaps, 1u << NV2080_ENGINE_TYPE_GR0 | 1u << NV2080_ENGINE_TYPE_COPY0);
	put32(info, GSP_static_computeBranding, 1);
	put32(info, GSP_static_fbio_mask, 0xff);
	strcpy(info + GSP_static_name, CARD_NAME);
	strcpy(info + GSP_static_short_name, CARD_CHIP);
	info[GSP_static_bVbiosValid] = 1;
	put32(info, GSP_static_hInternalClient, INTERNAL_CLIENT);
	put32(info, GSP_static_hInternalDevice, INTERNAL_DEVICE);
	put32(info, GSP_static_hInternalSubdevice, INTERNAL_SUBDEVICE);
}

/* As pci_card.c has them. */
static u32 answer_bars(u8 *params)
{
	static const struct {
		u64 bytes, at;
	} bars[] = { { 16 << 20, 0x70000000 }, { 64 << 20, 0x74000000 }, { 32 << 20, 0x72000000 } };
	u32 i;

	put32(params, GSP_bars_count, ARRAY_SIZE(bars));
	for (i = 0; i < ARRAY_SIZE(bars); i++) {
		u8 *entry = params + GSP_bars_first + i * GSP_bars_entry_bytes;

		put32(entry, GSP_bars_size, (u32)(bars[i].bytes >> 20));
		put64(entry, GSP_bars_bytes, bars[i].bytes);
		put64(entry, GSP_bars_offset, bars[i].at);
	}
	return NV_OK;
}

static u32 answer_gid(u8 *params)
{
	if (get32(params, GSP_gid_flags) & GSP_GID_BINARY) {
		put32(params, GSP_gid_length, UUID_BYTES);
		put_uuid(params + GSP_gid_data);
		return NV_OK;
	}
	put32(params, GSP_gid_length, sizeof(UUID_TEXT));
	strcpy(params + GSP_gid_data, UUID_TEXT);
	return NV_OK;
}

static u32 answer_name(u8 *params)
{
	strcpy(params + GSP_name_text, CARD_NAME);
	return NV_OK;
}

/* Where the vectors of each kind are: as a mask, or as the first and last subtree in a pair of bytes. */
static void put_subtrees(u8 *subtrees)
{
	u32 i;

	for (i = 0; i < 7; i++) {
		u32 number = i < 5 ? 0 : i - 4;

		if (GSP_intr_subtree_bytes == sizeof(u64))
			put64(subtrees, i * sizeof(u64), 1ull << number);
		else
			subtrees[2 * i] = subtrees[2 * i + 1] = (u8)number;
	}
}

/* Vectors of the engines that the driver asserts it knows (MC_ENGINE_IDX_* of kernel/gpu/intr/engine_idx.h). */
static u32 answer_interrupts(u8 *params)
{
	const u32 engines[] = { GSP_INTR_TMR, GSP_INTR_FIFO, GSP_INTR_CE0, GSP_INTR_GMMU, GSP_INTR_GSP,
		GSP_INTR_REPLAYABLE_FAULT, GSP_INTR_ACCESS_CNTR, GSP_INTR_NON_REPLAYABLE_FAULT, GSP_INTR_INFO_FAULT,
		GSP_INTR_PRIV_DOORBELL, GSP_INTR_GR0 };
	u32 i;

	for (i = 0; i < ARRAY_SIZE(engines); i++) {
		/* Graphics and copy have a vector for what does not stall. */
		bool nonstalling = engines[i] == GSP_INTR_CE0 || engines[i] == GSP_INTR_GR0;
		u8 *entry = params + GSP_intr_table + i * GSP_intr_entry_bytes;

		put16(entry, GSP_intr_engineIdx, (u16)engines[i]);
		put32(entry, GSP_intr_pmcMask, 0);
		put32(entry, GSP_intr_stall, 96 + i);
		put32(entry, GSP_intr_nonstall, nonstalling ? i : ~0u);
	}
	put32(params, GSP_intr_tableLen, ARRAY_SIZE(engines));
	if (GSP_intr_subtree != GSP_ABSENT)
		put_subtrees(params + GSP_intr_subtree);
	return NV_OK;
}

struct engine {
	const char *name;
	u32 engine, number, type, device; /* number: in the table, of its runlist and of its unit for channels */
	u32 fault, channel_fault;
};

static void put_engine(u8 *entry, const struct engine *engine)
{
	memset(entry, 0, GSP_devices_entry_bytes);
	put32(entry, GSP_device_engine, engine->engine);
	put32(entry, GSP_device_tag, engine->number);
	put32(entry, GSP_device_type, engine->type);
	put32(entry, GSP_device_runlist, engine->number);
	put32(entry, GSP_device_fault, engine->fault);
	put32(entry, GSP_device_device, engine->device);
	put32(entry, GSP_device_host, 1);
	put32(entry, GSP_devices_numPbdmas, 1);
	put32(entry, GSP_devices_pbdmaIds, engine->number);
	put32(entry, GSP_devices_faultIds, engine->channel_fault);
	strcpy(entry + GSP_devices_name, engine->name);
}

static u32 answer_devices(u8 *params)
{
	const struct engine graphics = { "GRAPHICS0", GSP_ENGINE_GRAPHICS, 0, GSP_ENGINE_TYPE_GRAPHICS, 0,
		.fault = 64 };
	const struct engine copy = { "CE0", GSP_ENGINE_COPY, 1, GSP_ENGINE_TYPE_COPY, 19, 65, 33 };

	put32(params, GSP_devices_numEntries, 2);
	params[GSP_devices_bMore] = 0;
	put_engine(params + GSP_devices_first, &graphics);
	put_engine(params + GSP_devices_first + GSP_devices_entry_bytes, &copy);
	return NV_OK;
}

static u32 answer_faults(u8 *params)
{
	put32(params, GSP_gmmu_replayableFaultBufferSize, FAULT_BUFFER_BYTES);
	put32(params, GSP_gmmu_nonReplayableFaultBufferSize, FAULT_BUFFER_BYTES);
	return NV_OK;
}

static u32 answer_copy_caps(u8 *params)
{
	if (GSP_ce_capsTbl != GSP_ABSENT)
		params[GSP_ce_capsTbl] = CE_CAPS_SYSMEM | CE_CAPS_P2P;
	return NV_OK;
}

static u32 answer_none(u8 *params)
{
	return NV_ERR_NOT_SUPPORTED;
}

/* By a function, or with one number. Others are done, with their parameters as they came. */
static const struct {
	u32 command;
	u32 (*answer)(u8 *params);
	u32 at, number;
} controls[] = {
	{ GSP_CMD_DISPLAY_GET_IP_VERSION, answer_none },
	{ GSP_CMD_INTR_GET_KERNEL_TABLE, answer_interrupts },
	{ GSP_CMD_FIFO_GET_NUM_CHANNELS, NULL, GSP_channels_number, CHANNELS },
	{ GSP_CMD_GMMU_GET_STATIC_INFO, answer_faults },
	{ GSP_CMD_CE_GET_PHYSICAL_CAPS, answer_copy_caps },
	{ GSP_CMD_CE_GET_CE_PCE_MASK, NULL, GSP_ce_pceMask, 1 },
	{ GSP_CMD_KGR_GET_INFO, NULL, GSP_gr_info_subcontexts, SUBCONTEXTS },
	{ GSP_CMD_GPU_GET_NAME_STRING, answer_name },
	{ GSP_CMD_GPU_GET_GID_INFO, answer_gid },
	{ GSP_CMD_FIFO_GET_DEVICE_INFO_TABLE, answer_devices },
	{ GSP_CMD_BUS_GET_PCI_BAR_INFO, answer_bars },
	{ GSP_CMD_CE_GET_FAULT_METHOD_BUFFER_SIZE, NULL, GSP_fault_method_bytes, FAULT_METHOD_BUFFER_BYTES },
};

static void answer_control(u8 *body)
{
	struct gsp_order order = {
		.time = ktime_get_ns(),
		.client = get32(body, GSP_control_hClient),
		.object = get32(body, GSP_control_hObject),
		.command = get32(body, GSP_control_cmd),
		.bytes = get32(body, GSP_control_paramsSize),
	};
	u8 *params = body + GSP_control_params;
	u32 status = NV_OK, i;

	memcpy(order.params, params, min_t(size_t, order.bytes, sizeof(order.params)));
	gsp_orders_add(&order);
	for (i = 0; i < ARRAY_SIZE(controls); i++) {
		if (controls[i].command != order.command)
			continue;
		if (controls[i].answer)
			status = controls[i].answer(params);
		else
			put32(params, controls[i].at, controls[i].number);
	}
	put32(body, GSP_control_status, status);
}

void gsp_answer(u8 *rpc)
{
	u8 *message, *body;

	memcpy(&message, rpc + GSP_rpc_message_buffer, sizeof(message));
	body = message + GSP_header_bytes;
	put32(message, GSP_header_result, NV_OK);
	switch (get32(message, GSP_header_function)) {
	case GSP_RPC_GET_GSP_STATIC_INFO:
		answer_static_info(body);
		break;
	case GSP_RPC_GSP_RM_CONTROL:
		answer_control(body);
		break;
	case GSP_RPC_GSP_RM_ALLOC:
		put32(body, GSP_alloc_status, NV_OK);
		break;
	case GSP_RPC_FREE:
		put32(body, GSP_free_status, NV_OK);
		break;
	case GSP_RPC_DUP_OBJECT:
		put32(body, GSP_dup_status, NV_OK);
		break;
	}
}
