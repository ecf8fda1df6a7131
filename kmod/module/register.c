// SPDX-License-Identifier: GPL-2.0
/* inst_ctl: a registration counts when the core, the identity and the tree's files have it, or not at all. */
#include <linux/slab.h>

#include "km.h"

int km_cgroup_of(void *ctx, s32 pid, char *path, size_t bytes)
{
	return km_identity_prepare(pid, path, bytes);
}

/* Give each registered container its identity. Those that have one are passed over. */
static int bind_all(struct km_engine *engine, struct cgpu_container_info *info)
{
	u32 slot;
	int err;

	for (slot = 0; engine->logic->container_next(&engine->core, slot, info) == 0; slot = info->slot + 1) {
		err = info->pid ? km_identity_commit(info->slot, info->generation, info->id) :
				  km_identity_expect(info->slot, info->generation, info->id);
		if (err)
			return err;
	}
	return 0;
}

/* Take back what a line has registered: all that is newer than the generation before it. */
static void take_back(struct km_engine *engine, struct cgpu_container_info *info, u64 before)
{
	u32 slot;

	for (slot = 0; engine->logic->container_next(&engine->core, slot, info) == 0; slot = info->slot + 1) {
		if (info->generation > before)
			engine->logic->container_remove(&engine->core, info->slot, info->generation);
	}
	km_tree_sync(engine);
}

static u64 newest_generation(struct km_engine *engine, struct cgpu_container_info *info)
{
	u64 newest = 0;
	u32 slot;

	for (slot = 0; engine->logic->container_next(&engine->core, slot, info) == 0; slot = info->slot + 1)
		newest = max(newest, info->generation);
	return newest;
}

static int write_locked(struct km_engine *engine, const char *text, size_t bytes, struct cgpu_container_info *info)
{
	u64 before = newest_generation(engine, info);
	struct cgpu_node node;
	int err = engine->logic->tree_lookup(&engine->core, "inst_ctl", &node);

	if (err == 0)
		err = engine->logic->tree_write(&engine->core, &node, text, bytes);
	if (err == 0)
		err = bind_all(engine, info);
	if (err == 0)
		err = km_tree_sync(engine);
	if (err)
		take_back(engine, info, before);
	km_identity_forget();
	/* Processes may be left in what was removed. */
	km_identity_sweep(engine);
	km_reclaim_start();
	return err;
}

int km_inst_ctl(const char *text, size_t bytes)
{
	struct cgpu_container_info *info = kmalloc(sizeof(*info), GFP_KERNEL);
	struct km_engine *engine;
	int err = -ENOMEM;

	if (!info)
		return err;
	mutex_lock(&km_control_lock);
	engine = km_engine_get();
	err = engine ? write_locked(engine, text, bytes, info) : -ENODEV;
	if (engine)
		km_engine_put(engine);
	mutex_unlock(&km_control_lock);
	kfree(info);
	return err;
}
