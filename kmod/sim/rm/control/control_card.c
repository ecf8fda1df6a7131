// SPDX-License-Identifier: Apache-2.0
/*
 * Controls on a card's model, its place on the bus, its settings and its clock. Nothing goes over its link, so the link
 * has no errors, and always its full speed.
 */
#include <time.h>

#include "control.h"
#include "engines.h"

static uint32_t control_arch(struct control *control)
{
	const __auto_type at = &control->card_abi->NV2080_CTRL_MC_GET_ARCH_INFO_PARAMS;
	const struct model *model = control->card.model;

	put32(control->params, at->architecture, model->architecture);
	put32(control->params, at->implementation, model->implementation);
	put32(control->params, at->revision, model->revision);
	put32(control->params, at->subRevision, 0);
	return NV_OK;
}

/* Facts that the driver answers without the card (subdevice_ctrl_gpu_kernel.c, getGpuInfos()). */
static uint32_t board_value(const struct control *control, uint32_t index, uint32_t *value)
{
	*value = 0; /* none of it, no, off */
	switch (index) {
	case NV2080_CTRL_GPU_INFO_INDEX_MINOR_REVISION_EXT:
	case NV2080_CTRL_GPU_INFO_INDEX_NETLIST_REV0:
	case NV2080_CTRL_GPU_INFO_INDEX_NETLIST_REV1:
	case NV2080_CTRL_GPU_INFO_INDEX_GEMINI_BOARD:
	case NV2080_CTRL_GPU_INFO_INDEX_SURPRISE_REMOVAL_POSSIBLE:
	case NV2080_CTRL_GPU_INFO_INDEX_GLOBAL_POISON_FUSE_ENABLED:
	case NV2080_CTRL_GPU_INFO_INDEX_NVSWITCH_PROXY_DETECTED:
	case NV2080_CTRL_GPU_INFO_INDEX_GPU_FLA_CAPABILITY:
	case NV2080_CTRL_GPU_INFO_INDEX_GPU_ATS_CAPABILITY:
	case NV2080_CTRL_GPU_INFO_INDEX_4K_PAGE_ISOLATION_REQUIRED:
	case NV2080_CTRL_GPU_INFO_INDEX_DISPLAY_ENABLED:
	case NV2080_CTRL_GPU_INFO_INDEX_MOBILE_CONFIG_ENABLED:
	case NV2080_CTRL_GPU_INFO_INDEX_GPU_LOCAL_EGM_CAPABILITY:
	case NV2080_CTRL_GPU_INFO_INDEX_GPU_SELF_HOSTED_CAPABILITY:
	case NV2080_CTRL_GPU_INFO_INDEX_CMP_SKU:
	case NV2080_CTRL_GPU_INFO_INDEX_DMABUF_CAPABILITY:
	case NV2080_CTRL_GPU_INFO_INDEX_IS_RESETLESS_MIG_SUPPORTED:
		return NV_OK;
	case GPU_INFO_INDEX_BOARD_LINE:
		*value = GPU_INFO_BOARD_LINE_DATA_CENTER;
		return NV_OK;
	case NV2080_CTRL_GPU_INFO_INDEX_GPU_SMC_MODE:
		*value = mig_mode(&control->card);
		return NV_OK;
	case NV2080_CTRL_GPU_INFO_INDEX_SYSMEM_ACCESS:
		*value = NV2080_CTRL_GPU_INFO_SYSMEM_ACCESS_YES;
		return NV_OK;
	case NV2080_CTRL_GPU_INFO_INDEX_IBMNPU_RELAXED_ORDERING:
		*value = NV2080_CTRL_GPU_INFO_IBMNPU_RELAXED_ORDERING_UNSUPPORTED;
		return NV_OK;
	case NV2080_CTRL_GPU_INFO_INDEX_NVENC_STATS_REPORTING_STATE:
		*value = NV2080_CTRL_GPU_INFO_NVENC_STATS_REPORTING_STATE_NOT_SUPPORTED;
		return NV_OK;
	case NV2080_CTRL_GPU_INFO_INDEX_GPU_PROFILING_CAPABILITY:
		*value = NV2080_CTRL_GPU_INFO_INDEX_GPU_PROFILING_CAPABILITY_ENABLED;
		return NV_OK;
	case NV2080_CTRL_GPU_INFO_INDEX_GPU_DEBUGGING_CAPABILITY:
		*value = NV2080_CTRL_GPU_INFO_INDEX_GPU_DEBUGGING_CAPABILITY_ENABLED;
		return NV_OK;
	default:
		/* The card's firmware would answer it. */
		return NV_ERR_NOT_SUPPORTED;
	}
}

