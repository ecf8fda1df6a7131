// SPDX-License-Identifier: GPL-2.0-only
/*
 * Open files of the driver. Each gets a number that the core keeps with the clients that live on it, so that the last
 * close of the file, by whatever task, ends their charges.
 */
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/hashtable.h>
#include <linux/slab.h>

#include "probes/files.h"
#include "probes/probe.h"
#include "probes/task_call.h"

/* As in opened_files.c: long chains would slow down all containers. */
#define BUCKETS_BITS 14

static struct hlist_head buckets[1 << BUCKETS_BITS];
static DEFINE_SPINLOCK(files_lock);
static atomic64_t last_number;
static atomic_t files_of_card[NV_GPU_MINOR_MAX + 1];
static atomic_t files_exported;

static struct km_file *file_find(const void *nvfp)
{
	struct km_file *file;

	hlist_for_each_entry_rcu(file, &buckets[hash_ptr(nvfp, BUCKETS_BITS)], node, lockdep_is_held(&files_lock)) {
		if (file->nvfp == nvfp && !file->closing)
			return file;
	}
	return NULL;
}

struct file_wanted {
	const void *nvfp;
	dev_t *device;
};

/* private_data of the driver's files begins with what it hands around (kernel-open/common/inc/nv-linux.h,
 * nv_linux_file_private_t). */
static int file_is_wanted(const void *context, struct file *file, unsigned int fd)
{
	const struct file_wanted *wanted = context;
	const struct inode *inode = file_inode(file);

	if (READ_ONCE(file->private_data) != wanted->nvfp || !S_ISCHR(inode->i_mode) ||
		imajor(inode) != NV_NVIDIA_MAJOR)
		return 0;
	*wanted->device = inode->i_rdev;
	return 1;
}

static u32 file_gpu_of_minor(struct km_engine *engine, u32 minor)
{
	struct cgpu_gpu_facts facts;
	u32 gpu;

	for (gpu = 0; gpu < CGPU_MAX_GPUS; gpu++) {
		if (engine->logic->gpu_facts(&engine->core, gpu, &facts) == 0 && facts.minor == minor)
			break;
	}
	return gpu;
}

static enum cgpu_device file_device_of(dev_t device)
{
	if (MINOR(device) == NV_NVIDIACTL_MINOR)
		return CGPU_DEVICE_CTL;
	return MINOR(device) <= NV_GPU_MINOR_MAX ? CGPU_DEVICE_GPU : CGPU_DEVICE_OTHER;
}

static void file_counted(const struct km_file *file, int change)
{
	if (file->device == CGPU_DEVICE_GPU)
		atomic_add(change, &files_of_card[file->minor]);
}

bool km_file_opened(u32 minor)
{
	return minor <= NV_GPU_MINOR_MAX && atomic_read(&files_of_card[minor]) > 0;
}

static struct km_file *file_make(const void *nvfp, dev_t device)
{
	struct km_file *file, *other;

	file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);
	if (!file)
		return ERR_PTR(-ENOMEM);
	file->nvfp = nvfp;
	file->number = atomic64_inc_return(&last_number);
	file->device = file_device_of(device);
	file->minor = MINOR(device);
	file->gpu = CGPU_MAX_GPUS;
	init_rwsem(&file->link_lock);
	spin_lock(&files_lock);
	other = file_find(nvfp);
	if (!other) {
		hlist_add_head_rcu(&file->node, &buckets[hash_ptr(nvfp, BUCKETS_BITS)]);
		file_counted(file, 1);
	}
	spin_unlock(&files_lock);
	if (!other)
		return file;
	kfree(file);
	return other;
}

static struct km_file *file_make_callers(const void *nvfp)
{
	dev_t device;
	const struct file_wanted wanted = { .nvfp = nvfp, .device = &device };

	if (!iterate_fd(current->files, 0, file_is_wanted, &wanted))
		return ERR_PTR(-EBADF);
	return file_make(nvfp, device);
}

struct km_file *km_file_take_open(struct file *open)
{
	const void *nvfp = READ_ONCE(open->private_data);
	struct km_file *file;

	rcu_read_lock();
	file = file_find(nvfp);
	rcu_read_unlock();
	return file ? file : file_make(nvfp, file_inode(open)->i_rdev);
}

struct km_file *km_file_take(struct km_engine *engine, const void *nvfp)
{
	struct km_file *file;

	rcu_read_lock();
	file = file_find(nvfp);
	rcu_read_unlock();
	if (!file)
		file = file_make_callers(nvfp);
	/* A card that is there stays as long as its file; one that is not there may come yet. */
	if (!IS_ERR(file) && file->device == CGPU_DEVICE_GPU && READ_ONCE(file->gpu) == CGPU_MAX_GPUS)
		WRITE_ONCE(file->gpu, file_gpu_of_minor(engine, file->minor));
	return file;
}

void km_file_note_export(const void *nvfp)
{
	struct km_file *file;

	spin_lock(&files_lock);
	file = file_find(nvfp);
	if (file && !file->exported) {
		WRITE_ONCE(file->exported, true);
		atomic_inc(&files_exported);
	}
	spin_unlock(&files_lock);
}

bool km_file_exported(const void *nvfp)
{
	const struct km_file *file;
	bool exported;

	rcu_read_lock();
	file = file_find(nvfp);
	exported = file && READ_ONCE(file->exported);
	rcu_read_unlock();
	return exported;
}

bool km_file_any_exported(void)
{
	return atomic_read(&files_exported) > 0;
}

static void file_remove(struct km_file *file)
{
	spin_lock(&files_lock);
	hlist_del_rcu(&file->node);
	file_counted(file, -1);
	if (file->exported)
		atomic_dec(&files_exported);
	spin_unlock(&files_lock);
	kfree_rcu(file, rcu);
}

void km_files_clear(void)
{
	struct km_file *file;
	struct hlist_node *next;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(buckets); i++) {
		hlist_for_each_entry_safe(file, next, &buckets[i], node)
			file_remove(file);
	}
}

static bool file_cleanup_wants(struct pt_regs *regs)
{
	bool known;

	rcu_read_lock();
	known = file_find((const void *)regs_get_kernel_argument(regs, 2)) != NULL;
	rcu_read_unlock();
	return known;
}
NOKPROBE_SYMBOL(file_cleanup_wants);

KM_EXTERNAL(cleanup, void(void *, void *, void *));

/* rm_cleanup_file_private(): the last close, in whatever task or thread. */
static void file_cleanup(void *sp, void *nv, void *nvfp)
{
	struct km_engine *engine;
	struct km_file *file;

	rcu_read_lock();
	file = file_find(nvfp);
	rcu_read_unlock();
	/* The probe lets this one through from here on. */
	if (file)
		WRITE_ONCE(file->closing, true);
	km_mappings_file_closing(nvfp);
	km_call(cleanup)(sp, nv, nvfp);
	engine = file ? km_engine_get_surely() : NULL;
	if (engine) {
		engine->logic->file_closed(&engine->core, file->number);
		km_engine_put(engine);
	}
	if (file)
		file_remove(file);
	km_probe_leave();
}

KM_PROBE_AROUND(cleanup, "nvidia", "rm_cleanup_file_private", file_cleanup, file_cleanup_wants);
