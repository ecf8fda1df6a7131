/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef CGPU_KM_CARDS_H
#define CGPU_KM_CARDS_H

#include "interface.h"

int cards_open(const struct nv_abi *abi, const struct cgpu_km_rm *rm, struct cgpu_km_card *cards);
int card_facts(const struct nv_abi *abi, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card,
	struct cgpu_gpu_facts *facts, struct cgpu_km_card_now *now);
int card_mig(const struct nv_abi *abi, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card, u32 *mig);
int card_take_page(const struct nv_abi *abi, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card);
int card_view(const struct nv_abi *abi, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card,
	bool (*contained)(s32 tgid), struct cgpu_card_view *view);
int card_samples(struct cgpu_core *core, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card, u32 gpu,
	struct cgpu_sampling *sampling);

int controls_open(const struct nv_abi *abi, struct cgpu_km_controls *controls, u32 gpu);
void controls_close(const struct nv_abi *abi, struct cgpu_km_controls *controls, u32 gpu);
u32 controls_set_channels(
	const struct nv_abi *abi, struct cgpu_km_controls *controls, const struct cgpu_channel_batch *channels);
u32 controls_set_timeslice(
	const struct nv_abi *abi, struct cgpu_km_controls *controls, const struct cgpu_timeslice *slice);

#endif
