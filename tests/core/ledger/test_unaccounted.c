// SPDX-License-Identifier: Apache-2.0
/* Memory that a card is short of beyond what is charged: how it is told, logged, and answered. */
#include "slices.h"

#define OWN (400 * MIB)
#define EACH (96 * MIB)
#define BEATS 5

static struct bench *reconciled(struct caller *caller, u32 refuse)
{
	struct bench *bench = started("580.142", caller);

	bench->core.state->settings.context_memory = EACH;
	bench->core.state->settings.drift_tolerance = 512 * MIB;
	bench->core.state->settings.drift_refuse = refuse;
	bench->driver_page = 65536;
	return bench;
}

/* The card is short of so much, besides its own. */
static void look(struct bench *bench, u64 taken, struct cgpu_card_view view, u32 times)
{
	view.memfree = CARD_BYTES - OWN - taken;
	while (times--)
		CHECK_EQ(cgpu_gpu_reconcile(&bench->core, 0, &view), 0);
}

static const struct cgpu_card_view idle;
static const struct cgpu_card_view used = { .users = 1 };

static long context(struct bench *bench, const struct caller *caller, u32 object)
{
	struct channel_ask ask = { 0xc1, 0xd0, object, KEPLER_CHANNEL_GROUP_A, NV2080_ENGINE_TYPE_GR0, 0 };

	return bench_channel(bench, caller, &ask);
}

TEST_ON(drift_is_what_nobody_is_charged_for, reconciled(&caller, 0))
{
	CHECK(bench_is(bench, "0/drift", "0\n"));
	look(bench, 0, idle, 1);
	CHECK(bench_is(bench, "0/drift", "0\n"));
	CHECK_EQ(take(bench, &caller, 5, 1000 * MIB), NV_OK);
	CHECK_EQ(context(bench, &caller, 6), NV_OK);
	look(bench, 1000 * MIB + EACH, used, 1);
	CHECK(bench_is(bench, "0/drift", "0\n"));
	CHECK(bench_is(bench, "0/memfree", "14274265088\n"));
	look(bench, 1000 * MIB + EACH + 7, used, 1);
	CHECK(bench_is(bench, "0/drift", "7\n"));
	/* The estimate is too high. */
	look(bench, 1000 * MIB + EACH - 9 * MIB, used, 1);
	CHECK(bench_is(bench, "0/drift", "-9437184\n"));
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	/* Orphans are charged too. */
	look(bench, 1000 * MIB + EACH, used, 1);
	CHECK(bench_is(bench, "0/drift", "0\n"));
	CHECK_EQ(cgpu_gpu_reconcile(&bench->core, 0, NULL), 0);
	CHECK_EQ(cgpu_gpu_reconcile(&bench->core, 9, NULL), -ENOENT);
	CHECK_EQ(cgpu_gpu_reconcile(&bench->core, CGPU_MAX_GPUS, &used), -ENOENT);
}

TEST_ON(what_others_have_is_taken_off, reconciled(&caller, 0))
{
	struct cgpu_card_view view = { .users = 3, .strangers = 2, .outside = 700 * MIB };

	look(bench, 0, idle, 1);
	look(bench, 700 * MIB + 2 * EACH + 5, view, 1);
	CHECK(bench_is(bench, "0/drift", "5\n"));
}

TEST_ON(a_card_that_is_had_whole_has_no_drift, reconciled(&caller, 0))
{
	struct cgpu_card_view full = { .memfree = 4096, .users = 1 };
	u32 i;

	CHECK_EQ(bench_ctl(bench, "create id=b pid=7 gpu=0:1048576 native=1"), 0);
	for (i = 0; i < 6; i++)
		CHECK_EQ(cgpu_gpu_reconcile(&bench->core, 1, &full), 0);
	CHECK(bench_is(bench, "1/drift", "0\n"));
	CHECK(bench_is(bench, "1/memfree", "4096\n"));
	CHECK(!core_unaccounted_refuses(bench->core.state, 1));
}

TEST_ON(the_cards_own_need_only_sinks, reconciled(&caller, 0))
{
	struct cgpu_gpu_facts facts;

	/* Someone had 300 MiB when the engine came. */
	look(bench, 300 * MIB, used, 1);
	CHECK(bench_is(bench, "0/drift", "0\n"));
	look(bench, 100 * MIB, used, 1);
	CHECK(bench_is(bench, "0/drift", "-209715200\n"));
	look(bench, 0, idle, 1);
	CHECK(bench_is(bench, "0/drift", "0\n"));
	/* Memory on no list is not the card's own. */
	look(bench, 600 * MIB, idle, 1);
	CHECK(bench_is(bench, "0/drift", "629145600\n"));
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK(bench_is(bench, "0/drift", "0\n"));
	look(bench, 600 * MIB, idle, 1);
	CHECK(bench_is(bench, "0/drift", "629145600\n"));
	/* A card that is added anew is learned anew, once there are no containers. */
	CHECK_EQ(cgpu_gpu_facts(&bench->core, 0, &facts), 0);
	CHECK_EQ(cgpu_gpu_add(&bench->core, &facts), 0);
	look(bench, 600 * MIB, idle, 1);
	CHECK(bench_is(bench, "0/drift", "629145600\n"));
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(cgpu_gpu_add(&bench->core, &facts), 0);
	look(bench, 600 * MIB, idle, 1);
	CHECK(bench_is(bench, "0/drift", "0\n"));
}