static uint32_t control_board_info(struct control *control)
{
	const struct nv_abi *abi = control->abi;
	const struct nv_layout_NV2080_CTRL_GPU_GET_INFO_V2_PARAMS *at = &abi->NV2080_CTRL_GPU_GET_INFO_V2_PARAMS;

	return info_list_inside(control, at->gpuInfoList, get32(control->params, at->gpuInfoListSize),
		(uint32_t)(at->bytes - at->gpuInfoList) / abi->NV2080_CTRL_GPU_INFO.bytes, board_value);
}

static uint32_t control_bus_pci(struct control *control)
{
	const __auto_type at = &control->card_abi->NV2080_CTRL_BUS_GET_PCI_INFO_PARAMS;
	const struct model *model = control->card.model;

	put32(control->params, at->pciDeviceId, (uint32_t)model->pci_device << 16 | SIM_PCI_VENDOR);
	put32(control->params, at->pciSubSystemId, (uint32_t)model->pci_subsystem << 16 | SIM_PCI_VENDOR);
	put32(control->params, at->pciRevisionId, model->revision);
	put32(control->params, at->pciExtDeviceId, model->pci_device);
	return NV_OK;
}

#define LANES 16u
#define FIELD(name, value) ((uint32_t)(value) << NV2080_CTRL_BUS_INFO_PCIE_LINK_##name##_SHIFT)

static uint32_t link_caps(const struct model *model)
{
	uint32_t level = model->pcie - 1u;

	return FIELD(CAP_MAX_SPEED, model->pcie) | FIELD(CAP_MAX_WIDTH, LANES) | FIELD(CAP_GEN, level) |
		FIELD(CAP_CURR_LEVEL, level) | FIELD(CAP_GPU_GEN, level);
}

static uint32_t link_status(const struct model *model)
{
	return FIELD(CTRL_STATUS_LINK_SPEED, model->pcie) | FIELD(CTRL_STATUS_LINK_WIDTH, LANES);
}

/* The card's link is that of its slot, and of all up to the processor. */
static uint32_t bus_value(const struct control *control, uint32_t index, uint32_t *value)
{
	switch (index) {
	case NV2080_CTRL_BUS_INFO_INDEX_TYPE:
	case NV2080_CTRL_BUS_INFO_INDEX_INTERFACE_TYPE:
	case NV2080_CTRL_BUS_INFO_INDEX_GPU_INTERFACE_TYPE:
		*value = NV2080_CTRL_BUS_INFO_TYPE_PCI_EXPRESS;
		return NV_OK;
	case NV2080_CTRL_BUS_INFO_INDEX_INTLINE:
		*value = card_irq(control->card_index);
		return NV_OK;
	case NV2080_CTRL_BUS_INFO_INDEX_BUS_NUMBER:
		*value = card_bus(control->card_index);
		return NV_OK;
	case NV2080_CTRL_BUS_INFO_INDEX_CAPS:
	case NV2080_CTRL_BUS_INFO_INDEX_DEVICE_NUMBER:
	case NV2080_CTRL_BUS_INFO_INDEX_DOMAIN_NUMBER:
	case NV2080_CTRL_BUS_INFO_INDEX_MSI_INFO:
		*value = 0;
		return NV_OK;
	case NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_CAPS:
	case NV2080_CTRL_BUS_INFO_INDEX_PCIE_ROOT_LINK_CAPS:
	case NV2080_CTRL_BUS_INFO_INDEX_PCIE_UPSTREAM_LINK_CAPS:
	case NV2080_CTRL_BUS_INFO_INDEX_PCIE_DOWNSTREAM_LINK_CAPS:
	case NV2080_CTRL_BUS_INFO_INDEX_PCIE_BOARD_LINK_CAPS:
	case NV2080_CTRL_BUS_INFO_INDEX_PCIE_GEN_INFO:
	case NV2080_CTRL_BUS_INFO_INDEX_PCIE_UPSTREAM_GEN_INFO:
	case NV2080_CTRL_BUS_INFO_INDEX_PCIE_BOARD_GEN_INFO:
		*value = link_caps(control->card.model);
		return NV_OK;
	case NV2080_CTRL_BUS_INFO_INDEX_PCIE_GPU_LINK_CTRL_STATUS:
	case NV2080_CTRL_BUS_INFO_INDEX_PCIE_ROOT_LINK_CTRL_STATUS:
	case NV2080_CTRL_BUS_INFO_INDEX_PCIE_UPSTREAM_LINK_CTRL_STATUS:
	case NV2080_CTRL_BUS_INFO_INDEX_PCIE_DOWNSTREAM_LINK_CTRL_STATUS:
	case NV2080_CTRL_BUS_INFO_INDEX_PCIE_BOARD_LINK_CTRL_STATUS:
		*value = link_status(control->card.model);
		return NV_OK;
	case NV2080_CTRL_BUS_INFO_INDEX_COHERENT_DMA_FLAGS:
		*value = BUS_INFO_COHERENT_DMA_GPUGART;
		return NV_OK;
	case NV2080_CTRL_BUS_INFO_INDEX_SYSMEM_CONNECTION_TYPE:
		*value = NV2080_CTRL_BUS_INFO_INDEX_SYSMEM_CONNECTION_TYPE_PCIE;
		return NV_OK;
	default:
		return NV_ERR_NOT_SUPPORTED;
	}
}

