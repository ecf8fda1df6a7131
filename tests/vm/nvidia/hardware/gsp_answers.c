// SPDX-License-Identifier: GPL-2.0
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
/* The resource manager's numbers of its first graphics and copy engine (g_eng_desc_nvoc.h). */
#define ENGINE_GRAPHICS 0xd334df00u
#define ENGINE_COPY 0x793ceb00u
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

int gsp_layout_of(const char *version)
{
	int i;

	for (i = 0; i < (int)ARRAY_SIZE(gsp_layouts); i++) {
		if (!strcmp(gsp_layouts[i].version, version))
			return i;
	}
	return -1;
}

u8 *gsp_message_of(u32 layout, u8 *rpc)
{
	u8 *message;

	memcpy(&message, rpc + gsp_layouts[layout].rpc_message_buffer, sizeof(message));
	return message;
}

static void answer_static_info(const struct gsp_layout *at, u8 *info)
{
	memset(info, 0, at->static_bytes);
	put32(info, at->static_gid_length, UUID_BYTES + 4);
	put_uuid(info + at->static_gid_data);
	put32(info, at->static_regions, 1);
	put64(info, at->static_region_limit, CARD_BYTES - 1);
	put32(info, at->static_region_performance, 100);
	info[at->static_region_compressed] = 1;
	info[at->static_region_iso] = 1;
	put64(info, at->static_fb_length, CARD_BYTES);
	put32(info, at->static_engineCaps, 1u << NV2080_ENGINE_TYPE_GR0 | 1u << NV2080_ENGINE_TYPE_COPY0);
	put32(info, at->static_computeBranding, 1);
	put32(info, at->static_fbio_mask, 0xff);
	strcpy(info + at->static_name, CARD_NAME);
	strcpy(info + at->static_short_name, CARD_CHIP);
	info[at->static_bVbiosValid] = 1;
	put32(info, at->static_hInternalClient, INTERNAL_CLIENT);
	put32(info, at->static_hInternalDevice, INTERNAL_DEVICE);
	put32(info, at->static_hInternalSubdevice, INTERNAL_SUBDEVICE);
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
	/* NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT: binary */
	if (get32(params, GSP_gid_flags) & 2) {
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
	strcpy(params + 4, CARD_NAME);
	return NV_OK;
}

/* Vectors of the engines that the driver asserts it knows (MC_ENGINE_IDX_* of kernel/gpu/intr/engine_idx.h). */
static u32 answer_interrupts(u8 *params)
{
	static const u16 engines[] = { 1, 4, 15, 45, 49, 58, 59, 60, 63, 73, 82 };
	/* Which of them have a vector for what does not stall: graphics and copy. */
	static const u16 nonstalling[] = { 15, 82 };
	u32 i, k;

	for (i = 0; i < ARRAY_SIZE(engines); i++) {
		u8 *entry = params + GSP_intr_table + i * GSP_intr_entry_bytes;

		put16(entry, GSP_intr_engineIdx, engines[i]);
		put32(entry, GSP_intr_pmcMask, 0);
		put32(entry, GSP_intr_stall, 96 + i);
		put32(entry, GSP_intr_nonstall, ~0u);
		for (k = 0; k < ARRAY_SIZE(nonstalling); k++) {
			if (nonstalling[k] == engines[i])
				put32(entry, GSP_intr_nonstall, i);
		}
	}
	put32(params, GSP_intr_tableLen, ARRAY_SIZE(engines));
	for (i = 0; i < 7; i++) {
		u8 *subtree = params + GSP_intr_subtree + 2 * i;

		subtree[0] = subtree[1] = i < 5 ? 0 : i - 4;
	}
	return NV_OK;
}

/* One engine's entry; the order of data[] is that of ENGINE_INFO_TYPE (kernel/gpu/fifo/kernel_fifo.h). */
static void put_engine(u8 *entry, const char *name, const u32 (*data)[16], u32 pbdma, u32 fault)
{
	memset(entry, 0, GSP_devices_entry_bytes);
	memcpy(entry, data, sizeof(*data));
	put32(entry, GSP_devices_numPbdmas, 1);
	put32(entry, GSP_devices_pbdmaIds, pbdma);
	put32(entry, GSP_devices_faultIds, fault);
	strcpy(entry + GSP_devices_name, name);
}

static u32 answer_devices(u8 *params)
{
	static const u32 graphics[16] = { ENGINE_GRAPHICS, 0, 1, 0, 64, 0, 0, 0, 0, 0, 0, 0, 1 };
	static const u32 copy[16] = { ENGINE_COPY, 1, 9, 1, 65, 0, 0, 0, 0, 19, 0, 0, 1 };

	put32(params, GSP_devices_numEntries, 2);
	params[GSP_devices_bMore] = 0;
	put_engine(params + GSP_devices_first, "GRAPHICS0", &graphics, 0, 0);
	put_engine(params + GSP_devices_first + GSP_devices_entry_bytes, "CE0", &copy, 1, 33);
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
	{ GSP_CMD_FIFO_GET_NUM_CHANNELS, NULL, 4, CHANNELS },
	{ GSP_CMD_GMMU_GET_STATIC_INFO, answer_faults },
	{ GSP_CMD_CE_GET_PHYSICAL_CAPS, answer_copy_caps },
	{ GSP_CMD_CE_GET_CE_PCE_MASK, NULL, GSP_ce_pceMask, 1 },
	{ GSP_CMD_KGR_GET_INFO, NULL, GSP_gr_info_subcontexts, SUBCONTEXTS },
	{ GSP_CMD_GPU_GET_NAME_STRING, answer_name },
	{ GSP_CMD_GPU_GET_GID_INFO, answer_gid },
	{ GSP_CMD_FIFO_GET_DEVICE_INFO_TABLE, answer_devices },
	{ GSP_CMD_BUS_GET_PCI_BAR_INFO, answer_bars },
	{ GSP_CMD_CE_GET_FAULT_METHOD_BUFFER_SIZE, NULL, 0, FAULT_METHOD_BUFFER_BYTES },
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

void gsp_answer(u32 layout, u8 *message)
{
	u8 *body = message + GSP_header_bytes;

	put32(message, GSP_header_result, NV_OK);
	switch (get32(message, GSP_header_function)) {
	case GSP_RPC_GET_GSP_STATIC_INFO:
		answer_static_info(&gsp_layouts[layout], body);
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
