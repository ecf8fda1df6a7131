// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* The files of the tree, and their permissions. */
#include "registry/registry.h"
#include "tree/tree.h"

struct file {
	const char *name;
	enum core_level level;
	u32 mode;
	u32 kind;
};

static const struct file files[] = {
	{ "default_memsize", CORE_LEVEL_ROOT, 0644, CGPU_NODE_KIND_DEFAULT_MEMSIZE },
	{ "engine", CORE_LEVEL_ROOT, 0444, CGPU_NODE_KIND_ENGINE },
	{ "gpus", CORE_LEVEL_ROOT, 0444, CGPU_NODE_KIND_GPUS },
	{ "inst_ctl", CORE_LEVEL_ROOT, 0600, CGPU_NODE_KIND_INST_CTL },
	{ "major", CORE_LEVEL_ROOT, 0444, CGPU_NODE_KIND_MAJOR },
	{ "policies", CORE_LEVEL_ROOT, 0444, CGPU_NODE_KIND_POLICIES },
	{ "stat", CORE_LEVEL_ROOT, 0444, CGPU_NODE_KIND_STAT },
	{ "upgrade", CORE_LEVEL_ROOT, 0644, CGPU_NODE_KIND_UPGRADE },
	{ "version", CORE_LEVEL_ROOT, 0444, CGPU_NODE_KIND_VERSION },
	{ "drift", CORE_LEVEL_GPU, 0444, CGPU_NODE_KIND_DRIFT },
	{ "free_weight", CORE_LEVEL_GPU, 0444, CGPU_NODE_KIND_FREE_WEIGHT },
	{ "left", CORE_LEVEL_GPU, 0444, CGPU_NODE_KIND_LEFT },
	{ "major", CORE_LEVEL_GPU, 0444, CGPU_NODE_KIND_MAJOR },
	{ "max_inst", CORE_LEVEL_GPU, 0644, CGPU_NODE_KIND_MAX_INST },
	{ "memfree", CORE_LEVEL_GPU, 0444, CGPU_NODE_KIND_MEMFREE },
	{ "memtotal", CORE_LEVEL_GPU, 0444, CGPU_NODE_KIND_MEMTOTAL },
	{ "mig", CORE_LEVEL_GPU, 0444, CGPU_NODE_KIND_MIG },
	{ "minor", CORE_LEVEL_GPU, 0444, CGPU_NODE_KIND_MINOR },
	{ "name", CORE_LEVEL_GPU, 0444, CGPU_NODE_KIND_NAME },
	{ "natives", CORE_LEVEL_GPU, 0444, CGPU_NODE_KIND_NATIVES },
	{ "policy", CORE_LEVEL_GPU, 0644, CGPU_NODE_KIND_POLICY },
	{ "prio_ratio", CORE_LEVEL_GPU, 0644, CGPU_NODE_KIND_PRIO_RATIO },
	{ "reserved", CORE_LEVEL_GPU, 0444, CGPU_NODE_KIND_RESERVED },
	{ "sched", CORE_LEVEL_GPU, 0444, CGPU_NODE_KIND_SCHED },
	{ "stat", CORE_LEVEL_GPU, 0444, CGPU_NODE_KIND_STAT },
	{ "uuid", CORE_LEVEL_GPU, 0444, CGPU_NODE_KIND_UUID },
	{ "id", CORE_LEVEL_CONTAINER, 0444, CGPU_NODE_KIND_ID },
	{ "meminfo", CORE_LEVEL_CONTAINER, 0444, CGPU_NODE_KIND_MEMINFO },
	{ "owner", CORE_LEVEL_CONTAINER, 0444, CGPU_NODE_KIND_OWNER },
	{ "stat", CORE_LEVEL_CONTAINER, 0444, CGPU_NODE_KIND_STAT },
	{ "usage", CORE_LEVEL_CONTAINER, 0444, CGPU_NODE_KIND_USAGE },
};

#define LISTED (sizeof(files) / sizeof(files[0]))
#define FILES (LISTED + CGPU_SLICE_ATTRIBUTES)

/* The index-th file: one of the list, or that of an attribute of a slice. */
static struct file file_at(size_t index)
{
	u32 attribute = (u32)(index - LISTED);

	if (index < LISTED)
		return files[index];
	return (struct file){ core_attributes[attribute].name, CORE_LEVEL_CONTAINER, 0644,
		CGPU_NODE_KIND_SLICE + attribute };
}

int core_tree_is_node(const char *name, size_t length)
{
	size_t i;

	for (i = 0; i < FILES; i++) {
		if (core_same(name, length, file_at(i).name))
			return 1;
	}
	return 0;
}

int core_tree_file(enum core_level level, const char *name, size_t length, struct cgpu_node *node)
{
	size_t i;

	for (i = 0; i < FILES; i++) {
		struct file file = file_at(i);

		if (file.level != level || !core_same(name, length, file.name))
			continue;
		node->directory = 0;
		node->mode = file.mode;
		node->kind = file.kind;
		return 0;
	}
	return -ENOENT;
}

const char *core_tree_kind_name(u32 kind)
{
	size_t i;

	for (i = 0; i < FILES; i++) {
		if (file_at(i).kind == kind)
			return file_at(i).name;
	}
	return "";
}

const char *core_tree_file_name(enum core_level level, u32 *index)
{
	size_t i;

	for (i = 0; i < FILES; i++) {
		if (file_at(i).level == level && (*index)-- == 0)
			return file_at(i).name;
	}
	return NULL;
}
