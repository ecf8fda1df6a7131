// SPDX-License-Identifier: GPL-2.0
/* The cards are looked at while there are containers. Apart from reclaim.c: the driver may keep who asks it waiting. */
#include <linux/workqueue.h>

#include "km.h"

#define PERIOD HZ

static void drift_look(struct work_struct *work);
static DECLARE_DELAYED_WORK(drift_work, drift_look);

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

void km_drift_start(void)
{
	queue_delayed_work(system_long_wq, &drift_work, PERIOD);
}

void km_drift_exit(void)
{
	cancel_delayed_work_sync(&drift_work);
}
