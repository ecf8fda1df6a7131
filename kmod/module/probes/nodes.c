// SPDX-License-Identifier: GPL-2.0
/* Device nodes that are closed to containers, by whatever name: those of cards that were not granted, and the display's. */
#include <linux/fs.h>

#include "probes/opened_files.h"

#define DRM_MAJOR_NR 226u /* Documentation/admin-guide/devices.txt */

static bool nodes_open_wants(struct pt_regs *regs)
{
	const struct inode *inode = (const struct inode *)regs_get_kernel_argument(regs, 0);

	if (imajor(inode) != NV_NVIDIA_MAJOR && imajor(inode) != DRM_MAJOR_NR)
		return false;
	return km_probe_wants_contained(regs);
}
NOKPROBE_SYMBOL(nodes_open_wants);

static bool nodes_may_open(const struct inode *inode, const struct km_identity *identity)
{
	struct km_engine *engine;
	bool granted;

	/* A driver without its probes would serve whoever comes. */
	if (imajor(inode) != NV_NVIDIA_MAJOR || !km_driver_attached())
		return false;
	if (iminor(inode) == NV_NVIDIACTL_MINOR)
		return true;
	if (iminor(inode) > NV_GPU_MINOR_MAX)
		return false;
	engine = km_engine_get();
	if (!engine)
		return false;
	granted = engine->logic->minor_granted(&engine->core, identity->slot, identity->generation, iminor(inode));
	km_engine_put(engine);
	return granted;
}

/* chrdev_open(): a character device is opened, by whatever name. */
static int nodes_open(struct inode *inode, struct file *file)
{
	struct km_identity identity;
	int err = km_identity_find(&identity);

	if (err > 0 && !nodes_may_open(inode, &identity))
		err = -EPERM;
	err = km_openers_open(&km_probe_open, err, inode, file);
	km_probe_leave();
	return err;
}

struct km_probe km_probe_open = {
	.symbol = "chrdev_open",
	.replacement = nodes_open,
	.wants = nodes_open_wants,
};
