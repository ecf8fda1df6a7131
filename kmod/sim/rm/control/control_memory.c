// SPDX-License-Identifier: Apache-2.0
/* Controls on the card's memory; sizes are KiB as in ctrl2080fb.h. */
#include "control.h"

/* More than there are indexes (ctrl0041.h). */
#define MOST_SURFACE_INFO 16u

#define BAR1_KIB (256u << 10)

static uint32_t fb_info_of(const struct card *card, uint32_t index)
{
	switch (index) {
	case NV2080_CTRL_FB_INFO_INDEX_RAM_SIZE:
	case NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE:
	case NV2080_CTRL_FB_INFO_INDEX_USABLE_RAM_SIZE:
	case NV2080_CTRL_FB_INFO_INDEX_HEAP_SIZE:
	case NV2080_CTRL_FB_INFO_INDEX_MAPPABLE_HEAP_SIZE:
		return (uint32_t)(card->bytes >> 10);
	case NV2080_CTRL_FB_INFO_INDEX_HEAP_FREE:
	case NV2080_CTRL_FB_INFO_INDEX_LARGEST_FREE_REGION_SIZE_KB:
		return (uint32_t)((card->bytes - card->used) >> 10);
	case NV2080_CTRL_FB_INFO_INDEX_BAR1_SIZE:
	case NV2080_CTRL_FB_INFO_INDEX_BAR1_AVAIL_SIZE:
	case NV2080_CTRL_FB_INFO_INDEX_BAR1_MAX_CONTIGUOUS_AVAIL_SIZE:
		return BAR1_KIB;
	case NV2080_CTRL_FB_INFO_INDEX_BUS_WIDTH:
		return 256;
	case NV2080_CTRL_FB_INFO_INDEX_NUMA_NODE_ID:
		return UINT32_MAX;
	default:
		return 0;
	}
}

/* The list's length in V2 is how many indices this driver knows. */
static uint32_t most_entries(const struct nv_abi *abi)
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_V2_PARAMS *at = &abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS;

	return (uint32_t)(at->bytes - at->fbInfoList) / abi->NV2080_CTRL_FB_INFO.bytes;
}

static uint32_t fb_value(const struct control *control, uint32_t index, uint32_t *value)
{
	if (index >= most_entries(control->abi))
		return NV_ERR_INVALID_ARGUMENT;
	if (control->denied && !mig_tells_all(index))
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	*value = fb_info_of(&control->card, index);
	return NV_OK;
}

static uint32_t control_fb_info_v2(struct control *control)
{
	const __auto_type at = &control->abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS;
	uint32_t count = get32(control->params, at->fbInfoListSize);

	if (count == 0)
		return NV_OK;
	return info_list_inside(control, at->fbInfoList, count, most_entries(control->abi), fb_value);
}

static uint32_t control_fb_info_v1(struct control *control)
{
	const __auto_type at = &control->abi->NV2080_CTRL_FB_GET_INFO_PARAMS;

	return info_list_outside(control, get64(control->params, at->fbInfoList),
		get32(control->params, at->fbInfoListSize), most_entries(control->abi), fb_value);
}

static uint32_t control_fb_regions(struct control *control)
{
	const struct nv_abi *abi = control->abi;
	const __auto_type at = &abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO;
	uint8_t *region = control->params + abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS.fbRegion;

	memset(control->params, 0, abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS.bytes);
	put32(control->params, abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS.numFBRegions, 1);
	put64(region, at->base, 0);
	put64(region, at->limit, control->card.bytes - 1);
	put64(region, at->reserved, 0);
	put32(region, at->performance, 100);
	region[at->supportCompressed] = 1;
	region[at->supportISO] = 1;
	return NV_OK;
}

/* Memory of the card, by its handle; 0: it has gone. */
static uint64_t surface_size(const struct control *control)
{
	struct call *call = control->call;
	const struct nv_layout_NVOS54_PARAMETERS *at = &call->sim->abi->NVOS54_PARAMETERS;
	const struct client *client;
	const struct object *object;
	uint64_t size;

	pthread_mutex_lock(&call->sim->lock);
	client = client_find(call->sim, get32(call->data, at->hClient));
	object = client ? object_find(call->sim, client, get32(call->data, at->hObject)) : NULL;
	size = object && object->memory ? object->memory->size : 0;
	pthread_mutex_unlock(&call->sim->lock);
	return size;
}

/* Facts of memory that a process has imported (mem_ctrl.c, memCtrlCmdGetSurfaceInfoLvm_IMPL). */
static uint32_t surface_value(const struct control *control, uint32_t index, uint32_t *value)
{
	switch (index) {
	case NV0041_CTRL_SURFACE_INFO_INDEX_ATTRS:
		return *value = 0, NV_OK; /* neither compressed nor of depths */
	case NV0041_CTRL_SURFACE_INFO_INDEX_PHYS_SIZE:
		*value = (uint32_t)(surface_size(control) / NV0041_CTRL_SURFACE_INFO_PHYS_SIZE_SCALE_FACTOR);
		return NV_OK;
	case NV0041_CTRL_SURFACE_INFO_INDEX_ADDR_SPACE_TYPE:
		return *value = NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE_VIDMEM, NV_OK;
	default:
		return NV_ERR_NOT_SUPPORTED;
	}
}

static uint32_t control_surface_info(struct control *control)
{
	const __auto_type at = &control->card_abi->NV0041_CTRL_GET_SURFACE_INFO_PARAMS;

	return info_list_outside(control, get64(control->params, at->surfaceInfoList),
		get32(control->params, at->surfaceInfoListSize), MOST_SURFACE_INFO, surface_value);
}

static const struct control_entry entries[] = {
	{ CARD_CONTROL(NV0041, GET_SURFACE_INFO), .answer = control_surface_info },
	{ NV_CONTROL(NV2080, FB_GET_INFO), .answer = control_fb_info_v1 },
	{ NV_CONTROL(NV2080, FB_GET_INFO_V2), .answer = control_fb_info_v2 },
	{ NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO, NV_PARAMS(NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS),
		.answer = control_fb_regions },
};

const struct control_set controls_memory = CONTROL_SET(entries);
