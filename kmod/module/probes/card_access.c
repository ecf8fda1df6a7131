// SPDX-License-Identifier: GPL-2.0
/*
 * Ways to a card, which are open to a container only for the cards that it was granted: opening a device node, by whatever
 * name; attaching a card to a control file; registering a card with UVM. The display's nodes are closed to all containers.
 */
#include <linux/fs.h>

#include "driver/driver.h"
#include "probes/files.h"
#include "probes/task_call.h"

#define DRM_MAJOR_NR 226u /* Documentation/admin-guide/devices.txt */

static bool node_open_wants(struct pt_regs *regs)
{
	const struct inode *inode = (const struct inode *)regs_get_kernel_argument(regs, 0);

	if (imajor(inode) != NV_NVIDIA_MAJOR && imajor(inode) != DRM_MAJOR_NR)
		return false;
	return km_wants_enforced(regs);
}
NOKPROBE_SYMBOL(node_open_wants);

static bool node_may_open(const struct inode *inode, const struct km_identity *identity)
{
	struct km_engine *engine;
	bool granted;

	/* A driver without probes would serve every caller. */
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
static int node_open(struct inode *inode, struct file *file)
{
	struct km_identity identity;
	int err = km_identity_find(&identity);

	if (err > 0 && !node_may_open(inode, &identity))
		err = -EPERM;
	err = km_opened_file_open(&km_probe_open, err, inode, file);
	km_probe_leave();
	return err;
}

KM_PROBE(open, NULL, "chrdev_open", node_open, node_open_wants);

/* --- Cards that are started without opening a node of theirs --- */

struct card_key {
	/* Whether a card is the one that the call names. */
	bool (*is)(const struct cgpu_gpu_facts *facts, const struct card_key *key);
	u32 gpu_id;
	const u8 *uuid;
};

static bool card_is_id(const struct cgpu_gpu_facts *facts, const struct card_key *key)
{
	return facts->gpu_id == key->gpu_id;
}

static bool card_is_uuid(const struct cgpu_gpu_facts *facts, const struct card_key *key)
{
	char text[sizeof(facts->uuid)];

	snprintf(text, sizeof(text), "GPU-%pUb", key->uuid);
	return !strcmp(text, facts->uuid);
}

static bool card_is_granted(struct km_engine *engine, const struct km_identity *identity, const struct card_key *key)
{
	struct cgpu_gpu_facts facts;
	u32 gpu;

	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		if (engine->logic->gpu_facts(&engine->core, gpu, &facts) == 0 && key->is(&facts, key))
			return engine->logic->minor_granted(
				&engine->core, identity->slot, identity->generation, facts.minor);
	}
	return false;
}

/* Whether the current task may use it; tasks of no container may. */
static bool card_may_use(const struct card_key *key)
{
	struct km_identity identity;
	int known = km_identity_find(&identity);
	struct km_engine *engine;
	bool granted;

	if (known <= 0)
		return known == 0;
	engine = km_engine_get();
	if (!engine)
		return false;
	granted = card_is_granted(engine, &identity, key);
	km_engine_put(engine);
	return granted;
}

/* nvidia_dev_get(), of two arguments up to 590. Its callers outside of containers, this module among them, pass. */
static __nocfi int card_dev_get(u32 gpu_id, void *sp, u8 reset_aware)
{
	int (*original)(u32, void *, u8) = (void *)km_probe_dev_get.original;
	const struct card_key key = { .is = card_is_id, .gpu_id = gpu_id };
	struct km_task_call *task_call = km_task_call_begin();
	int err = -ENOMEM;

	if (task_call) {
		err = card_may_use(&key) ? original(gpu_id, sp, reset_aware) : -EPERM;
		km_task_call_end(task_call);
	}
	km_probe_leave();
	return err;
}

/* uvm_gpu_retain_by_uuid(), of three to five arguments: also for a card that UVM has started for somebody else. */
static __nocfi u32 card_uvm_retain(
	const u8 *uuid, unsigned long b, unsigned long c, unsigned long d, unsigned long e, unsigned long f)
{
	u32 (*original)(const u8 *, unsigned long, unsigned long, unsigned long, unsigned long, unsigned long) =
		(void *)km_probe_uvm_gpu.original;
	const struct card_key key = { .is = card_is_uuid, .uuid = uuid };
	struct km_task_call *task_call = km_task_call_begin();
	u32 status = NV_ERR_NO_MEMORY;

	if (task_call) {
		status = card_may_use(&key) ? original(uuid, b, c, d, e, f) : NV_ERR_INSUFFICIENT_PERMISSIONS;
		km_task_call_end(task_call);
	}
	km_probe_leave();
	return status;
}

KM_PROBE(dev_get, "nvidia", "nvidia_dev_get", card_dev_get, km_wants_enforced);
KM_PROBE(uvm_gpu, "nvidia_uvm", "uvm_gpu_retain_by_uuid", card_uvm_retain, km_wants_enforced);
