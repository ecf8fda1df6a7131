// SPDX-License-Identifier: Apache-2.0
/* The configuration space of a card's PCI function, which Linux has in /sys: its standard header, without capabilities. */
#include "sim.h"

/* PCI Local Bus Specification 3.0, 6.1. */
#define AT_COMMAND 0x04u
#define AT_REVISION 0x08u
#define AT_CLASS 0x0au
#define AT_SUBSYSTEM 0x2cu
#define AT_INTERRUPT 0x3cu
#define MEMORY_AND_MASTER 0x0006u
#define CLASS_3D_CONTROLLER 0x0302u

void card_pci_config(const struct sim *sim, uint32_t index, uint8_t out[SIM_PCI_CONFIG])
{
	const struct model *model = sim->cards[index].model;

	memset(out, 0, SIM_PCI_CONFIG);
	put16(out, 0, SIM_PCI_VENDOR);
	put16(out, 2, model->pci_device);
	put16(out, AT_COMMAND, MEMORY_AND_MASTER);
	out[AT_REVISION] = model->revision;
	put16(out, AT_CLASS, CLASS_3D_CONTROLLER);
	put16(out, AT_SUBSYSTEM, SIM_PCI_VENDOR);
	put16(out, AT_SUBSYSTEM + 2, model->pci_subsystem);
	out[AT_INTERRUPT] = card_irq(index);
}
