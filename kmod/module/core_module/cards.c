// SPDX-License-Identifier: GPL-2.0-only
/* Queries of the driver's cards. Each query makes a client of its own and frees it. */
#include <linux/slab.h>

#include "core_module/rm_client.h"
#include "core_module/cards.h"

#define PROCESSES_MAX 950u /* NV2080_CTRL_GPU_GET_PIDS_MAX_COUNT, ctrl2080gpu.h */

/* Open the card of a record in the driver's list. */
static int card_open(const struct nv_abi *abi, const struct cgpu_km_rm *rm, const u8 *record, struct cgpu_km_card *card)
{
	const struct nv_layout_nv_gpu_info_t *at = &abi->nv_gpu_info_t;
	int minor, err;

	card->gpu_id = get32(record, at->gpu_id);
	err = rm->open(rm, card->gpu_id);
	if (err)
		return err;
	minor = rm->minor_at(get32(record, at->pci_info_domain), record[at->pci_info_bus], record[at->pci_info_slot]);
	if (minor < 0) {
		rm->close(rm, card->gpu_id);
		return minor;
	}
	card->minor = (u32)minor;
	return 0;
}

static void cards_insert(struct cgpu_km_card *cards, u32 count, const struct cgpu_km_card *card)
{
	for (; count && cards[count - 1].minor > card->minor; count--)
		cards[count] = cards[count - 1];
	cards[count] = *card;
}

int cards_open(const struct nv_abi *abi, const struct cgpu_km_rm *rm, struct cgpu_km_card *cards)
{
	u8 *records = kcalloc(CGPU_MAX_GPUS, abi->nv_gpu_info_t.bytes, GFP_KERNEL);
	struct cgpu_km_card card;
	u32 count, i, opened = 0;
	int err, failed = 0;

	if (!records)
		return -ENOMEM;
	count = min_t(u32, rm->list(rm, records), CGPU_MAX_GPUS);
	for (i = 0; i < count; i++) {
		err = card_open(abi, rm, records + (size_t)i * abi->nv_gpu_info_t.bytes, &card);
		if (err == 0) {
			cards_insert(cards, opened++, &card);
			continue;
		}
		pr_err("card with GPU id %#x: does not start (error %d), and is left out\n", card.gpu_id, err);
		failed = err;
	}
	kfree(records);
	return opened ? (int)opened : failed;
}

/* A client on the card. NULL: *err says why not. */
static struct rm_client *card_ask(
	const struct nv_abi *abi, const struct cgpu_km_rm *rm, struct cgpu_gpu_facts *facts, u32 room, int *err)
{
	struct rm_client *own = rm_client_start(abi, rm, room);

	*err = own ? rm_client_attach(own, facts) : -ENOMEM;
	if (*err == 0)
		return own;
	if (own)
		rm_client_end(own);
	return NULL;
}

int card_facts(const struct nv_abi *abi, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card,
	struct cgpu_gpu_facts *facts, struct cgpu_km_card_now *now)
{
	struct cgpu_card_client asked;
	struct rm_client *own;
	int err;

	facts->gpu_id = card->gpu_id;
	facts->minor = card->minor;
	own = card_ask(abi, rm, facts, CGPU_CARD_ROOM, &err);
	if (!own)
		return err;
	asked = rm_client_card(own);
	err = cgpu_card_names(&asked, facts);
	if (err == 0)
		err = cgpu_card_memory(&asked, &facts->memtotal, &now->free_bytes);
	if (err == 0)
		err = cgpu_card_mig(&asked, &now->mig, &now->has_mig);
	rm_client_end(own);
	return err;
}

int card_mig(const struct nv_abi *abi, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card, u32 *mig)
{
	struct cgpu_gpu_facts facts = { .gpu_id = card->gpu_id };
	struct cgpu_card_client asked;
	struct rm_client *own;
	u32 has_mig;
	int err;

	own = card_ask(abi, rm, &facts, CGPU_CARD_ROOM, &err);
	if (!own)
		return err;
	asked = rm_client_card(own);
	err = cgpu_card_mig(&asked, mig, &has_mig);
	rm_client_end(own);
	return err;
}

int card_take_page(const struct nv_abi *abi, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card)
{
	struct cgpu_gpu_facts facts = { .gpu_id = card->gpu_id };
	int err;
	struct rm_client *own = card_ask(abi, rm, &facts, CGPU_CARD_ROOM, &err);

	if (!own)
		return err;
	err = rm_client_take_page(own);
	rm_client_end(own);
	return err;
}

int card_samples(struct cgpu_core *core, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card, u32 gpu,
	struct cgpu_sampling *sampling)
{
	u32 bytes = core->abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS.bytes;
	struct cgpu_gpu_facts facts = { .gpu_id = card->gpu_id };
	struct cgpu_card_client asked;
	struct rm_client *own;
	int err;

	own = card_ask(core->abi, rm, &facts, max(bytes, CGPU_CARD_ROOM), &err);
	if (!own)
		return err;
	asked = rm_client_card(own);
	err = cgpu_card_sample(&asked, core, gpu, sampling);
	rm_client_end(own);
	return err;
}

/* A process that has ended has no bytes. */
static int view_processes(struct cgpu_card_client *card, bool (*contained)(s32 tgid), struct cgpu_card_view *view)
{
	s32 *pids = kcalloc(PROCESSES_MAX, sizeof(*pids), GFP_KERNEL);
	int count = pids ? cgpu_card_processes(card, pids, PROCESSES_MAX) : -ENOMEM, i;
	u64 bytes;

	for (i = 0; i < count; i++) {
		if (cgpu_card_process_bytes(card, pids[i], &bytes) || bytes == 0)
			continue;
		view->users++;
		if (contained(pids[i]))
			continue;
		view->strangers++;
		view->outside += bytes;
	}
	kfree(pids);
	return count < 0 ? count : 0;
}

int card_view(const struct nv_abi *abi, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card,
	bool (*contained)(s32 tgid), struct cgpu_card_view *view)
{
	struct cgpu_gpu_facts facts = { .gpu_id = card->gpu_id };
	int err;
	struct rm_client *own = card_ask(abi, rm, &facts, CGPU_CARD_ROOM, &err);
	u64 total;

	memset(view, 0, sizeof(*view));
	if (own) {
		struct cgpu_card_client asked = rm_client_card(own);

		err = cgpu_card_memory(&asked, &total, &view->memfree);
		if (err == 0)
			err = view_processes(&asked, contained, view);
		rm_client_end(own);
	}
	if (err != -ENXIO)
		return err;
	*view = (struct cgpu_card_view){ .memfree = CGPU_CARD_LOST };
	return 0;
}
