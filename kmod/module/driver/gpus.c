// SPDX-License-Identifier: GPL-2.0-only
/* The driver's cards, as GPUs of the tree: they are added, and asked while there are containers. */
#include <linux/jiffies.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "driver/driver.h"
#include "identity/identity.h"
#include "probes/files.h"
#include "sched/rounds.h"

#define ASK_PERIOD HZ
/* Time between questions about a lost card that no container has open: for each the driver tries to start the card,
 * and writes into the kernel's log. */
#define LOST_PERIOD (60 * HZ)

static unsigned long gpus_asked[CGPU_MAX_GPUS];
static u64 gpus_idle_free[CGPU_MAX_GPUS]; /* bytes, when the card was added */
static struct cgpu_sampling gpus_samples[CGPU_MAX_GPUS];
static unsigned long gpus_lost; /* bit n: GPU n, as it was last seen */
static unsigned long gpus_lost_asked[CGPU_MAX_GPUS];
static u32 gpus_have_mig; /* bit n: GPU n; the others are not started to be asked for it */

/* A card that is open, so that the driver can be asked about it. */
struct card_session {
	const struct cgpu_km_rm *rm;
	struct cgpu_km_card card;
};

static int card_begin(const struct km_engine *engine, const struct cgpu_gpu_facts *facts, struct card_session *session)
{
	int err;

	session->card = (struct cgpu_km_card){ .gpu_id = facts->gpu_id, .minor = facts->minor };
	session->rm = km_rm_begin(engine);
	if (IS_ERR(session->rm))
		return PTR_ERR(session->rm);
	err = session->rm->open(session->rm, facts->gpu_id);
	if (err)
		km_rm_end(session->rm);
	return err;
}

static void card_end(const struct card_session *session)
{
	session->rm->close(session->rm, session->card.gpu_id);
	km_rm_end(session->rm);
}

static void gpu_set(struct km_engine *engine, u32 gpu, const struct cgpu_km_card_now *now)
{
	engine->logic->gpu_set_memfree(&engine->core, gpu, now->free_bytes);
	engine->logic->gpu_set_mig(&engine->core, gpu, now->mig);
}

/* Leave out a card that was lost before it could be added. A card that was added before stays, with the containers
 * that have slices of it. */
static void gpu_leave_out(struct km_engine *engine, const struct cgpu_km_card *card, u32 index)
{
	const struct cgpu_card_view view = { .memfree = CGPU_CARD_LOST };

	if (engine->logic->gpu_look(&engine->core, index, &view) == 0)
		return;
	pr_err("GPU %u (/dev/nvidia%u): the driver has lost it, and it is left out until the driver is loaded again; why: the "
	       "lines of NVRM in dmesg\n",
		index, card->minor);
}

/* With the card open. -ENXIO: the driver has lost it. */
static int gpu_add(struct km_engine *engine, const struct cgpu_km_rm *rm, const struct cgpu_km_card *card, u32 index)
{
	struct cgpu_gpu_facts facts = { .index = index };
	struct cgpu_km_card_now now = {};
	struct cgpu_card_view view;
	const struct nv_abi *abi = engine->core.abi;
	int err = engine->logic->card_facts(abi, rm, card, &facts, &now);

	if (err == 0)
		err = engine->logic->gpu_add(&engine->core, &facts);
	if (err == -ENXIO) {
		gpu_leave_out(engine, card, index);
		return err;
	}
	if (err) {
		pr_err("GPU %u (/dev/nvidia%u): cannot be added (error %d)\n", index, card->minor, err);
		return err;
	}
	gpus_asked[index] = jiffies;
	gpus_idle_free[index] = now.free_bytes;
	memset(&gpus_samples[index], 0, sizeof(gpus_samples[index]));
	gpus_have_mig = (gpus_have_mig & ~(1u << index)) | now.has_mig << index;
	gpu_set(engine, index, &now);
	clear_bit((int)index, &gpus_lost);
	/* No container is on it yet: this is what the card needs by itself. */
	if (engine->logic->card_view(abi, rm, card, km_identity_of_process, &view) == 0)
		return engine->logic->gpu_look(&engine->core, index, &view);
	return 0;
}

int km_gpus_add(struct km_engine *engine)
{
	struct cgpu_km_card *cards = kcalloc(CGPU_MAX_GPUS, sizeof(*cards), GFP_KERNEL);
	const struct cgpu_km_rm *rm;
	int count, i, lost = 0, err = 0;

	lockdep_assert_held(&km_control_lock);
	if (!cards)
		return -ENOMEM;
	rm = km_rm_begin(engine);
	if (IS_ERR(rm)) {
		kfree(cards);
		return PTR_ERR(rm);
	}
	count = engine->logic->cards_open(engine->core.abi, rm, cards);
	for (i = 0; i < count && err == 0; i++) {
		err = gpu_add(engine, rm, &cards[i], (u32)i);
		/* The other cards are added all the same. No container has the lost card's node. */
		if (err == -ENXIO && ++lost < count)
			err = 0;
	}
	for (i = 0; i < count; i++)
		rm->close(rm, cards[i].gpu_id);
	km_rm_end(rm);
	kfree(cards);
	return count < 0 ? count : err;
}

