// SPDX-License-Identifier: GPL-2.0
/* cgpu_km.ko: start and end. */
#include <linux/init.h>

#include "km.h"

static int __init km_init(void)
{
	int err = km_probes_init();

	if (err)
		return err;
	km_names_init();
	err = km_ftrace_hold();
	if (err)
		return err;
	err = km_record_init();
	if (err)
		goto no_record;
	err = km_turns_init();
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
	km_turns_exit();
no_turns:
	km_record_exit();
no_record:
	km_ftrace_release();
	return err;
}

/* A core holds this module, and containers hold the core: nobody is registered here. */
static void __exit km_exit(void)
{
	km_reclaim_exit();
	km_driver_exit();
	km_identity_exit();
	km_tree_exit();
	km_turns_exit();
	km_cores_exit();
	km_record_exit();
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
