// SPDX-License-Identifier: Apache-2.0
/*
 * The models of simulated cards. Where the numbers are from:
 * - name and PCI numbers: src/nvidia/generated/g_nv_name_released.h of NVIDIA's open-gpu-kernel-modules, 595.45.04; of
 *   several boards with one name it is the first. The V100 is older than that list; its device is in pci.ids.
 * - which chip a board has: pci.ids; for L40S and B200 its newer editions.
 * - architecture and implementation: kmod/abi/card.json, which names the header.
 * - mib: as nvidia-smi shows on the board. T4 and V100 have the figure of drivers before 510, without the memory that
 *   the driver keeps for itself.
 * - the graphics engine: NVIDIA's white papers on Volta, Turing, A100, GA102, Ada and H100, the data sheets, and the
 *   table of compute capabilities in NVIDIA's CUDA C++ Programming Guide. How the 148 multiprocessors of a B200 are
 *   distributed is in none of them: 8 GPCs of up to 10 TPCs are assumed.
 * - pcie: the data sheets.
 * The figures of A100 and H100, the graphics engines and pcie were written down as known from there, not copied with the
 * document open: correct them where they differ.
 * No document says the revision and how many engines copy: they are alike for similar models. The windows of the PCI
 * functions are alike for all (cards.h). Nothing here was compared with a board.
 */
#include <stdio.h>

#include "sim.h"

/* Columns as in struct model: key, name, MiB, device, subsystem, architecture, implementation, revision, PCIe, MiB of a context,
 * 512 MiB pages, MIG; then as in struct graphics. */
static const struct model models[] = {
	{ "T4", "Tesla T4", 15109, 0x1eb8, 0x12a2, GPU_ARCHITECTURE_TURING, GPU_IMPLEMENTATION_TU104, 0xa1, 3, 22,
		false, false, { "TU104", NV2080_CTRL_GR_INFO_SM_VERSION_7_5, 5, 20, 2, 6, 4, 32, 64, 8, 1, 3 } },
	{ "V100", "Tesla V100-SXM2-16GB", 16130, 0x1db1, 0x1212, GPU_ARCHITECTURE_VOLTA, GPU_IMPLEMENTATION_GV100, 0xa1,
		3, 38, false, false, { "GV100", NV2080_CTRL_GR_INFO_SM_VERSION_7_0, 6, 40, 2, 6, 7, 64, 64, 8, 0, 6 } },
	{ "A10", "NVIDIA A10", 23028, 0x2236, 0x1482, GPU_ARCHITECTURE_AMPERE, GPU_IMPLEMENTATION_GA102, 0xa1, 4, 35,
		true, false, { "GA102", NV2080_CTRL_GR_INFO_SM_VERSION_8_6, 7, 36, 2, 7, 6, 48, 128, 4, 1, 3 } },
	{ "A100", "NVIDIA A100-PCIE-40GB", 40960, 0x20f1, 0x145f, GPU_ARCHITECTURE_AMPERE, GPU_IMPLEMENTATION_GA100,
		0xa1, 4, 56, true, true, { "GA100", GR_INFO_SM_VERSION_8_0, 7, 54, 2, 8, 8, 64, 64, 4, 0, 6 } },
	{ "A100-80GB", "NVIDIA A100 80GB PCIe", 81920, 0x20b5, 0x1533, GPU_ARCHITECTURE_AMPERE,
		GPU_IMPLEMENTATION_GA100, 0xa1, 4, 56, true, true,
		{ "GA100", GR_INFO_SM_VERSION_8_0, 7, 54, 2, 8, 8, 64, 64, 4, 0, 6 } },
	{ "L4", "NVIDIA L4", 23034, 0x27b8, 0x16ca, GPU_ARCHITECTURE_ADA, GPU_IMPLEMENTATION_AD104, 0xa1, 4, 30, true,
		false, { "AD104", NV2080_CTRL_GR_INFO_SM_VERSION_8_9, 5, 29, 2, 5, 6, 48, 128, 4, 1, 3 } },
	{ "L40S", "NVIDIA L40S", 46068, 0x26b9, 0x1851, GPU_ARCHITECTURE_ADA, GPU_IMPLEMENTATION_AD102, 0xa1, 4, 62,
		true, false, { "AD102", NV2080_CTRL_GR_INFO_SM_VERSION_8_9, 12, 71, 2, 12, 6, 48, 128, 4, 1, 3 } },
	{ "H100", "NVIDIA H100 80GB HBM3", 81559, 0x2330, 0x16c0, GPU_ARCHITECTURE_HOPPER, GPU_IMPLEMENTATION_GH100,
		0xa1, 5, 74, true, true,
		{ "GH100", NV2080_CTRL_GR_INFO_SM_VERSION_9_0, 8, 66, 2, 8, 9, 64, 128, 4, 0, 6 } },
	{ "H200", "NVIDIA H200", 143771, 0x2335, 0x18be, GPU_ARCHITECTURE_HOPPER, GPU_IMPLEMENTATION_GH100, 0xa1, 5, 74,
		true, true, { "GH100", NV2080_CTRL_GR_INFO_SM_VERSION_9_0, 8, 66, 2, 8, 9, 64, 128, 4, 0, 6 } },
	{ "B200", "NVIDIA B200", 183359, 0x2901, 0x1999, GPU_ARCHITECTURE_BLACKWELL_GB1XX, GPU_IMPLEMENTATION_GB100,
		0xa1, 5, 82, true, true,
		{ "GB100", NV2080_CTRL_GR_INFO_SM_VERSION_10_0, 8, 74, 2, 8, 10, 64, 128, 4, 0, 6 } },
};

#define MODELS (sizeof(models) / sizeof(models[0]))

const struct model *card_model(size_t index)
{
	return index < MODELS ? &models[index] : NULL;
}

const struct model *card_model_of(const char *key, size_t length)
{
	size_t i;

	for (i = 0; i < MODELS; i++) {
		if (strlen(models[i].key) == length && strncasecmp(models[i].key, key, length) == 0)
			return &models[i];
	}
	return NULL;
}

const char *card_models_text(const char *last, bool with_mig)
{
	static char text[128];
	const char *name = NULL;
	size_t at = 0, i;

	/* Each is written when the next one is known, as the last one has another word before it. */
	text[0] = '\0';
	for (i = 0; i <= MODELS; i++) {
		if (i < MODELS && with_mig && !models[i].has_mig)
			continue;
		if (name)
			at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s",
				at == 0		   ? "" :
					i < MODELS ? ", " :
						     last,
				name);
		name = i < MODELS ? models[i].key : NULL;
	}
	return text;
}
