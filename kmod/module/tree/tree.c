// SPDX-License-Identifier: GPL-2.0-only
/* Reading and writing the files of /proc/cgpu_km. The core knows what is in them, and what may be written. */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/proc_fs.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "driver/driver.h"
#include "identity/identity.h"
#include "tree/proc_tree.h"

/* An open node: what it was at open, its text as of the last read from its start, and why its last write was refused. */
struct open_node {
	const char *path;
	struct cgpu_node node;
	struct mutex lock;
	char *text;
	long bytes;
	struct cgpu_refusal *refusal; /* NULL: it was not refused, or no reason is known */
};

static int node_open(struct inode *inode, struct file *file)
{
	struct km_identity identity;
	struct open_node *open;
	struct km_engine *engine;
	int err;

	/* Containers share the host's /proc entries in a /proc of their own; the root of one is root to file modes. */
	if (!capable(CAP_SYS_ADMIN) || km_identity_of_current(&identity))
		return -EACCES;
	open = kzalloc(sizeof(*open), GFP_KERNEL);
	if (!open)
		return -ENOMEM;
	open->path = pde_data(inode);
	mutex_init(&open->lock);
	engine = km_engine_get();
	err = engine ? engine->logic->tree_lookup(&engine->core, open->path, &open->node) : -ENODEV;
	km_engine_put(engine);
	if (err) {
		kfree(open);
		return err;
	}
	file->private_data = open;
	return 0;
}

static int node_release(struct inode *inode, struct file *file)
{
	struct open_node *open = file->private_data;

	kvfree(open->text);
	kfree(open->refusal);
	kfree(open);
	return 0;
}

/* The same node as at open, as the core in use knows it. -ENOENT: its container is gone. */
static int node_again(struct km_engine *engine, const struct open_node *open, struct cgpu_node *node)
{
	int err = engine->logic->tree_lookup(&engine->core, open->path, node);

	if (err == 0 && node->generation != open->node.generation)
		err = -ENOENT;
	return err;
}

static int node_fill(struct km_engine *engine, struct open_node *open)
{
	const char *name = strrchr(open->path, '/');
	struct cgpu_node node;
	int err = node_again(engine, open, &node);

	if (err)
		return err;
	if (!open->text)
		open->text = kvmalloc(CGPU_TREE_TEXT_MAX, GFP_KERNEL);
	if (!open->text)
		return -ENOMEM;
	if (name && (!strcmp(name, "/memfree") || !strcmp(name, "/mig")))
		km_gpu_refresh(engine, (u32)node.gpu);
	open->bytes = engine->logic->tree_read(&engine->core, &node, open->text, CGPU_TREE_TEXT_MAX);
	if (open->bytes >= 0 && !strcmp(open->path, "upgrade"))
		open->bytes = scnprintf(open->text, CGPU_TREE_TEXT_MAX, "%d\n", km_engine_has_candidate());
	if (open->bytes > 0 && !strcmp(open->path, "stat"))
		open->bytes = km_latency_append(open->text, open->bytes, CGPU_TREE_TEXT_MAX);
	if (open->bytes >= 0)
		return 0;
	err = (int)open->bytes;
	open->bytes = 0;
	return err;
}

static ssize_t node_read(struct file *file, char __user *to, size_t bytes, loff_t *at)
{
	struct open_node *open = file->private_data;
	struct km_engine *engine;
	ssize_t n = 0;

	mutex_lock(&open->lock);
	if (!open->refusal && (!open->text || *at == 0)) {
		engine = km_engine_get();
		n = engine ? node_fill(engine, open) : -ENODEV;
		km_engine_put(engine);
	}
	if (open->refusal)
		n = simple_read_from_buffer(to, bytes, at, open->refusal->text, strlen(open->refusal->text));
	else if (n == 0)
		n = simple_read_from_buffer(to, bytes, at, open->text, open->bytes);
	mutex_unlock(&open->lock);
	return n;
}

static int node_write_value(const struct open_node *open, const char *text, size_t bytes)
{
	struct km_engine *engine = km_engine_get();
	struct cgpu_node node;
	int err;

	if (!engine)
		return -ENODEV;
	err = node_again(engine, open, &node);
	if (err == 0)
		err = engine->logic->tree_write(&engine->core, &node, text, bytes, NULL);
	km_engine_put(engine);
	return err;
}

static int node_write_upgrade(const struct open_node *open, const char *text, size_t bytes)
{
	/* The core accepts what can be written there, and has nothing itself that it could exchange. */
	int err = node_write_value(open, text, bytes);

	if (err != -EBUSY)
		return err;
	mutex_lock(&km_control_lock);
	err = km_upgrade();
	mutex_unlock(&km_control_lock);
	return err;
}

static int node_write_control(struct open_node *open, const char *text, size_t bytes)
{
	struct cgpu_refusal *why = kzalloc(sizeof(*why), GFP_KERNEL);
	int err;

	if (!why)
		return -ENOMEM;
	err = km_inst_ctl(text, bytes, why);
	if (!why->text[0]) {
		kfree(why);
		why = NULL;
	}
	mutex_lock(&open->lock);
	swap(open->refusal, why);
	mutex_unlock(&open->lock);
	kfree(why);
	return err;
}

static int node_write_text(struct open_node *open, const char *text, size_t bytes)
{
	if (!strcmp(open->path, "inst_ctl"))
		return node_write_control(open, text, bytes);
	if (!strcmp(open->path, "upgrade"))
		return node_write_upgrade(open, text, bytes);
	return node_write_value(open, text, bytes);
}

static ssize_t node_write(struct file *file, const char __user *from, size_t bytes, loff_t *at)
{
	char *text;
	int err;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (bytes > CGPU_INST_CTL_MAX)
		return -EINVAL;
	text = memdup_user_nul(from, bytes);
	if (IS_ERR(text))
		return PTR_ERR(text);
	err = node_write_text(file->private_data, text, bytes);
	kfree(text);
	return err ? err : (ssize_t)bytes;
}

static const struct proc_ops node_ops = {
	.proc_open = node_open,
	.proc_release = node_release,
	.proc_read = node_read,
	.proc_write = node_write,
	.proc_lseek = default_llseek,
};

int __init km_tree_init(void)
{
	return km_directories_init(&node_ops);
}
