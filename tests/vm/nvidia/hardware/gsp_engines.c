// SPDX-License-Identifier: GPL-2.0
/* What the fake GSP answers of the card's engines: a graphics and a copy engine, their interrupts, channels and buffers. */
#include <linux/kernel.h>

#include "gsp.h"
#include "gsp_layouts.h"
#include "gsp_words.h"
#include "nv_abi.h"

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

/* Vectors of the engines that the driver asserts it knows (MC_ENGINE_IDX_* of kernel/gpu/intr/engine_idx.h). */
u32 gsp_answer_interrupts(u8 *params)
{
	static const u16 engines[] = { 1, 4, 15, 45, 49, 58, 59, 60, 63, 73, 82 };
	/* Which of them have a vector for what does not stall: graphics and copy. */
	static const u16 nonstalling[] = { 15, 82 };
	u32 i, k;

	for (i = 0; i < ARRAY_SIZE(engines); i++) {
		u8 *entry = params + GSP_intr_table + i * GSP_intr_entry_bytes;

		put16(entry + GSP_intr_engineIdx, engines[i]);
		put32(entry + GSP_intr_pmcMask, 0);
		put32(entry + GSP_intr_stall, 96 + i);
		put32(entry + GSP_intr_nonstall, ~0u);
		for (k = 0; k < ARRAY_SIZE(nonstalling); k++) {
			if (nonstalling[k] == engines[i])
				put32(entry + GSP_intr_nonstall, i);
		}
	}
	put32(params + GSP_intr_tableLen, ARRAY_SIZE(engines));
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
	put32(entry + GSP_devices_numPbdmas, 1);
	put32(entry + GSP_devices_pbdmaIds, pbdma);
	put32(entry + GSP_devices_faultIds, fault);
	strcpy(entry + GSP_devices_name, name);
}

u32 gsp_answer_devices(u8 *params)
{
	static const u32 graphics[16] = { ENGINE_GRAPHICS, 0, 1, 0, 64, 0, 0, 0, 0, 0, 0, 0, 1 };
	static const u32 copy[16] = { ENGINE_COPY, 1, 9, 1, 65, 0, 0, 0, 0, 19, 0, 0, 1 };

	put32(params + GSP_devices_numEntries, 2);
	params[GSP_devices_bMore] = 0;
	put_engine(params + GSP_devices_first, "GRAPHICS0", &graphics, 0, 0);
	put_engine(params + GSP_devices_first + GSP_devices_entry_bytes, "CE0", &copy, 1, 33);
	return NV_OK;
}

u32 gsp_answer_fault_buffer(u8 *params)
{
	put32(params, FAULT_METHOD_BUFFER_BYTES);
	return NV_OK;
}

u32 gsp_answer_channels(u8 *params)
{
	put32(params + 4, CHANNELS);
	return NV_OK;
}

u32 gsp_answer_graphics(u8 *params)
{
	put32(params + GSP_gr_info_subcontexts, SUBCONTEXTS);
	return NV_OK;
}

u32 gsp_answer_faults(u8 *params)
{
	put32(params + GSP_gmmu_replayableFaultBufferSize, FAULT_BUFFER_BYTES);
	put32(params + GSP_gmmu_nonReplayableFaultBufferSize, FAULT_BUFFER_BYTES);
	return NV_OK;
}

u32 gsp_answer_copy_caps(u8 *params)
{
	params[GSP_ce_capsTbl] = CE_CAPS_SYSMEM | CE_CAPS_P2P;
	return NV_OK;
}

u32 gsp_answer_copy_mask(u8 *params)
{
	put32(params + GSP_ce_pceMask, 1);
	return NV_OK;
}
