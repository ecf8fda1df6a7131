// SPDX-License-Identifier: GPL-2.0-only
/*
 * A PCI card in software, for NVIDIA's real driver to find: a host bridge of its own with one card, whose BARs are
 * memory that the kernel was told to leave alone. The registers have no device behind them; gsp.c has what the driver
 * must not miss.
 *
 * Its identity is that of a Tesla T4 (TU104), the oldest family that the open driver serves.
 */
#include <linux/io.h>
#include <linux/module.h>
#include <linux/pci.h>

#define BAR0_BYTES (16ul << 20) /* registers */
#define BAR1_BYTES (64ul << 20) /* a window on video memory */
#define BAR3_BYTES (32ul << 20) /* BAR2 to the driver: page tables and contexts */
#define MEMORY_BYTES (2 * BAR1_BYTES)
#define VENDOR_NVIDIA 0x10deu
#define DEVICE_T4 0x1eb8u
#define SUBSYSTEM_T4 0x12a2u
#define CLASS_3D 0x030200u
#define REVISION 0xa1u
#define DOMAIN 1

/* Registers that the driver reads before it has a GSP to ask (dev_boot.h, dev_fuse.h, published with the driver). */
#define NV_PMC_BOOT_0 0x0u
#define NV_PMC_BOOT_0_TU104 0x164000a1u
#define NV_PMC_BOOT_42 0xa00u
#define NV_PMC_BOOT_42_TU104 0x164a1000u
/* dev_vm.h of TU102: entries of the buffer in which a card tells of accesses. */
#define NV_VIRTUAL_FUNCTION_PRIV_ACCESS_COUNTER_NOTIFY_BUFFER_SIZE (0xb80000u + 0x3110u)
#define ACCESS_COUNTER_ENTRIES 4096u
#define NV_XVE_REGISTERS 0x88000u /* the configuration space, mirrored */
#define NV_XVE_LINK_CAPABILITIES 0x84u

static unsigned long base = 0x70000000;
module_param(base, ulong, 0444);
MODULE_PARM_DESC(base, "physical address of 128 MiB that the kernel does not use: memmap=128M$0x70000000");
static unsigned int irq = 11;
module_param(irq, uint, 0444);

static u8 config[PCI_CFG_SPACE_SIZE], writable[PCI_CFG_SPACE_SIZE];
static struct pci_sysdata sysdata = { .domain = DOMAIN, .node = NUMA_NO_NODE };
static struct resource window, buses = { .name = "opencgpu card buses", .flags = IORESOURCE_BUS };
static struct pci_bus *bus;
static void __iomem *registers;

static void config_set(u32 at, u32 value, u32 mask)
{
	memcpy(config + at, &value, sizeof(value));
	memcpy(writable + at, &mask, sizeof(mask));
}

static int config_read(struct pci_bus *from, unsigned int devfn, int at, int size, u32 *value)
{
	*value = ~0u;
	if (devfn || from->number)
		return PCIBIOS_DEVICE_NOT_FOUND;
	*value = 0;
	if (at >= 0 && at + size <= PCI_CFG_SPACE_SIZE)
		memcpy(value, config + at, size);
	return PCIBIOS_SUCCESSFUL;
}