/* The driver turns one form of the question into the other, so their lists are equally long. */
static uint32_t most_entries(const struct card_abi *abi)
{
	const struct card_layout_NV2080_CTRL_BUS_GET_INFO_V2_PARAMS *at = &abi->NV2080_CTRL_BUS_GET_INFO_V2_PARAMS;

	return (uint32_t)(at->bytes - at->busInfoList) / abi->NV2080_CTRL_BUS_INFO.bytes;
}

static uint32_t control_bus_info(struct control *control)
{
	const __auto_type at = &control->card_abi->NV2080_CTRL_BUS_GET_INFO_PARAMS;

	return info_list_outside(control, get64(control->params, at->busInfoList),
		get32(control->params, at->busInfoListSize), most_entries(control->card_abi), bus_value);
}

static uint32_t control_bus_info_v2(struct control *control)
{
	const struct card_abi *abi = control->card_abi;
	const struct card_layout_NV2080_CTRL_BUS_GET_INFO_V2_PARAMS *at = &abi->NV2080_CTRL_BUS_GET_INFO_V2_PARAMS;

	return info_list_inside(
		control, at->busInfoList, get32(control->params, at->busInfoListSize), most_entries(abi), bus_value);
}

/* The same addresses as in NV_ESC_CARD_INFO: registers, and the window to the card's memory. */
static uint32_t control_bars(struct control *control)
{
	const struct card_abi *abi = control->card_abi;
	const struct card_layout_NV2080_CTRL_BUS_PCI_BAR_INFO *at = &abi->NV2080_CTRL_BUS_PCI_BAR_INFO;
	uint8_t *bar = control->params + abi->NV2080_CTRL_BUS_GET_PCI_BAR_INFO_PARAMS.pciBarInfo;
	uint32_t i;

	memset(control->params, 0, control->size);
	put32(control->params, abi->NV2080_CTRL_BUS_GET_PCI_BAR_INFO_PARAMS.pciBarCount, SIM_BARS);
	for (i = 0; i < SIM_BARS; i++, bar += at->bytes) {
		put32(bar, at->barSize, (uint32_t)(card_bar_bytes(i) >> 20));
		put64(bar, at->barSizeBytes, card_bar_bytes(i));
		put64(bar, at->barOffset, card_bar(control->card_index, i));
	}
	return NV_OK;
}

/*
 * The processor that runs the driver's firmware, from Turing on (g_kernel_gsp_nvoc.h). Without the flag of UVM libcuda
 * (535.261.03, 550.163.01) uses none: it has no managed memory, and maps what it allocates by RM.
 */
