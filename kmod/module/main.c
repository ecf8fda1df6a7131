// SPDX-License-Identifier: GPL-2.0-only
/* cgpu_km.ko: initialization in order, and the same backwards. */
#include <linux/init.h>

#include "driver/driver.h"
#include "identity/identity.h"
#include "probes/pages.h"
#include "probes/task_call.h"
#include "sched/rounds.h"
#include "tree/proc_tree.h"

/* The core's callbacks, from the other files. */
static const struct cgpu_ops core_calls __initconst = {
	.cgroup_of = km_cgroup_of,
	.orphans = km_orphans_wait,
	.process_of = km_process_of,
	.process_in = km_process_in,
	.cards = km_gpus_ask_mig,
	.round = km_rounds_due,
	.pages = km_pages_of,
	.pages_next = km_pages_next,
	.pages_limit = km_pages_limit,
};

static int __init km_init(void)
{
	int err = km_probes_init();

	if (err)
		return err;
	km_engine_register(&core_calls);
	err = km_ftrace_hold();
	if (err)
		return err;
	err = km_task_call_init();
	if (err)
		goto no_record;
	err = km_rounds_init();
	if (err)
		goto no_turns;
	err = km_tree_init();
	if (err)
		goto no_tree;
	err = km_driver_init();
	if (err)
		goto no_driver;
	return 0;
no_driver:
	km_tree_exit();
no_tree:
	km_rounds_exit();
no_turns:
	km_task_call_exit();
no_record:
	km_ftrace_release();
	return err;
}

/* A core holds this module, and containers hold the core: no container is registered now. */
static void __exit km_exit(void)
{
	km_reclaim_exit();
	km_driver_exit();
	km_identity_exit();
	km_tree_exit();
	km_rounds_exit();
	km_cores_exit();
	km_pages_exit();
	km_task_call_exit();
	km_ftrace_release();
}

module_init(km_init);
module_exit(km_exit);
MODULE_LICENSE("GPL");
MODULE_AUTHOR("The OpenCGPU authors");
MODULE_DESCRIPTION("OpenCGPU: slices NVIDIA GPUs between containers, at the driver's boundary");
MODULE_VERSION(CGPU_VERSION);
/* modprobe cgpu_km brings in the core of the same release; and NVIDIA's driver first, whose cards are there then when the
 * configuration is put in force. Without a driver it is loaded all the same. */
MODULE_SOFTDEP("pre: nvidia nvidia-uvm post: " CGPU_CORE_MODULE);
