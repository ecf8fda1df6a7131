// SPDX-License-Identifier: GPL-2.0
/*
 * The cards are looked at while there are containers: what memory they are short of, and who was at work where nothing else
 * tells. Apart from reclaim.c, and from each other: the driver may keep who asks it waiting.
 */
#include <linux/workqueue.h>

#include "km.h"

#define PERIOD HZ

static void drift_look(struct work_struct *work);
static void drift_sample(struct work_struct *work);
static DECLARE_DELAYED_WORK(drift_work, drift_look);
static DECLARE_DELAYED_WORK(drift_samples, drift_sample);

static void drift_look(struct work_struct *work)
{
	/* Once more after the last has gone. */
	bool again = km_identity_any();
	struct km_engine *engine = km_engine_get();

	if (!engine)
		return;
	km_gpus_look(engine);
	km_engine_put(engine);
	if (again)
		queue_delayed_work(system_long_wq, &drift_work, PERIOD);
}

static void drift_sample(struct work_struct *work)
{
	bool again = km_identity_any();
	struct km_engine *engine = km_engine_get();
	u64 after;

	if (!engine)
		return;
	after = km_gpus_sample(engine);
	km_engine_put(engine);
	if (again)
		queue_delayed_work(system_long_wq, &drift_samples, nsecs_to_jiffies(after));
}

void km_drift_start(void)
{
	queue_delayed_work(system_long_wq, &drift_work, PERIOD);
	queue_delayed_work(system_long_wq, &drift_samples, PERIOD);
}

void km_drift_exit(void)
{
	cancel_delayed_work_sync(&drift_work);
	cancel_delayed_work_sync(&drift_samples);
}
