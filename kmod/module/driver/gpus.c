// SPDX-License-Identifier: GPL-2.0
/* The driver's cards, as GPUs of the tree. */
#include <linux/jiffies.h>
#include <linux/slab.h>

#include "km.h"

#define ASK_PERIOD HZ

static unsigned long gpus_asked[CGPU_MAX_GPUS];
static u64 gpus_idle_free[CGPU_MAX_GPUS]; /* bytes, when the card was added */
static struct cgpu_looks gpus_looks[CGPU_MAX_GPUS];
static u32 gpus_have_mig; /* bit n: GPU n; the others are not started to be asked for it */

/* What the driver says of one card, which must be open for it. */
static int gpu_ask(struct km_engine *engine, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card,
	struct cgpu_gpu_facts *facts, struct cgpu_km_card_now *now)
{
	int err = rm->open(rm, card->gpu_id);

	if (err)
		return err;
	err = engine->logic->card_facts(engine->core.abi, rm, card, facts, now);
	rm->close(rm, card->gpu_id);
	return err;
}

static void gpu_set(struct km_engine *engine, u32 gpu, const struct cgpu_km_card_now *now)
{
	engine->logic->gpu_set_memfree(&engine->core, gpu, now->free_bytes);
	engine->logic->gpu_set_mig(&engine->core, gpu, now->mig);
}

static int gpu_view(struct km_engine *engine, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card,
	struct cgpu_card_view *view)
{
	int err = rm->open(rm, card->gpu_id);

	if (err)
		return err;
	err = engine->logic->card_view(engine->core.abi, rm, card, km_identity_of_process, view);
	rm->close(rm, card->gpu_id);
	return err;
}

static int gpu_add(struct km_engine *engine, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card, u32 index)
{
	struct cgpu_gpu_facts facts = { .index = index };
	struct cgpu_km_card_now now = {};
	struct cgpu_card_view view;
	int err = gpu_ask(engine, rm, card, &facts, &now);

	if (err == 0)
		err = engine->logic->gpu_add(&engine->core, &facts);
	if (err) {
		pr_err("GPU %u (/dev/nvidia%u): cannot be added (error %d)\n", index, card->minor, err);
		return err;
	}
	gpus_asked[index] = jiffies;
	gpus_idle_free[index] = now.free_bytes;
	memset(&gpus_looks[index], 0, sizeof(gpus_looks[index]));
	gpus_have_mig = (gpus_have_mig & ~(1u << index)) | now.has_mig << index;
	gpu_set(engine, index, &now);
	/* Nobody is sliced on it yet: what it needs by itself. */
	if (gpu_view(engine, rm, card, &view) == 0)
		return engine->logic->gpu_look(&engine->core, index, &view);
	return 0;
}

int km_gpus_add(struct km_engine *engine)
{
	struct cgpu_km_card *cards = kcalloc(CGPU_MAX_GPUS, sizeof(*cards), GFP_KERNEL);
	const struct cgpu_km_rm *rm;
	int count, i, err = 0;

	if (!cards)
		return -ENOMEM;
	rm = km_rm_begin(engine);
	if (IS_ERR(rm)) {
		kfree(cards);
		return PTR_ERR(rm);
	}
	count = engine->logic->cards_open(engine->core.abi, rm, cards);
	for (i = 0; i < count && err == 0; i++)
		err = gpu_add(engine, rm, &cards[i], (u32)i);
	for (i = 0; i < count; i++)
		rm->close(rm, cards[i].gpu_id);
	km_rm_end(rm);
	kfree(cards);
	return count < 0 ? count : err;
}

static int gpu_ask_mig(struct km_engine *engine, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card, u32 *mig)
{
	int err = rm->open(rm, card->gpu_id);

	if (err)
		return err;
	err = engine->logic->card_mig(engine->core.abi, rm, card, mig);
	rm->close(rm, card->gpu_id);
	return err;
}

/* With the driver held. A card that does not answer stays what it was. */
static void gpus_ask_mig(struct km_engine *engine, const struct cgpu_km_rm *rm, u32 gpus)
{
	struct cgpu_gpu_facts facts;
	struct cgpu_km_card card;
	u32 gpu, mig;

	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		if (!(gpus >> gpu & 1) || engine->logic->gpu_facts(&engine->core, gpu, &facts))
			continue;
		card = (struct cgpu_km_card){ .gpu_id = facts.gpu_id, .minor = facts.minor };
		if (gpu_ask_mig(engine, rm, &card, &mig) == 0)
			engine->logic->gpu_set_mig(&engine->core, gpu, mig);
	}
}