static int config_write(struct pci_bus *from, unsigned int devfn, int at, int size, u32 value)
{
	int i;

	if (devfn || from->number)
		return PCIBIOS_DEVICE_NOT_FOUND;
	for (i = 0; i < size && at + i < PCI_CFG_SPACE_SIZE; i++)
		config[at + i] = (config[at + i] & ~writable[at + i]) | ((value >> (8 * i)) & writable[at + i]);
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops config_ops = { .read = config_read, .write = config_write };

static void fill_header(void)
{
	config_set(PCI_VENDOR_ID, VENDOR_NVIDIA | DEVICE_T4 << 16, 0);
	config_set(PCI_COMMAND, PCI_STATUS_CAP_LIST << 16,
		PCI_COMMAND_IO | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER | PCI_COMMAND_PARITY | PCI_COMMAND_SERR |
			PCI_COMMAND_INTX_DISABLE);
	config_set(PCI_REVISION_ID, CLASS_3D << 8 | REVISION, 0);
	config_set(PCI_BASE_ADDRESS_0, base, ~(u32)(BAR0_BYTES - 1));
	config_set(PCI_BASE_ADDRESS_1,
		(base + BAR1_BYTES) | PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH,
		~(u32)(BAR1_BYTES - 1));
	config_set(PCI_BASE_ADDRESS_2, 0, ~0u);
	config_set(PCI_BASE_ADDRESS_3,
		(base + BAR3_BYTES) | PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH,
		~(u32)(BAR3_BYTES - 1));
	config_set(PCI_BASE_ADDRESS_4, 0, ~0u);
	config_set(PCI_SUBSYSTEM_VENDOR_ID, VENDOR_NVIDIA | SUBSYSTEM_T4 << 16, 0);
	config_set(PCI_CAPABILITY_LIST, 0x60, 0);
	config_set(PCI_INTERRUPT_LINE, irq, 0xff);
}

/* Power management, MSI with 64 bits, a PCI Express endpoint. */
static void fill_capabilities(void)
{
	config_set(0x60, PCI_CAP_ID_PM | 0x68 << 8 | 3 << 16, 0);
	config_set(0x64, 0x8, 0x3);
	config_set(0x68, PCI_CAP_ID_MSI | 0x78 << 8 | PCI_MSI_FLAGS_64BIT << 16, 0x00710000);
	config_set(0x6c, 0, ~3u);
	config_set(0x70, 0, ~0u);
	config_set(0x74, 0, 0xffff);
	config_set(0x78, PCI_CAP_ID_EXP | 2 << 16, 0);
	config_set(0x7c, 0x012c8de1, 0);
	config_set(0x80, 0x2930, 0xffff);
	config_set(NV_XVE_LINK_CAPABILITIES, 0x00457d03, 0);
	config_set(0x88, 0x11030000, 0xffff);
}

static void fill_registers(void)
{
	memset_io(registers, 0, BAR0_BYTES);
	writel(NV_PMC_BOOT_0_TU104, registers + NV_PMC_BOOT_0);
	writel(NV_PMC_BOOT_42_TU104, registers + NV_PMC_BOOT_42);
	writel(VENDOR_NVIDIA | DEVICE_T4 << 16, registers + NV_XVE_REGISTERS);
	writel(ACCESS_COUNTER_ENTRIES, registers + NV_VIRTUAL_FUNCTION_PRIV_ACCESS_COUNTER_NOTIFY_BUFFER_SIZE);
	writel(0x00457d03, registers + NV_XVE_REGISTERS + NV_XVE_LINK_CAPABILITIES);
}

static int scan(void)
{
	LIST_HEAD(resources);
	struct pci_dev *card;

	window = (struct resource){
		.name = "opencgpu card", .start = base, .end = base + MEMORY_BYTES - 1, .flags = IORESOURCE_MEM
	};
	pci_add_resource(&resources, &window);
	pci_add_resource(&resources, &buses);
	bus = pci_scan_root_bus(NULL, 0, &config_ops, &sysdata, &resources);
	if (!bus)
		return -ENODEV;
	pci_bus_claim_resources(bus);
	list_for_each_entry(card, &bus->devices, bus_list)
		card->irq = irq;
	pci_bus_add_devices(bus);
	return 0;
}

static int __init pci_card_init(void)
{
	int err;

	registers = ioremap(base, BAR0_BYTES);
	if (!registers)
		return -ENOMEM;
	fill_registers();
	fill_header();
	fill_capabilities();
	err = scan();
	if (err)
		iounmap(registers);
	return err;
}

static void __exit pci_card_exit(void)
{
	pci_stop_root_bus(bus);
	pci_remove_root_bus(bus);
	iounmap(registers);
}

module_init(pci_card_init);
module_exit(pci_card_exit);
MODULE_DESCRIPTION("A PCI card in software, for tests");
MODULE_LICENSE("GPL");
