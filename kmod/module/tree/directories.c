// SPDX-License-Identifier: GPL-2.0-only
/* The directories of /proc/cgpu_km: made and removed as GPUs and containers come and go. */
#include <linux/init.h>
#include <linux/list.h>
#include <linux/proc_fs.h>
#include <linux/slab.h>

#include "tree/proc_tree.h"

#define ROOT "cgpu_km"
#define PATH_BYTES (CGPU_ID_BYTES + 16)

/* A node's path, as its entry's data; the entry's directory keeps it. */
struct leaf {
	struct list_head list;
	char path[];
};

struct directory {
	struct list_head list;
	struct proc_dir_entry *entry;
	struct list_head leaves;
	u64 generation; /* of the container; 0 for others */
	bool seen;
	bool complete; /* has all of its leaves */
	char path[PATH_BYTES];
};

static struct proc_dir_entry *root_entry;
static const struct proc_ops *file_ops;
/* Parents before children. */
static LIST_HEAD(directories);
static DEFINE_MUTEX(directories_lock);
/* The core and its count of changes by which all was made last. NULL: not all was. */
static const struct cgpu_km_core *made_by;
static u32 made_at;

static void directory_remove(struct directory *directory)
{
	struct leaf *leaf, *next;

	if (directory->entry == root_entry) {
		list_for_each_entry(leaf, &directory->leaves, list)
			remove_proc_entry(leaf->path, directory->entry);
	} else {
		/* Waits for readers; what they hold open reads as gone from then on. */
		proc_remove(directory->entry);
	}
	list_for_each_entry_safe(leaf, next, &directory->leaves, list)
		kfree(leaf);
	list_del(&directory->list);
	kfree(directory);
}

static bool leaf_exists(const struct directory *directory, const char *path)
{
	const struct leaf *leaf;

	list_for_each_entry(leaf, &directory->leaves, list) {
		if (!strcmp(leaf->path, path))
			return true;
	}
	return false;
}

static int leaf_make(struct directory *directory, const char *path, const char *name, u32 mode)
{
	struct leaf *leaf = kzalloc(struct_size(leaf, path, strlen(path) + 1), GFP_KERNEL);

	if (!leaf)
		return -ENOMEM;
	strcpy(leaf->path, path);
	if (!proc_create_data(name, (umode_t)mode, directory->entry, file_ops, leaf->path)) {
		kfree(leaf);
		return -ENOMEM;
	}
	list_add(&leaf->list, &directory->leaves);
	return 0;
}

/* Call visit for every name in a directory, with its node. */
static int directory_each_name(struct km_engine *engine, struct directory *directory, char *path,
	u32 directories_wanted,
	int (*visit)(struct directory *, const char *path, const char *name, const struct cgpu_node *))
{
	struct cgpu_node at, node;
	char *name;
	u32 index;
	int err = engine->logic->tree_lookup(&engine->core, directory->path, &at);

	for (index = 0; err == 0; index++) {
		name = path + scnprintf(path, PATH_BYTES, "%s%s", directory->path, directory->path[0] ? "/" : "");
		if (engine->logic->tree_name(&engine->core, &at, index, name, (size_t)(path + PATH_BYTES - name)))
			break;
		/* A container may have gone meanwhile. */
		if (engine->logic->tree_lookup(&engine->core, path, &node))
			continue;
		if (node.directory == directories_wanted)
			err = visit(directory, path, name, &node);
	}
	return err;
}

static struct directory *directory_find(const char *path)
{
	struct directory *directory;

	list_for_each_entry(directory, &directories, list) {
		if (!strcmp(directory->path, path))
			return directory;
	}
	return NULL;
}

static struct directory *directory_make(struct proc_dir_entry *entry, const char *path, u64 generation)
{
	struct directory *directory = kzalloc(sizeof(*directory), GFP_KERNEL);

	if (!directory)
		return NULL;
	INIT_LIST_HEAD(&directory->leaves);
	strscpy(directory->path, path, sizeof(directory->path));
	directory->entry = entry;
	directory->generation = generation;
	directory->seen = true;
	list_add_tail(&directory->list, &directories);
	return directory;
}

static int leaf_visit(struct directory *directory, const char *path, const char *name, const struct cgpu_node *node)
{
	return leaf_exists(directory, path) ? 0 : leaf_make(directory, path, name, node->mode);
}

static int directory_visit(struct directory *parent, const char *path, const char *name, const struct cgpu_node *node)
{
	struct directory *directory = directory_find(path);
	struct proc_dir_entry *entry;

	if (directory && directory->generation == node->generation) {
		directory->seen = true;
		return 0;
	}
	if (directory)
		directory_remove(directory);
	entry = proc_mkdir_mode(name, (umode_t)node->mode, parent->entry);
	if (!entry)
		return -ENOMEM;
	if (directory_make(entry, path, node->generation))
		return 0;
	proc_remove(entry);
	return -ENOMEM;
}

/* Walk down: the list grows behind the place where we are. */
static int directories_grow(struct km_engine *engine, char *path)
{
	struct directory *directory;
	int err = 0;

	list_for_each_entry(directory, &directories, list) {
		if (!directory->seen)
			continue;
		if (err == 0 && !directory->complete) {
			err = directory_each_name(engine, directory, path, 0, leaf_visit);
			directory->complete = err == 0;
		}
		if (err == 0)
			err = directory_each_name(engine, directory, path, 1, directory_visit);
	}
	return err;
}

static void directories_shrink(void)
{
	struct directory *directory, *next;

	/* Children first. */
	list_for_each_entry_safe_reverse(directory, next, &directories, list) {
		if (!directory->seen)
			directory_remove(directory);
	}
}

/* All count as gone until they are seen again. A directory that another core has made may lack some of this core's
 * files. */
static void directories_forget(const struct km_engine *engine)
{
	struct directory *directory;

	list_for_each_entry(directory, &directories, list) {
		directory->seen = false;
		if (engine && engine->logic != made_by)
			directory->complete = false;
	}
}

static int directories_make(struct km_engine *engine)
{
	struct directory *root = directory_find("");
	char *path = kmalloc(PATH_BYTES, GFP_KERNEL);
	int err = -ENOMEM;

	if (root)
		root->seen = true;
	else
		root = directory_make(root_entry, "", 0);
	if (path && root)
		err = directories_grow(engine, path);
	kfree(path);
	return err;
}

static int directories_sync(struct km_engine *engine)
{
	u32 changes = engine ? engine->logic->tree_changes(&engine->core) : 0;
	int err = 0;

	if (engine && engine->logic == made_by && changes == made_at)
		return 0;
	directories_forget(engine);
	made_by = NULL;
	if (engine)
		err = directories_make(engine);
	/* After a failure some may exist that were not visited: they stay. */
	if (err)
		return err;
	directories_shrink();
	if (engine)
		made_by = engine->logic;
	made_at = changes;
	return 0;
}

int km_tree_sync(struct km_engine *engine)
{
	int err;

	mutex_lock(&directories_lock);
	err = directories_sync(engine);
	mutex_unlock(&directories_lock);
	return err;
}

int __init km_directories_init(const struct proc_ops *ops)
{
	file_ops = ops;
	root_entry = proc_mkdir_mode(ROOT, 0700, NULL);
	if (root_entry)
		return 0;
	pr_err("/proc/%s: cannot be made\n", ROOT);
	return -ENOMEM;
}

void km_tree_exit(void)
{
	km_tree_sync(NULL);
	proc_remove(root_entry);
}
