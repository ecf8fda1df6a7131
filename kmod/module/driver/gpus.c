// SPDX-License-Identifier: GPL-2.0
/* The driver's cards, as GPUs of the tree: they are added, and asked while there are containers. */
#include <linux/jiffies.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "driver/driver.h"
#include "identity/identity.h"
#include "probes/files.h"
#include "sched/rounds.h"

#define ASK_PERIOD HZ

static unsigned long gpus_asked[CGPU_MAX_GPUS];
static u64 gpus_idle_free[CGPU_MAX_GPUS]; /* bytes, when the card was added */
static struct cgpu_sampling gpus_samples[CGPU_MAX_GPUS];
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
	memset(&gpus_samples[index], 0, sizeof(gpus_samples[index]));
	gpus_have_mig = (gpus_have_mig & ~(1u << index)) | now.has_mig << index;
	gpu_set(engine, index, &now);
	/* No container is on it yet: this is what the card needs by itself. */
	if (gpu_view(engine, rm, card, &view) == 0)
		return engine->logic->gpu_look(&engine->core, index, &view);
	return 0;
}

int km_gpus_add(struct km_engine *engine)
{
	struct cgpu_km_card *cards = kcalloc(CGPU_MAX_GPUS, sizeof(*cards), GFP_KERNEL);
	const struct cgpu_km_rm *rm;
	int count, i, err = 0;

	lockdep_assert_held(&km_control_lock);
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

void km_gpus_ask_mig(void *ctx, u32 gpus)
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

static void gpu_compare(struct km_engine *engine, u32 gpu, const struct cgpu_gpu_facts *facts)
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

/* Have the core compare what the cards say with what is charged; those that a container has open are asked. */
static void gpus_compare(struct km_engine *engine)
{
	struct cgpu_gpu_facts facts;
	u32 gpu;

	for (gpu = 0; gpu < CGPU_MAX_GPUS && engine->core.abi; gpu++) {
		if (engine->logic->gpu_facts(&engine->core, gpu, &facts))
			continue;
		if (km_file_opened(facts.minor))
			gpu_compare(engine, gpu, &facts);
		else
			engine->logic->gpu_look(&engine->core, gpu, NULL);
	}
}

/* Have the core know how long the card's processes were at work. Returns ns until the next sample. */
static u64 gpu_sample(struct km_engine *engine, u32 gpu, const struct cgpu_gpu_facts *facts)
{
	struct cgpu_km_card card = { .gpu_id = facts->gpu_id, .minor = facts->minor };
	const struct cgpu_km_rm *rm = km_rm_begin(engine);
	u64 after = CGPU_SAMPLES_NS;

	if (IS_ERR(rm))
		return after;
	if (rm->open(rm, card.gpu_id) == 0) {
		if (engine->logic->card_samples(&engine->core, rm, &card, gpu, &gpus_samples[gpu]) == 0) {
			after = gpus_samples[gpu].after;
			km_rounds_due(NULL, gpu);
		}
		rm->close(rm, card.gpu_id);
	}
	km_rm_end(rm);
	return after;
}

/* Have the core know which processes were at work, where nothing else tells. Returns ns until the next time. */
static u64 gpus_sample(struct km_engine *engine)
{
	struct cgpu_gpu_facts facts;
	u64 after = CGPU_SAMPLES_NS;
	u32 gpu;

	for (gpu = 0; gpu < CGPU_MAX_GPUS && engine->core.abi; gpu++) {
		if (engine->logic->gpu_facts(&engine->core, gpu, &facts))
			continue;
		if (km_file_opened(facts.minor) && km_rounds_want_samples(gpu))
			after = min(after, gpu_sample(engine, gpu, &facts));
	}
	return after;
}

/*
 * The cards are asked while there are containers: what memory they lack, and which processes were at work where nothing else
 * tells. In two work items, and not in that of reclaim.c: the driver may keep its callers waiting.
 */
#define WATCH_PERIOD HZ

static void watch_compare(struct work_struct *work);
static void watch_sample(struct work_struct *work);
static DECLARE_DELAYED_WORK(compare_work, watch_compare);
static DECLARE_DELAYED_WORK(sample_work, watch_sample);

static void watch_compare(struct work_struct *work)
{
	/* Once more after the last has gone. */
	bool again = km_identity_any();
	struct km_engine *engine = km_engine_get();

	if (!engine)
		return;
	gpus_compare(engine);
	km_engine_put(engine);
	if (again)
		queue_delayed_work(system_long_wq, &compare_work, WATCH_PERIOD);
}

static void watch_sample(struct work_struct *work)
{
	bool again = km_identity_any();
	struct km_engine *engine = km_engine_get();
	u64 after;

	if (!engine)
		return;
	after = gpus_sample(engine);
	km_engine_put(engine);
	if (again)
		queue_delayed_work(system_long_wq, &sample_work, nsecs_to_jiffies(after));
}

void km_gpus_watch(void)
{
	queue_delayed_work(system_long_wq, &compare_work, WATCH_PERIOD);
	queue_delayed_work(system_long_wq, &sample_work, WATCH_PERIOD);
}

void km_gpus_exit(void)
{
	cancel_delayed_work_sync(&compare_work);
	cancel_delayed_work_sync(&sample_work);
}
