// SPDX-License-Identifier: GPL-2.0-only
/* Containers whose processes have gone are removed, whether their poststop hook ran or not. */
#include <linux/delay.h>
#include <linux/workqueue.h>

#include "driver/driver.h"
#include "identity/identity.h"
#include "probes/probe.h"
#include "tree/proc_tree.h"

#define PERIOD (HZ / 2)
#define ORPHANS_WAIT_MS 250

static void reclaim_run(struct work_struct *work);
static DECLARE_DELAYED_WORK(reclaim_work, reclaim_run);

static void reclaim_run(struct work_struct *work)
{
	struct km_engine *engine;
	u32 left = 0;

	km_probes_check();
	mutex_lock(&km_control_lock);
	engine = km_engine_get();
	if (engine) {
		left = km_identity_sweep(engine);
		km_tree_sync(engine);
		km_engine_put(engine);
	}
	mutex_unlock(&km_control_lock);
	if (left)
		schedule_delayed_work(&reclaim_work, PERIOD);
}

void km_reclaim_start(void)
{
	schedule_delayed_work(&reclaim_work, PERIOD);
	km_gpus_watch();
}

void km_reclaim_exit(void)
{
	cancel_delayed_work_sync(&reclaim_work);
	km_gpus_exit();
}

/* Wait for the memory of a container that has just ended: the driver frees it within milliseconds, as a rule. */
void km_orphans_wait(void *ctx)
{
	struct km_engine *engine = ctx;
	u32 waited, gpu;
	u64 bytes;

	for (waited = 0; waited < ORPHANS_WAIT_MS; waited += 10) {
		for (gpu = 0, bytes = 0; gpu < CGPU_MAX_GPUS; gpu++)
			bytes |= engine->logic->gpu_orphaned(&engine->core, gpu);
		if (!bytes && !engine->logic->orphans(&engine->core))
			return;
		msleep(10);
	}
}
