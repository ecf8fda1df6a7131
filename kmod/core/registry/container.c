// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* Containers as the transports see them. */
#include "registry/registry.h"
#include "lib/text.h"

static void info_fill(const struct cgpu_state *state, u32 slot, struct cgpu_container_info *info)
{
	const struct core_container *container = &state->container[slot];

	memcpy(info->id, container->id, sizeof(info->id));
	memcpy(info->cgroup, container->cgroup, sizeof(info->cgroup));
	info->pid = container->pid;
	info->slot = slot;
	info->generation = container->generation;
}

int cgpu_container_find(struct cgpu_core *core, const char *id, struct cgpu_container_info *info)
{
	u32 slot;

	core_lock(core);
	slot = core_slot_by_id(core->state, id);
	if (slot != CORE_NONE)
		info_fill(core->state, slot, info);
	core_unlock(core);
	return slot == CORE_NONE ? -ENOENT : 0;
}

int cgpu_container_next(struct cgpu_core *core, u32 slot, struct cgpu_container_info *info)
{
	int err = -ENOENT;

	core_lock(core);
	for (; slot < CGPU_MAX_CONTAINERS; slot++) {
		if (core->state->container[slot].live != CORE_LIVE)
			continue;
		info_fill(core->state, slot, info);
		err = 0;
		break;
	}
	core_unlock(core);
	return err;
}

int cgpu_instance_info(struct cgpu_core *core, u32 slot, u64 generation, u32 gpu, struct cgpu_instance_info *info)
{
	const struct core_instance *instance = NULL;

	core_lock(core);
	if (gpu < CGPU_MAX_GPUS && core_container(core->state, slot, generation))
		instance = core_instance_of(core->state, gpu, slot, NULL);
	if (instance) {
		info->memsize = instance->memsize;
		info->charged = instance->used;
	}
	core_unlock(core);
	return instance ? 0 : -ENOENT;
}

static void say_removed(struct cgpu_core *core, const char *id)
{
	struct core_text out;
	char line[CGPU_ID_BYTES + 32];

	core_text_start(&out, line, sizeof(line) - 1);
	core_text_string(&out, "container ");
	core_text_string(&out, id);
	core_text_string(&out, " removed");
	line[out.length] = 0;
	core->ops->log(core->ctx, 6, line);
}

int cgpu_container_remove(struct cgpu_core *core, u32 slot, u64 generation)
{
	struct core_container *container;
	char id[CGPU_ID_BYTES] = "";

	core_lock(core);
	container = core_container(core->state, slot, generation);
	if (container) {
		memcpy(id, container->id, sizeof(id));
		core_container_drop(core->state, slot);
	}
	core_unlock(core);
	if (id[0])
		say_removed(core, id);
	return 0;
}