TEST_ON(lasting_drift_is_logged_once, reconciled(&caller, 0))
{
	u32 logged = bench->logged;

	look(bench, 0, idle, 1);
	look(bench, 512 * MIB, used, 2 * BEATS);
	CHECK_EQ(bench->logged, logged);
	look(bench, 600 * MIB, used, BEATS - 1);
	CHECK_EQ(bench->logged, logged);
	look(bench, 600 * MIB, used, 1);
	CHECK_EQ(bench->logged, logged + 1);
	CHECK(strcmp(bench->log,
		      "GPU 0 (GPU-0): drift 629145600 bytes: 14794358784 free of 15842934784, 0 charged, 0 processes outside "
		      "of containers; reported only; who has it: nvidia-smi "
		      "--query-compute-apps=gpu_uuid,pid,used_memory --format=csv") == 0);
	look(bench, 600 * MIB, used, 3 * BEATS);
	CHECK_EQ(bench->logged, logged + 1);
	look(bench, 0, used, BEATS - 1);
	CHECK_EQ(bench->logged, logged + 1);
	look(bench, 0, used, 1);
	CHECK_EQ(bench->logged, logged + 2);
	CHECK(strcmp(bench->log, "GPU 0 (GPU-0): drift is within drift_tolerance again: 0 bytes") == 0);
	look(bench, 0, used, BEATS);
	CHECK_EQ(bench->logged, logged + 2);
}

TEST_ON(nothing_more_is_given_where_that_is_asked_for, reconciled(&caller, 1))
{
	struct cgpu_card_view stranger = { .users = 2, .strangers = 1, .outside = MIB };
	struct cgpu_managed managed = {
		.slot = caller.slot, .generation = caller.generation, .tgid = 100, .bytes = 2 * MIB, .limited = 1
	};
	struct cgpu_reference_request request = named(&caller, 0);
	struct cgpu_reference reference;

	request.bytes = MIB;
	look(bench, 0, idle, 1);
	look(bench, 600 * MIB, used, BEATS - 1);
	CHECK_EQ(take(bench, &caller, 5, MIB), NV_OK);
	look(bench, 600 * MIB, used, 1);
	CHECK(strstr(bench->log, "nothing more is given of it"));
	CHECK_EQ(take(bench, &caller, 6, MIB), NV_ERR_NO_MEMORY);
	CHECK_EQ(context(bench, &caller, 6), NV_ERR_NO_MEMORY);
	CHECK_EQ(cgpu_managed_set(&bench->core, &managed), -ENOMEM);
	CHECK_EQ(cgpu_reference_charge(&bench->core, &request, &reference), -ENOMEM);
	/* Memory that is there can be freed, and counts. */
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 5), NV_OK);
	managed.limited = 0;
	CHECK_EQ(cgpu_managed_set(&bench->core, &managed), 0);
	/* Drift may be another container's then. */
	look(bench, 600 * MIB + 100 * MIB, stranger, 1);
	CHECK_EQ(take(bench, &caller, 6, MIB), NV_OK);
	look(bench, 600 * MIB, used, 1);
	CHECK_EQ(take(bench, &caller, 7, MIB), NV_ERR_NO_MEMORY);
	look(bench, 0, used, BEATS);
	CHECK_EQ(take(bench, &caller, 7, MIB), NV_OK);
	look(bench, 600 * MIB, used, BEATS);
	CHECK_EQ(take(bench, &caller, 8, MIB), NV_ERR_NO_MEMORY);
	bench->core.state->settings.drift_refuse = 0;
	CHECK_EQ(take(bench, &caller, 8, MIB), NV_OK);
	bench->core.state->settings.drift_refuse = 1;
	bench_settings(bench, 0, 0);
	CHECK_EQ(take(bench, &caller, 9, MIB), NV_OK);
}

TEST_ON(a_card_that_cannot_be_asked_has_no_drift, reconciled(&caller, 1))
{
	look(bench, 0, idle, 1);
	look(bench, 600 * MIB, used, BEATS);
	CHECK_EQ(take(bench, &caller, 6, MIB), NV_ERR_NO_MEMORY);
	CHECK_EQ(cgpu_gpu_reconcile(&bench->core, 0, NULL), 0);
	CHECK(bench_is(bench, "0/drift", "0\n"));
	CHECK_EQ(take(bench, &caller, 6, MIB), NV_OK);
}
