// SPDX-License-Identifier: GPL-2.0-only
/* Writes to inst_ctl: a registration is made in the core, as an identity and as files of the tree, or not at all. */
#include <linux/slab.h>

#include "driver/driver.h"
#include "identity/identity.h"
#include "tree/proc_tree.h"

int km_cgroup_of(void *ctx, s32 pid, char *path, size_t bytes)
{
	int err = km_driver_check(path, bytes);

	if (err == 0)
		return km_identity_prepare(pid, path, bytes);
	km_identity_forget();
	return err;
}

/* Give each registered container its identity, unless it has one. */
static int identities_bind(struct km_engine *engine, struct cgpu_container_info *info)
{
	u32 slot;
	int err;

	for (slot = 0; engine->logic->container_next(&engine->core, slot, info) == 0; slot = info->slot + 1) {
		err = km_identity_commit(info->slot, info->generation, info->id);
		if (err)
			return err;
	}
	return 0;
}

/* Take back what a line has registered: all that is newer than the generation before it. Returns how many. */
static u32 registrations_take_back(struct km_engine *engine, struct cgpu_container_info *info, u64 before)
{
	u32 slot, count = 0;

	for (slot = 0; engine->logic->container_next(&engine->core, slot, info) == 0; slot = info->slot + 1) {
		if (info->generation <= before)
			continue;
		engine->logic->container_remove(&engine->core, info->slot, info->generation);
		count++;
	}
	if (count)
		km_tree_sync(engine);
	return count;
}

/*
 * A new registration stands when its identity and its files are there. A line that made none stands in any case: it has
 * removed a container. Files that are missing then are made by reclaim.c, half a second later.
 */
static int registrations_finish(struct km_engine *engine, struct cgpu_container_info *info, u64 before)
{
	int err = identities_bind(engine, info);

	if (err == 0)
		err = km_tree_sync(engine);
	if (err == 0 || registrations_take_back(engine, info, before))
		return err;
	pr_warn("inst_ctl: done; files of the tree come later (error %d)\n", err);
	return 0;
}

static u64 newest_generation(struct km_engine *engine, struct cgpu_container_info *info)
{
	u64 newest = 0;
	u32 slot;

	for (slot = 0; engine->logic->container_next(&engine->core, slot, info) == 0; slot = info->slot + 1)
		newest = max(newest, info->generation);
	return newest;
}

/* Whether a share is reserved, as the tree says. */
static bool is_reserved(struct km_engine *engine)
{
	struct cgpu_node node;
	char path[16], text[8];
	u32 gpu;

	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		snprintf(path, sizeof(path), "%u/reserved", gpu);
		if (engine->logic->tree_lookup(&engine->core, path, &node))
			continue;
		/* The buffer is too short for any reservation: only an empty text fits. */
		if (engine->logic->tree_read(&engine->core, &node, text, sizeof(text)))
			return true;
	}
	return false;
}

/* Reservations live as containers do: not without the core that knows them. */
static void reservations_pin(struct km_engine *engine)
{
	if (!is_reserved(engine))
		km_engine_unpin(KM_PIN_RESERVATIONS);
	else if (km_engine_pin(KM_PIN_RESERVATIONS))
		pr_warn("inst_ctl: the core is being unloaded; its reservations stay with cgpu_km\n");
}

static int inst_ctl_write(struct km_engine *engine, const char *text, size_t bytes, struct cgpu_container_info *info,
	struct cgpu_refusal *why)
{
	u64 before = newest_generation(engine, info);
	struct cgpu_node node;
	int err = engine->logic->tree_lookup(&engine->core, "inst_ctl", &node);

	if (err == 0)
		err = engine->logic->tree_write(&engine->core, &node, text, bytes, why);
	if (err == 0)
		err = registrations_finish(engine, info, before);
	km_identity_forget();
	reservations_pin(engine);
	/* Processes may be left in what was removed. */
	km_identity_sweep(engine);
	km_reclaim_start();
	return err;
}

int km_inst_ctl(const char *text, size_t bytes, struct cgpu_refusal *why)
{
	struct cgpu_container_info *info = kmalloc(sizeof(*info), GFP_KERNEL);
	struct km_engine *engine;
	int err = -ENOMEM;

	if (!info)
		return err;
	mutex_lock(&km_control_lock);
	engine = km_engine_get();
	err = engine ? inst_ctl_write(engine, text, bytes, info, why) : -ENODEV;
	km_engine_put(engine);
	mutex_unlock(&km_control_lock);
	kfree(info);
	return err;
}
