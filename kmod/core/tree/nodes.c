// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* The files of the tree, and their permissions. */
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
	{ "highprio", CORE_LEVEL_CONTAINER, 0644, CGPU_NODE_KIND_HIGHPRIO },
	{ "id", CORE_LEVEL_CONTAINER, 0444, CGPU_NODE_KIND_ID },
	{ "meminfo", CORE_LEVEL_CONTAINER, 0444, CGPU_NODE_KIND_MEMINFO },
	{ "memsize", CORE_LEVEL_CONTAINER, 0644, CGPU_NODE_KIND_MEMSIZE },
	{ "owner", CORE_LEVEL_CONTAINER, 0444, CGPU_NODE_KIND_OWNER },
	{ "stat", CORE_LEVEL_CONTAINER, 0444, CGPU_NODE_KIND_STAT },
	{ "usage", CORE_LEVEL_CONTAINER, 0444, CGPU_NODE_KIND_USAGE },
	{ "weight", CORE_LEVEL_CONTAINER, 0644, CGPU_NODE_KIND_WEIGHT },
};

#define FILES (sizeof(files) / sizeof(files[0]))

int core_tree_is_node(const char *name, size_t length)
{
	size_t i;

	for (i = 0; i < FILES; i++) {
		if (core_same(name, length, files[i].name))
			return 1;
	}
	return 0;
}

int core_tree_file(enum core_level level, const char *name, size_t length, struct cgpu_node *node)
{
	size_t i;

	for (i = 0; i < FILES; i++) {
		if (files[i].level != level || !core_same(name, length, files[i].name))
			continue;
		node->directory = 0;
		node->mode = files[i].mode;
		node->kind = files[i].kind;
		return 0;
	}
	return -ENOENT;
}

const char *core_tree_kind_name(u32 kind)
{
	size_t i;

	for (i = 0; i < FILES; i++) {
		if (files[i].kind == kind)
			return files[i].name;
	}
	return "";
}

const char *core_tree_file_name(enum core_level level, u32 *index)
{
	size_t i;

	for (i = 0; i < FILES; i++) {
		if (files[i].level == level && (*index)-- == 0)
			return files[i].name;
	}
	return NULL;
}
