// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files of nvidia and nvidia_uvm that a container's tasks have opened. A container can send such a file to a process outside
 * of all containers, whose calls would not be judged: a call on such a file by a task of no container is refused. Calls of
 * another sliced container on a file of nvidia are judged as that container's; uvm_entries.c refuses them on UVM's. A process
 * that may use the card opens files of its own. As the file is known at the driver's entry points, this holds for all calls on
 * it: dma-bufs, and those of UVM that no other probe sees.
 */
#include <linux/fs.h>
#include <linux/hashtable.h>
#include <linux/slab.h>

#include "probes/files.h"
#include "probes/task_call.h"

/* A container can fill it as far as its memory limit goes, and calls of all containers search it. */
#define BUCKETS_BITS 14

struct opened_file {
	struct hlist_node node;
	const struct file *file; /* only compared */
	struct km_identity by; /* the container whose task has opened it */
	struct rcu_head rcu;
};

static DEFINE_HASHTABLE(opened_table, BUCKETS_BITS);
/* Probes take this lock, too. */
static DEFINE_RAW_SPINLOCK(opened_lock);
static atomic_t opened_count;

static struct opened_file *opened_find(const struct file *file)
{
	struct opened_file *opened;

	hash_for_each_possible_rcu(opened_table, opened, node, (unsigned long)file, lockdep_is_held(&opened_lock)) {
		if (opened->file == file)
			return opened;
	}
	return NULL;
}

bool km_opened_file_owner(const struct file *file, struct km_identity *by)
{
	const struct opened_file *opened;

	if (!atomic_read(&opened_count))
		return false;
	rcu_read_lock();
	opened = opened_find(file);
	if (opened)
		*by = opened->by;
	rcu_read_unlock();
	return opened != NULL;
}

static void opened_add(struct opened_file *opened, const struct file *file)
{
	unsigned long flags;

	opened->file = file;
	raw_spin_lock_irqsave(&opened_lock, flags);
	hash_add_rcu(opened_table, &opened->node, (unsigned long)file);
	atomic_inc(&opened_count);
	raw_spin_unlock_irqrestore(&opened_lock, flags);
}

/* A driver's own open, which a probe lets through. */
static int opened_run(km_open_fn *open, struct inode *inode, struct file *file)
{
	struct km_task_call *task_call = km_task_call_begin();
	int err;

	if (!task_call)
		return -ENOMEM;
	err = open(inode, file);
	km_task_call_end(task_call);
	return err;
}

/* No task has the file before this returns, so no call on it comes too early. */
static int opened_run_noted(km_open_fn *open, const struct km_identity *by, struct inode *inode, struct file *file)
{
	struct opened_file *opened = kmalloc(sizeof(*opened), GFP_KERNEL_ACCOUNT);
	int err = opened ? opened_run(open, inode, file) : -ENOMEM;

	if (err) {
		kfree(opened);
		return err;
	}
	opened->by = *by;
	opened_add(opened, file);
	return 0;
}

int km_opened_file_open(
	km_open_fn *open, int found, const struct km_identity *by, struct inode *inode, struct file *file)
{
	if (found < 0)
		return found;
	return found ? opened_run_noted(open, by, inode, file) : opened_run(open, inode, file);
}

/* Remove a file whose last reference is gone. Any context. */
static void opened_remove(const struct file *file)
{
	struct opened_file *opened;
	unsigned long flags;

	raw_spin_lock_irqsave(&opened_lock, flags);
	opened = opened_find(file);
	if (opened) {
		hash_del_rcu(&opened->node);
		atomic_dec(&opened_count);
	}
	raw_spin_unlock_irqrestore(&opened_lock, flags);
	if (opened)
		kfree_rcu(opened, rcu);
}
NOKPROBE_SYMBOL(opened_remove);

void km_opened_files_clear(void)
{
	struct opened_file *opened;
	struct hlist_node *next;
	u32 bucket;

	hash_for_each_safe(opened_table, bucket, next, opened, node) opened_remove(opened->file);
}

/* Whether a container has opened the file, and the current task is in none. */
static bool opened_by_others(const struct file *file)
{
	struct km_identity identity, by;

	return km_enforce && km_opened_file_owner(file, &by) && !km_identity_of_current(&identity);
}
NOKPROBE_SYMBOL(opened_by_others);

/* Whether the current task may use a container's file. The probes further in judge calls of a container's task. */
static bool opened_may_use(void)
{
	struct km_identity identity;

	if (km_identity_of_current(&identity))
		return true;
	pr_warn_ratelimited(
		"%s (pid %d): is in no sliced container, and used a file of the driver that one has opened: "
		"refused\n",
		current->comm, task_tgid_nr(current));
	return false;
}

/* --- nvidia --- */

bool km_opened_file_close_wants(struct pt_regs *regs)
{
	const struct file *file = (const struct file *)regs_get_kernel_argument(regs, 1);
	struct km_identity by;

	if (km_opened_file_owner(file, &by))
		opened_remove(file);
	return false;
}
NOKPROBE_SYMBOL(km_opened_file_close_wants);

static bool first_is_opened(struct pt_regs *regs)
{
	return opened_by_others((const struct file *)regs_get_kernel_argument(regs, 0));
}
NOKPROBE_SYMBOL(first_is_opened);

static bool second_is_opened(struct pt_regs *regs)
{
	return opened_by_others((const struct file *)regs_get_kernel_argument(regs, 1));
}
NOKPROBE_SYMBOL(second_is_opened);

KM_EXTERNAL(opened_ioctl, long(unsigned long, unsigned long, unsigned long, unsigned long));

/* nvidia_unlocked_ioctl(), since 545. */
static long opened_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	long result = opened_may_use() ? km_call(opened_ioctl)((unsigned long)file, command, argument, 0) : -EPERM;

	km_probe_leave();
	return result;
}

/* nvidia_ioctl(), up to 535: what its callers have in common. */
static int opened_ioctl_old(struct inode *inode, struct file *file, unsigned int command, unsigned long argument)
{
	int result = -EPERM;

	if (opened_may_use())
		result = (int)km_call(opened_ioctl)((unsigned long)inode, (unsigned long)file, command, argument);

	km_probe_leave();
	return result;
}

void km_opened_files_choose(void)
{
	bool old = !km_symbol("nvidia", "nvidia_unlocked_ioctl") && km_symbol("nvidia", "nvidia_ioctl");

	km_probe_opened_ioctl.symbol = old ? "nvidia_ioctl" : "nvidia_unlocked_ioctl";
	km_probe_opened_ioctl.replacement = old ? (void *)opened_ioctl_old : (void *)opened_ioctl;
	km_probe_opened_ioctl.wants = old ? second_is_opened : first_is_opened;
}

struct km_probe km_probe_opened_ioctl = { .module = "nvidia", KM_CALLS(opened_ioctl) };