static uint32_t control_gsp_features(struct control *control)
{
	struct sim *sim = control->sim;
	const __auto_type at = &sim->card_abi->NV2080_CTRL_GSP_GET_FEATURES_PARAMS;
	bool has = !sim->lacks_gsp && control->card.model->architecture >= GPU_ARCHITECTURE_TURING;

	memset(control->params, 0, at->bytes);
	control->params[at->bValid] = has;
	if (!has)
		return NV_OK;
	put32(control->params, at->gspFeatures,
		NV2080_CTRL_GSP_GET_FEATURES_UVM_ENABLED_TRUE << NV2080_CTRL_GSP_GET_FEATURES_UVM_ENABLED_SHIFT);
	memcpy(control->params + at->firmwareVersion, sim->version, strlen(sim->version) + 1);
	return NV_OK;
}

/* The same version as in the card's file below /proc. */
static uint32_t bios_value(const struct control *control, uint32_t index, uint32_t *value)
{
	(void)control;
	if (index != NV2080_CTRL_BIOS_INFO_INDEX_REVISION && index != NV2080_CTRL_BIOS_INFO_INDEX_OEM_REVISION)
		return NV_ERR_INVALID_ARGUMENT;
	*value = 0;
	return NV_OK;
}

static uint32_t control_bios_info(struct control *control)
{
	const __auto_type at = &control->card_abi->NV2080_CTRL_BIOS_GET_INFO_PARAMS;

	return info_list_outside(control, get64(control->params, at->biosInfoList),
		get32(control->params, at->biosInfoListSize), NV2080_CTRL_BIOS_INFO_MAX_SIZE, bios_value);
}

static uint32_t control_bios_info_v2(struct control *control)
{
	const __auto_type at = &control->card_abi->NV2080_CTRL_BIOS_GET_INFO_V2_PARAMS;

	return info_list_inside(control, at->biosInfoList, get32(control->params, at->biosInfoListSize),
		NV2080_CTRL_BIOS_INFO_MAX_SIZE, bios_value);
}

/* Microseconds since 1970. */
static uint64_t machine_time(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static uint32_t control_time_correlation(struct control *control)
{
	const struct card_abi *abi = control->card_abi;
	const __auto_type at = &abi->NV2080_CTRL_TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO_PARAMS;
	const __auto_type sample = &abi->NV2080_CTRL_TIMER_GPU_CPU_TIME_SAMPLE;
	uint8_t clock = control->params[at->cpuClkId], count = control->params[at->sampleCount], i;
	uint8_t *entry = control->params + at->samples;

	if (count > NV2080_CTRL_TIMER_GPU_CPU_TIME_MAX_SAMPLES)
		return NV_ERR_INVALID_ARGUMENT;
	/* The processor's own counters, and one that is on the card. */
	if (clock != NV2080_TIMER_GPU_CPU_TIME_CPU_CLK_ID_OSTIME &&
		clock != NV2080_TIMER_GPU_CPU_TIME_CPU_CLK_ID_PLATFORM_API)
		return NV_ERR_NOT_SUPPORTED;
	for (i = 0; i < count; i++, entry += sample->bytes) {
		put64(entry, sample->cpuTime, machine_time());
		put64(entry, sample->gpuTime, engines_time(control->sim));
	}
	return NV_OK;
}

static const struct control_entry entries[] = {
	{ CARD_CONTROL(NV2080, MC_GET_ARCH_INFO), .answer = control_arch },
	{ NV_CONTROL(NV2080, GPU_GET_INFO_V2), .answer = control_board_info },
	{ CARD_CONTROL(NV2080, BUS_GET_PCI_BAR_INFO), .answer = control_bars },
	{ CARD_CONTROL(NV2080, BUS_GET_PCI_INFO), .answer = control_bus_pci },
	{ CARD_CONTROL(NV2080, BUS_GET_INFO), .answer = control_bus_info },
	{ CARD_CONTROL(NV2080, BUS_GET_INFO_V2), .answer = control_bus_info_v2 },
	{ CARD_CONTROL(NV2080, GSP_GET_FEATURES), .answer = control_gsp_features },
	{ CARD_CONTROL(NV2080, BIOS_GET_INFO), .answer = control_bios_info },
	{ CARD_CONTROL(NV2080, BIOS_GET_INFO_V2), .answer = control_bios_info_v2 },
	{ CARD_CONTROL(NV2080, TIMER_GET_GPU_CPU_TIME_CORRELATION_INFO), .answer = control_time_correlation },
};

const struct control_set controls_card = CONTROL_SET(entries);
