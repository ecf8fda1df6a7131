// SPDX-License-Identifier: GPL-2.0
/* The driver's cards, as GPUs of the tree. */
#include <linux/jiffies.h>
#include <linux/slab.h>

#include "km.h"

#define ASK_PERIOD HZ

static unsigned long gpus_asked[CGPU_MAX_GPUS];
static u64 gpus_idle_free[CGPU_MAX_GPUS]; /* bytes, when the card was added */

/* What the driver says of one card, which must be open for it. */
static int gpu_ask(struct km_engine *engine, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card,
	struct cgpu_gpu_facts *facts, u64 *free_bytes)
{
	int err = rm->open(card->gpu_id);

	if (err)
		return err;
	err = engine->logic->card_facts(engine->core.abi, rm, card, facts, free_bytes);
	rm->close(card->gpu_id);
	return err;
}

static int gpu_add(struct km_engine *engine, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card, u32 index)
{
	struct cgpu_gpu_facts facts = { .index = index };
	u64 free_bytes = 0;
	int err = gpu_ask(engine, rm, card, &facts, &free_bytes);

	if (err == 0)
		err = engine->logic->gpu_add(&engine->core, &facts);
	if (err) {
		pr_err("GPU %u (/dev/nvidia%u): cannot be added (error %d)\n", index, card->minor, err);
		return err;
	}
	gpus_asked[index] = jiffies;
	gpus_idle_free[index] = free_bytes;
	return engine->logic->gpu_set_memfree(&engine->core, index, free_bytes);
}

int km_gpus_add(struct km_engine *engine, const char *version)
{
	struct cgpu_km_card *cards = kcalloc(CGPU_MAX_GPUS, sizeof(*cards), GFP_KERNEL);
	const struct cgpu_km_rm *rm;
	int count, i, err = 0;

	if (!cards)
		return -ENOMEM;
	rm = km_rm_begin(engine->core.abi, version);
	if (IS_ERR(rm)) {
		kfree(cards);
		return PTR_ERR(rm);
	}
	count = engine->logic->cards_list(engine->core.abi, rm, cards);
	for (i = 0; i < count && err == 0; i++)
		err = gpu_add(engine, rm, &cards[i], (u32)i);
	km_rm_end();
	kfree(cards);
	return count < 0 ? count : err;
}

void km_gpu_refresh(struct km_engine *engine, u32 gpu)
{
	struct cgpu_gpu_facts facts;
	struct cgpu_km_card card;
	const struct cgpu_km_rm *rm;
	char version[CGPU_KM_VERSION_BYTES];
	struct module *held;
	u64 free_bytes;

	if (gpu >= CGPU_MAX_GPUS || !engine->core.abi || engine->logic->gpu_facts(&engine->core, gpu, &facts))
		return;
	if (!km_file_opened(facts.minor)) {
		engine->logic->gpu_set_memfree(&engine->core, gpu, gpus_idle_free[gpu]);
		return;
	}
	if (time_before(jiffies, gpus_asked[gpu] + ASK_PERIOD))
		return;
	held = km_driver_hold(version);
	if (!held)
		return;
	card = (struct cgpu_km_card){ .gpu_id = facts.gpu_id, .minor = facts.minor };
	rm = km_rm_begin(engine->core.abi, version);
	if (!IS_ERR(rm)) {
		if (gpu_ask(engine, rm, &card, &facts, &free_bytes) == 0)
			engine->logic->gpu_set_memfree(&engine->core, gpu, free_bytes);
		gpus_asked[gpu] = jiffies;
		km_rm_end();
	}
	module_put(held);
}