/* A card that does not answer keeps its MIG mode. */
void km_gpus_ask_mig(void *ctx, u32 gpus)
{
	struct km_engine *engine = ctx;
	struct card_session session;
	struct cgpu_gpu_facts facts;
	u32 gpu, mig;

	lockdep_assert_held(&km_control_lock);
	gpus &= gpus_have_mig;
	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		if (!(gpus >> gpu & 1) || engine->logic->gpu_facts(&engine->core, gpu, &facts) ||
			card_begin(engine, &facts, &session))
			continue;
		if (engine->logic->card_mig(engine->core.abi, session.rm, &session.card, &mig) == 0)
			engine->logic->gpu_set_mig(&engine->core, gpu, mig);
		card_end(&session);
	}
}

void km_gpu_refresh(struct km_engine *engine, u32 gpu)
{
	struct cgpu_km_card_now now;
	struct cgpu_gpu_facts facts;
	struct card_session session;

	if (gpu >= CGPU_MAX_GPUS || !engine->core.abi || engine->logic->gpu_facts(&engine->core, gpu, &facts))
		return;
	if (!km_file_opened(facts.minor)) {
		engine->logic->gpu_set_memfree(&engine->core, gpu, gpus_idle_free[gpu]);
		return;
	}
	if (time_before(jiffies, gpus_asked[gpu] + ASK_PERIOD))
		return;
	/* A card that does not open is not asked more often either. */
	gpus_asked[gpu] = jiffies;
	if (card_begin(engine, &facts, &session))
		return;
	if (engine->logic->card_facts(engine->core.abi, session.rm, &session.card, &facts, &now) == 0)
		gpu_set(engine, gpu, &now);
	card_end(&session);
}

int km_gpu_take_page(struct km_engine *engine, u32 gpu)
{
	struct cgpu_gpu_facts facts;
	struct card_session session;
	int err;

	if (!engine->core.abi || engine->logic->gpu_facts(&engine->core, gpu, &facts) ||
		card_begin(engine, &facts, &session))
		return -ENXIO;
	err = engine->logic->card_take_page(engine->core.abi, session.rm, &session.card);
	card_end(&session);
	return err == -ENXIO ? -EIO : err;
}

static void gpu_compare(struct km_engine *engine, u32 gpu, const struct cgpu_gpu_facts *facts)
{
	struct card_session session;
	struct cgpu_card_view view;

	if (card_begin(engine, facts, &session))
		return;
	if (engine->logic->card_view(engine->core.abi, session.rm, &session.card, km_identity_of_process, &view) == 0) {
		assign_bit((int)gpu, &gpus_lost, view.memfree == CGPU_CARD_LOST);
		engine->logic->gpu_look(&engine->core, gpu, &view);
	}
	card_end(&session);
}

/* Whether it is time to ask whether a lost card is back, though no container has it open. */
static bool lost_is_due(u32 gpu)
{
	if (!test_bit((int)gpu, &gpus_lost) || time_before(jiffies, gpus_lost_asked[gpu] + LOST_PERIOD))
		return false;
	gpus_lost_asked[gpu] = jiffies;
	return true;
}

/* Have the core compare what the cards say with what is charged; those that a container has open are asked, and lost ones. */
static void gpus_compare(struct km_engine *engine)
{
	struct cgpu_gpu_facts facts;
	u32 gpu;

	for (gpu = 0; gpu < CGPU_MAX_GPUS && engine->core.abi; gpu++) {
		if (engine->logic->gpu_facts(&engine->core, gpu, &facts))
			continue;
		if (km_file_opened(facts.minor) || lost_is_due(gpu))
			gpu_compare(engine, gpu, &facts);
		else
			engine->logic->gpu_look(&engine->core, gpu, NULL);
	}
}

/* Have the core know how long the card's processes were at work. Returns ns until the next sample. */
static u64 gpu_sample(struct km_engine *engine, u32 gpu, const struct cgpu_gpu_facts *facts)
{
	struct cgpu_sampling *sampling = &gpus_samples[gpu];
	struct card_session session;
	u64 after = CGPU_SAMPLES_NS;

	if (card_begin(engine, facts, &session))
		return after;
	if (engine->logic->card_samples(&engine->core, session.rm, &session.card, gpu, sampling) == 0) {
		after = sampling->after;
		km_rounds_due(NULL, gpu);
	}
	card_end(&session);
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
	again = again || (engine->core.abi && READ_ONCE(gpus_lost));
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
