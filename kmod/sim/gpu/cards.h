/* SPDX-License-Identifier: Apache-2.0 */
/* One simulated card: its model, the memory that it has given out, and its place. */
#ifndef CGPU_SIM_CARDS_H
#define CGPU_SIM_CARDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_UUID_TEXT 41u
#define SIM_PCI_VENDOR 0x10deu
#define SIM_NO_CARD UINT32_MAX

struct sim;
struct engines;
struct backing;

/* Parts of a model's engines. */
struct graphics {
	const char *chip;
	uint32_t version; /* of the multiprocessors */
	uint16_t gpcs, tpcs, sms_per_tpc;
	uint16_t chip_gpcs, chip_tpcs_per_gpc; /* before any were switched off */
	uint16_t warps, cores, tensor_cores, rt_cores; /* of a multiprocessor */
	uint16_t copies; /* engines that copy */
};

/* Facts that all cards of a model share. */
struct model {
	const char *key;
	const char *name;
	uint32_t mib;
	uint16_t pci_device;
	uint16_t pci_subsystem; /* of NVIDIA's, as its vendor */
	uint16_t architecture;
	uint8_t implementation;
	uint8_t revision; /* major and minor, as of its PCI function */
	uint8_t pcie; /* generation of its link, of 16 lanes */
	/* MiB of a context of the graphics engine: registers and first-level cache of all multiprocessors, which are
	 * saved when it has to make room, and 8 MiB for the rest. Not measured. */
	uint16_t context_mib;
	/* Ampere and later have 512 MiB pages (generated/g_kern_gmmu_nvoc.c bPageSize512mbSupported). */
	bool pages_512m;
	bool has_mig;
	struct graphics graphics;
};

struct card {
	const struct model *model;
	uint64_t bytes;
	uint64_t used;
	uint64_t peak; /* the most that was ever used */
	uint64_t next_offset;
	uint64_t context; /* bytes of a channel group of the graphics engine, which no figure of a process has */
	uint64_t pool_free, pool_used; /* bytes of the pool for page tables (page_tables.c), which `used` includes */
	bool mig; /* divided into instances */
	bool lost; /* fallen off the bus */
	uint32_t gpu_id;
	uint32_t instance; /* the driver's number for it while it is attached, else SIM_NO_CARD */
	uint32_t opens; /* of its node */
	struct backing *registers; /* which clients map */
	struct engines *engines; /* NULL: no channel group was ever made on it */
	uint8_t uuid[16];
	char uuid_text[SIM_UUID_TEXT];
};

/* models.c */
/* The models, one after the other; NULL behind the last one. */
const struct model *card_model(size_t index);
/* The model with a key, in capitals or not; NULL: there is none. */
const struct model *card_model_of(const char *key, size_t length);
/* The models' keys in a line, with a word between the last two; all models, or those with MIG. */
const char *card_models_text(const char *last, bool with_mig);

/* card.c */
bool cards_parse(struct sim *sim, const char *text, const char **problem);
/* Switches MIG on or off; false where the card cannot be divided. The lock is held. */
bool card_set_mig(struct card *card, bool on);
/* A card is attached while its node is open; for the kernel, which never detaches them, always. The lock is held. */
void cards_detach(struct sim *sim);
void card_attach(struct sim *sim, uint32_t index);
void card_release(struct sim *sim, uint32_t index);
/* The card that is attached under a number, or SIM_NO_CARD. */
uint32_t card_at(const struct sim *sim, uint32_t instance);
/* The card with a driver's number, attached or not, or SIM_NO_CARD. */
uint32_t card_of_id(const struct sim *sim, uint32_t id);
uint32_t card_of_uuid(const struct sim *sim, const uint8_t *uuid);
/* Its PCI bus; the driver's number for the card is made of it. */
static inline uint8_t card_bus(uint32_t index)
{
	return (uint8_t)(index + 1);
}
static inline uint8_t card_irq(uint32_t index)
{
	return (uint8_t)(16 + index);
}
/* Windows of its PCI function: registers, and its memory. */
#define SIM_BARS 2u
static inline uint64_t card_bar_bytes(uint32_t bar)
{
	return bar == 0 ? 16ull << 20 : 256ull << 20;
}
static inline uint64_t card_bar(uint32_t index, uint32_t bar)
{
	return (bar == 0 ? 0xc0000000ull : 0x100000000ull) + index * card_bar_bytes(bar);
}
/* pci_config.c */
#define SIM_PCI_CONFIG 64u
void card_pci_config(const struct sim *sim, uint32_t index, uint8_t out[SIM_PCI_CONFIG]);
int card_information(const struct sim *sim, uint32_t index, char *out, size_t room);

#endif
