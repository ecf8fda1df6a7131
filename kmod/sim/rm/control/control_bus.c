// SPDX-License-Identifier: Apache-2.0
/* Where the card is on its bus. Nothing goes over its link, so that has no errors, and always its full speed. */
#include "control.h"

static uint32_t control_bus_pci(struct control *control)
{
	const struct card_layout_NV2080_CTRL_BUS_GET_PCI_INFO_PARAMS *at =
		&control->call->sim->card_abi->NV2080_CTRL_BUS_GET_PCI_INFO_PARAMS;
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
	const struct card_layout_NV2080_CTRL_BUS_GET_INFO_PARAMS *at =
		&control->call->sim->card_abi->NV2080_CTRL_BUS_GET_INFO_PARAMS;

	return info_list_outside(control, get64(control->params, at->busInfoList),
		get32(control->params, at->busInfoListSize), most_entries(control->call->sim->card_abi), bus_value);
}

static uint32_t control_bus_info_v2(struct control *control)
{
	const struct card_abi *abi = control->call->sim->card_abi;
	const struct card_layout_NV2080_CTRL_BUS_GET_INFO_V2_PARAMS *at = &abi->NV2080_CTRL_BUS_GET_INFO_V2_PARAMS;

	return info_list_inside(
		control, at->busInfoList, get32(control->params, at->busInfoListSize), most_entries(abi), bus_value);
}

/* As the addresses in NV_ESC_CARD_INFO: registers, and the window to the card's memory. */
static uint32_t control_bars(struct control *control)
{
	const struct card_abi *abi = control->call->sim->card_abi;
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

static const struct control_entry entries[] = {
	{ NV2080_CTRL_CMD_BUS_GET_PCI_BAR_INFO, NV20_SUBDEVICE_0, CARD_PARAMS(NV2080_CTRL_BUS_GET_PCI_BAR_INFO_PARAMS),
		ANSWER(control_bars, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_BUS_GET_PCI_INFO, NV20_SUBDEVICE_0, CARD_PARAMS(NV2080_CTRL_BUS_GET_PCI_INFO_PARAMS),
		ANSWER(control_bus_pci, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_BUS_GET_INFO, NV20_SUBDEVICE_0, CARD_PARAMS(NV2080_CTRL_BUS_GET_INFO_PARAMS),
		ANSWER(control_bus_info, RIGHTS_NONE) },
	{ NV2080_CTRL_CMD_BUS_GET_INFO_V2, NV20_SUBDEVICE_0, CARD_PARAMS(NV2080_CTRL_BUS_GET_INFO_V2_PARAMS),
		ANSWER(control_bus_info_v2, RIGHTS_NONE) },
};

const struct control_set controls_bus = CONTROL_SET(entries);
