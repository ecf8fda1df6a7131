// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Paths, and the names in a directory. */
#include "registry/registry.h"
#include "tree/tree.h"

#define PATH_PARTS 3
#define PART_MAX 255

int core_tree_place(struct cgpu_state *state, const struct cgpu_node *node, struct core_place *place)
{
	core_assert_locked();
	memset(place, 0, sizeof(*place));
	if (node->gpu < 0)
		return 0;
	place->gpu = core_gpu(state, (u32)node->gpu);
	if (place->gpu == NULL)
		return -ENOENT;
	if (node->slot < 0)
		return 0;
	place->container = core_container(state, (u32)node->slot, node->generation);
	if (place->container == NULL)
		return -ENOENT;
	place->instance = core_instance_of(state, (u32)node->gpu, (u32)node->slot, &place->number);
	return place->instance ? 0 : -ENOENT;
}

/* The next part of a path, without slashes. Returns its length, 0 at the end. */
static size_t part_next(const char **path, const char **part)
{
	size_t length = 0;

	while (**path == '/')
		(*path)++;
	*part = *path;
	while (length <= PART_MAX && **path && **path != '/') {
		(*path)++;
		length++;
	}
	return length;
}

static int enter_gpu(struct cgpu_state *state, const char *name, size_t length, struct cgpu_node *node)
{
	u64 index;

	if (core_parse_number(name, length, 2, &index) || (length > 1 && name[0] == '0'))
		return -ENOENT;
	if (index >= CGPU_MAX_GPUS || core_gpu(state, (u32)index) == NULL)
		return -ENOENT;
	node->gpu = (s32)index;
	return 0;
}

static int enter_container(struct cgpu_state *state, const char *name, size_t length, struct cgpu_node *node)
{
	u32 slot = core_slot_by_directory(state, name, length);

	if (slot == CORE_NONE || core_instance_of(state, (u32)node->gpu, slot, NULL) == NULL)
		return -ENOENT;
	node->slot = (s32)slot;
	node->generation = state->container[slot].generation;
	return 0;
}

/* One step down from a directory. */
static int enter(
	struct cgpu_state *state, enum core_level level, const char *name, size_t length, struct cgpu_node *node)
{
	if (core_tree_file(level, name, length, node) == 0)
		return 0;
	if (level == CORE_LEVEL_ROOT)
		return enter_gpu(state, name, length, node);
	if (level == CORE_LEVEL_GPU)
		return enter_container(state, name, length, node);
	return -ENOENT;
}

int cgpu_tree_lookup(struct cgpu_core *core, const char *path, struct cgpu_node *node)
{
	const char *part;
	size_t length;
	int err = 0;
	u32 level;

	node->directory = 1;
	node->mode = 0555;
	node->kind = CGPU_NODE_KIND_DIRECTORY;
	node->gpu = -1;
	node->slot = -1;
	node->generation = 0;
	core_lock(core);
	for (level = 0; err == 0; level++) {
		length = part_next(&path, &part);
		if (length == 0)
			break;
		if (!node->directory)
			err = -ENOTDIR;
		else if (level >= PATH_PARTS || length > PART_MAX)
			err = -ENOENT;
		else
			err = enter(core->state, (enum core_level)level, part, length, node);
	}
	core_unlock(core);
	return err;
}

/* The index-th directory below a directory. */
static int subdirectory(struct cgpu_state *state, const struct cgpu_node *node, u32 index, struct core_text *out)
{
	u32 i;

	if (node->gpu < 0) {
		for (i = 0; i < CGPU_MAX_GPUS; i++) {
			if (core_gpu(state, i) == NULL || index-- > 0)
				continue;
			core_text_number(out, i);
			return 0;
		}
		return -ENOENT;
	}
	for (i = 0; node->slot < 0 && i < CGPU_MAX_INST; i++) {
		const struct core_instance *instance = core_instance(state, (u32)node->gpu, i);

		if (instance == NULL || index-- > 0)
			continue;
		core_text_bytes(out, state->container[instance->slot].id,
			core_id_directory(state->container[instance->slot].id));
		return 0;
	}
	return -ENOENT;
}

static enum core_level level_of(const struct cgpu_node *node)
{
	if (node->gpu < 0)
		return CORE_LEVEL_ROOT;
	return node->slot < 0 ? CORE_LEVEL_GPU : CORE_LEVEL_CONTAINER;
}

int cgpu_tree_name(struct cgpu_core *core, const struct cgpu_node *directory, u32 index, char *name, size_t bytes)
{
	const char *file = core_tree_file_name(level_of(directory), &index);
	struct core_place place;
	struct core_text out;
	int err;

	if (!directory->directory)
		return -ENOTDIR;
	if (bytes == 0)
		return -EINVAL;
	core_text_start(&out, name, bytes - 1);
	core_lock(core);
	err = core_tree_place(core->state, directory, &place);
	if (err == 0 && file)
		core_text_string(&out, file);
	else if (err == 0)
		err = subdirectory(core->state, directory, index, &out);
	core_unlock(core);
	name[out.length] = 0;
	return err == 0 && out.full ? -EINVAL : err;
}

u32 cgpu_tree_changes(struct cgpu_core *core)
{
	u32 changes;

	core_lock(core);
	changes = core->state->tree_changes;
	core_unlock(core);
	return changes;
}