void km_cards_look(void *ctx, u32 gpus)
{
	struct km_engine *engine = ctx;
	const struct cgpu_km_rm *rm;

	lockdep_assert_held(&km_control_lock);
	gpus &= gpus_have_mig;
	rm = gpus ? km_rm_begin(engine) : NULL;
	if (IS_ERR_OR_NULL(rm))
		return;
	gpus_ask_mig(engine, rm, gpus);
	km_rm_end(rm);
}

void km_gpu_refresh(struct km_engine *engine, u32 gpu)
{
	struct cgpu_km_card_now now;
	struct cgpu_gpu_facts facts;
	struct cgpu_km_card card;
	const struct cgpu_km_rm *rm;

	if (gpu >= CGPU_MAX_GPUS || !engine->core.abi || engine->logic->gpu_facts(&engine->core, gpu, &facts))
		return;
	if (!km_file_opened(facts.minor)) {
		engine->logic->gpu_set_memfree(&engine->core, gpu, gpus_idle_free[gpu]);
		return;
	}
	if (time_before(jiffies, gpus_asked[gpu] + ASK_PERIOD))
		return;
	rm = km_rm_begin(engine);
	if (IS_ERR(rm))
		return;
	card = (struct cgpu_km_card){ .gpu_id = facts.gpu_id, .minor = facts.minor };
	if (gpu_ask(engine, rm, &card, &facts, &now) == 0)
		gpu_set(engine, gpu, &now);
	gpus_asked[gpu] = jiffies;
	km_rm_end(rm);
}

static void gpu_look(struct km_engine *engine, u32 gpu, const struct cgpu_gpu_facts *facts)
{
	struct cgpu_km_card card = { .gpu_id = facts->gpu_id, .minor = facts->minor };
	const struct cgpu_km_rm *rm = km_rm_begin(engine);
	struct cgpu_card_view view;

	if (IS_ERR(rm))
		return;
	if (gpu_view(engine, rm, &card, &view) == 0)
		engine->logic->gpu_look(&engine->core, gpu, &view);
	km_rm_end(rm);
}

void km_gpus_look(struct km_engine *engine)
{
	struct cgpu_gpu_facts facts;
	u32 gpu;

	for (gpu = 0; gpu < CGPU_MAX_GPUS && engine->core.abi; gpu++) {
		if (engine->logic->gpu_facts(&engine->core, gpu, &facts))
			continue;
		if (km_file_opened(facts.minor))
			gpu_look(engine, gpu, &facts);
		else
			engine->logic->gpu_look(&engine->core, gpu, NULL);
	}
}

/* How long its processes were at work. Returns ns until the next look. */
static u64 gpu_sample(struct km_engine *engine, u32 gpu, const struct cgpu_gpu_facts *facts)
{
	struct cgpu_km_card card = { .gpu_id = facts->gpu_id, .minor = facts->minor };
	const struct cgpu_km_rm *rm = km_rm_begin(engine);
	u64 after = CGPU_SAMPLES_NS;

	if (IS_ERR(rm))
		return after;
	if (rm->open(rm, card.gpu_id) == 0) {
		if (engine->logic->card_samples(&engine->core, rm, &card, gpu, &gpus_looks[gpu]) == 0) {
			after = gpus_looks[gpu].after;
			km_turns_due(NULL, gpu);
		}
		rm->close(rm, card.gpu_id);
	}
	km_rm_end(rm);
	return after;
}

u64 km_gpus_sample(struct km_engine *engine)
{
	struct cgpu_gpu_facts facts;
	u64 after = CGPU_SAMPLES_NS;
	u32 gpu;

	for (gpu = 0; gpu < CGPU_MAX_GPUS && engine->core.abi; gpu++) {
		if (engine->logic->gpu_facts(&engine->core, gpu, &facts))
			continue;
		if (km_file_opened(facts.minor) && km_turns_wants_samples(gpu))
			after = min(after, gpu_sample(engine, gpu, &facts));
	}
	return after;
}
