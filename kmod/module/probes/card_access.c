// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ways to a card, which are open to a container only for the cards that it was granted: opening a device node, by whatever
 * name; attaching a card to a control file; registering a card with UVM. The display's nodes are closed to all containers.
 */
#include <linux/fs.h>

#include "driver/driver.h"
#include "probes/files.h"
#include "probes/pages.h"
#include "probes/task_call.h"

#define DRM_MAJOR_NR 226u /* Documentation/admin-guide/devices.txt */

struct card_key {
	/* Whether a card is the one that is meant. */
	bool (*is)(const struct cgpu_gpu_facts *facts, const struct card_key *key);
	u32 gpu_id, minor;
	const u8 *uuid;
};

/* The GPU of a card. CGPU_MAX_GPUS: it is none of the tree's. */
static u32 card_find(struct km_engine *engine, const struct card_key *key, struct cgpu_gpu_facts *facts)
{
	u32 gpu;

	for (gpu = 0; engine && gpu < CGPU_MAX_GPUS; gpu++) {
		if (engine->logic->gpu_facts(&engine->core, gpu, facts) == 0 && key->is(facts, key))
			return gpu;
	}
	return CGPU_MAX_GPUS;
}

/* A container may start a card from here on. Returns what km_pages_opened() wants afterwards. */
static u32 card_opening(const struct card_key *key)
{
	struct km_engine *engine = km_engine_get();
	struct cgpu_gpu_facts facts;
	u32 gpu = card_find(engine, key, &facts);

	km_engine_put(engine);
	km_pages_opening(gpu);
	return gpu;
}

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

static bool card_is_minor(const struct cgpu_gpu_facts *facts, const struct card_key *key)
{
	return facts->minor == key->minor;
}

KM_EXTERNAL(open, int(struct inode *, struct file *));

static int run_node_open(struct inode *inode, struct file *file)
{
	return km_call(open)(inode, file);
}

/* chrdev_open(): a character device is opened, by whatever name. */
static int node_open(struct inode *inode, struct file *file)
{
	const struct card_key key = { .is = card_is_minor, .minor = iminor(inode) };
	u32 gpu = CGPU_MAX_GPUS;
	struct km_identity identity;
	int err = km_identity_of_current(&identity);

	if (err > 0 && !node_may_open(inode, &identity))
		err = -EPERM;
	if (err > 0)
		gpu = card_opening(&key);
	err = km_opened_file_open(run_node_open, err, &identity, inode, file);
	km_pages_opened(gpu);
	km_probe_leave();
	return err;
}

KM_PROBE_AROUND(open, NULL, "chrdev_open", node_open, node_open_wants);

/* --- Cards that are started without opening a node of theirs --- */

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

	if (card_find(engine, key, &facts) == CGPU_MAX_GPUS)
		return false;
	return engine->logic->minor_granted(&engine->core, identity->slot, identity->generation, facts.minor);
}

/* Whether the current task may use it; tasks of no container may. For others, gpu is what km_pages_opened() wants afterwards. */
static bool card_may_use(const struct card_key *key, u32 *gpu)
{
	struct km_identity identity;
	struct km_engine *engine;
	bool granted;

	*gpu = CGPU_MAX_GPUS;
	if (!km_identity_of_current(&identity))
		return true;
	engine = km_engine_get();
	if (!engine)
		return false;
	granted = card_is_granted(engine, &identity, key);
	km_engine_put(engine);
	if (granted)
		*gpu = card_opening(key);
	return granted;
}

KM_EXTERNAL(dev_get, int(u32, void *, u8));

/* nvidia_dev_get(), of two arguments up to 590. Its callers outside of containers, this module among them, pass. */
static int card_dev_get(u32 gpu_id, void *sp, u8 reset_aware)
{
	const struct card_key key = { .is = card_is_id, .gpu_id = gpu_id };
	struct km_task_call *task_call = km_task_call_begin();
	int err = -ENOMEM;
	u32 gpu;

	if (task_call) {
		err = card_may_use(&key, &gpu) ? km_call(dev_get)(gpu_id, sp, reset_aware) : -EPERM;
		km_pages_opened(gpu);
		km_task_call_end(task_call);
	}
	km_probe_leave();
	return err;
}

KM_EXTERNAL(uvm_gpu, u32(const u8 *, unsigned long, unsigned long, unsigned long, unsigned long, unsigned long));

/* uvm_gpu_retain_by_uuid(), of three to five arguments: also for a card that UVM has started for somebody else. */
static u32 card_uvm_retain(
	const u8 *uuid, unsigned long b, unsigned long c, unsigned long d, unsigned long e, unsigned long f)
{
	const struct card_key key = { .is = card_is_uuid, .uuid = uuid };
	struct km_task_call *task_call = km_task_call_begin();
	u32 status = NV_ERR_INSUFFICIENT_PERMISSIONS;
	u32 gpu;

	if (!task_call) {
		km_probe_leave();
		return NV_ERR_NO_MEMORY;
	}
	if (card_may_use(&key, &gpu)) {
		/* Memory that UVM takes on a card for its own work serves all who have the card. */
		WRITE_ONCE(task_call->for_card, true);
		status = km_call(uvm_gpu)(uuid, b, c, d, e, f);
		WRITE_ONCE(task_call->for_card, false);
	}
	km_pages_opened(gpu);
	km_task_call_end(task_call);
	km_probe_leave();
	return status;
}

KM_PROBE_AROUND(dev_get, "nvidia", "nvidia_dev_get", card_dev_get, km_wants_enforced);
KM_PROBE_AROUND(uvm_gpu, "nvidia_uvm", "uvm_gpu_retain_by_uuid", card_uvm_retain, km_wants_enforced);
