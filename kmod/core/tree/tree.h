/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The nodes of the tree. The lock is held by the caller. */
#ifndef CGPU_TREE_H
#define CGPU_TREE_H

#include "state/state.h"
#include "lib/text.h"

enum core_level { CORE_LEVEL_ROOT, CORE_LEVEL_GPU, CORE_LEVEL_CONTAINER };

enum core_node_kind {
	CGPU_NODE_KIND_DIRECTORY,
	CGPU_NODE_KIND_DEFAULT_MEMSIZE,
	CGPU_NODE_KIND_DRIFT,
	CGPU_NODE_KIND_ENGINE,
	CGPU_NODE_KIND_FREE_WEIGHT,
	CGPU_NODE_KIND_GPUS,
	CGPU_NODE_KIND_ID,
	CGPU_NODE_KIND_INST_CTL,
	CGPU_NODE_KIND_LEFT,
	CGPU_NODE_KIND_MAJOR,
	CGPU_NODE_KIND_MAX_INST,
	CGPU_NODE_KIND_MEMFREE,
	CGPU_NODE_KIND_MEMINFO,
	CGPU_NODE_KIND_MEMTOTAL,
	CGPU_NODE_KIND_MIG,
	CGPU_NODE_KIND_MINOR,
	CGPU_NODE_KIND_NAME,
	CGPU_NODE_KIND_NATIVES,
	CGPU_NODE_KIND_OWNER,
	CGPU_NODE_KIND_POLICIES,
	CGPU_NODE_KIND_POLICY,
	CGPU_NODE_KIND_PRIO_RATIO,
	CGPU_NODE_KIND_RESERVED,
	CGPU_NODE_KIND_SCHED,
	CGPU_NODE_KIND_STAT,
	CGPU_NODE_KIND_UPGRADE,
	CGPU_NODE_KIND_USAGE,
	CGPU_NODE_KIND_UUID,
	CGPU_NODE_KIND_VERSION,
	/* Entries of a container's attributes have the kinds from here on, in the order of enum cgpu_slice_attribute. */
	CGPU_NODE_KIND_SLICE,
	CGPU_NODE_KIND_MEMSIZE = CGPU_NODE_KIND_SLICE + CGPU_SLICE_MEMSIZE,
	CGPU_NODE_KIND_WEIGHT = CGPU_NODE_KIND_SLICE + CGPU_SLICE_WEIGHT,
};

/* The attribute that an entry is of; CGPU_SLICE_ATTRIBUTES or more: of none. */
static inline u32 core_kind_attribute(u32 kind)
{
	return kind - CGPU_NODE_KIND_SLICE;
}

/* Objects that a node is about, found and live; or -ENOENT. */
struct core_place {
	struct core_gpu *gpu; /* NULL at the root */
	struct core_container *container; /* NULL above containers */
	struct core_instance *instance;
	u32 number; /* of the instance */
};
int core_tree_place(struct cgpu_state *state, const struct cgpu_node *node, struct core_place *place);

/* Whether a file of the tree has this name, on any level. */
int core_tree_is_node(const char *name, size_t length);
/* The file with this name on a level. 0 or -ENOENT. */
int core_tree_file(enum core_level level, const char *name, size_t length, struct cgpu_node *node);
/* The name of the file of a kind that only one level has. */
const char *core_tree_kind_name(u32 kind);
/* The name of the index-th file on a level. NULL: there are fewer, and *index is less by so many. */
const char *core_tree_file_name(enum core_level level, u32 *index);

/* --- stat.c: functions that write a text return 0 --- */

int core_policies_text(struct core_text *out);
int core_stat_root_text(struct cgpu_state *state, struct core_text *out);
int core_stat_gpus_text(struct cgpu_state *state, struct core_text *out);
int core_stat_gpu_text(struct cgpu_core *core, u32 gpu, struct core_text *out);
int core_stat_instance_text(struct cgpu_core *core, u32 gpu, u32 number, struct core_text *out);
/* Its words without the id: " memsize=…", also of an instance that has ended. */
void core_stat_words(struct cgpu_core *core, u32 gpu, u32 number, struct core_text *out);

/* --- values.c --- */

/* The number that a write carries; -EACCES where nothing can be written. Any thread, with the lock or without. */
int core_value_parse(u32 kind, const char *text, size_t bytes, u64 *value);
/* Lines that inst_ctl takes. */
#define CORE_INST_CTL_FORMS                                                              \
	"create id=ID pid=PID, and gpu=" CGPU_SLICE_FORM " or share=ID; destroy id=ID; " \
	"reserve id=ID gpu=...; or release id=ID"
/* Log that a write to a file was refused for its value, or a line to inst_ctl for its form. Only so many in ten seconds are
 * logged. Called without the lock. */
void core_value_refused(struct cgpu_core *core, const struct cgpu_node *node, const char *text, size_t bytes, int err);
void core_inst_ctl_refused(struct cgpu_core *core, const char *text, size_t bytes);

#endif
