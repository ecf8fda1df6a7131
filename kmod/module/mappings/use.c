// SPDX-License-Identifier: GPL-2.0-only
/* A file that was readied is mapped, by whomever, and what is mapped is used; until it is closed. */
#include <linux/mm.h>
#include <linux/slab.h>

#include "mappings/mappings.h"

/* The work that a task does before it returns to its program: mmap(2) is over then. */
struct placing {
	struct callback_head work;
	struct mapping *mapping;
	const struct vm_area_struct *vma; /* only compared */
};

static void note_placed(struct callback_head *work)
{
	struct placing *placing = container_of(work, struct placing, work);
	struct mapping *mapping = placing->mapping;

	mutex_lock(&mapping->lock);
	if (mapping->placing == placing)
		mapping->placing = NULL;
	mutex_unlock(&mapping->lock);
	/* The end may have tired of waiting. */
	if (READ_ONCE(mapping->ended) && mapping->client_file)
		mapping_unmap(mapping);
	mapping_put(mapping);
	kfree(placing);
	km_probe_leave();
}

/* Before the driver works on it. Returns false where it has ended. */
static bool work_begin(struct mapping *mapping)
{
	mutex_lock(&mapping->lock);
	if (mapping->ended)
		return false;
	WRITE_ONCE(mapping->worker, current);
	return true;
}

static void work_end(struct mapping *mapping)
{
	WRITE_ONCE(mapping->worker, NULL);
	mutex_unlock(&mapping->lock);
}

/* --- mmap(2) --- */

static bool mmap_wants(struct pt_regs *regs)
{
	return mapping_of_file((const struct file *)regs_get_kernel_argument(regs, 0));
}
NOKPROBE_SYMBOL(mmap_wants);

KM_EXTERNAL(map, int(struct file *, struct vm_area_struct *));

/* The process's addresses can be found, and unmapped, only after this: until then the mapping does not end. */
static void mmap_await_place(struct placing *placing, struct mapping *mapping)
{
	km_probe_enter();
	refcount_inc(&mapping->users);
	init_task_work(&placing->work, note_placed);
	if (km_call(task_work_add)(current, &placing->work, TWA_RESUME))
		note_placed(&placing->work);
}

/* A file of the card's memory is mapped at one place at a time, so that it is known when it is there; as a rule it is mapped once. */
static bool is_mapped(const struct mapping *mapping, const struct file *file)
{
	return mapping->placing || (mapping->client_file && mapping_mapped(file->f_mapping));
}

static int mmap_judged(struct mapping *mapping, struct file *file, struct vm_area_struct *vma)
{
	struct placing *placing = kmalloc(sizeof(*placing), GFP_KERNEL_ACCOUNT);
	bool goes_on = work_begin(mapping) && placing && !is_mapped(mapping, file);
	int err = placing ? mapping->ended ? -EINVAL : -EBUSY : -ENOMEM;

	if (goes_on) {
		placing->mapping = mapping;
		placing->vma = vma;
		mapping->placing = placing;
		err = km_call(map)(file, vma);
	}
	work_end(mapping);
	if (goes_on)
		mmap_await_place(placing, mapping);
	else
		kfree(placing);
	return err;
}

/* nvidia_mmap() */
static int map_file(struct file *file, struct vm_area_struct *vma)
{
	struct mapping *mapping = mapping_get(file);
	int err = -EINVAL;

	if (mapping) {
		err = mmap_judged(mapping, file, vma);
		mapping_put(mapping);
	}
	km_probe_leave();
	return err;
}

/* --- Pages of the window, which the driver maps again where it has unmapped them --- */

static bool fault_wants(struct pt_regs *regs)
{
	const struct vm_fault *fault = (const struct vm_fault *)regs_get_kernel_argument(regs, 0);

	return mapping_of_card_file(fault->vma->vm_file);
}
NOKPROBE_SYMBOL(fault_wants);

KM_EXTERNAL(map_fault, vm_fault_t(struct vm_fault *));

/* nvidia_fault() */
static vm_fault_t handle_fault(struct vm_fault *fault)
{
	struct mapping *mapping = mapping_get(fault->vma->vm_file);
	vm_fault_t result = VM_FAULT_SIGBUS;

	if (mapping) {
		if (work_begin(mapping))
			result = km_call(map_fault)(fault);
		work_end(mapping);
		mapping_put(mapping);
	}
	km_probe_leave();
	return result;
}

static bool access_wants(struct pt_regs *regs)
{
	return mapping_of_card_file(((const struct vm_area_struct *)regs_get_kernel_argument(regs, 0))->vm_file);
}
NOKPROBE_SYMBOL(access_wants);

KM_EXTERNAL(map_access, int(struct vm_area_struct *, unsigned long, void *, int, int));

/* nvidia_vma_access(): a debugger reads or writes there. */
static int access_memory(struct vm_area_struct *vma, unsigned long address, void *buffer, int length, int write)
{
	struct mapping *mapping = mapping_get(vma->vm_file);
	int result = -EIO;

	if (mapping) {
		if (work_begin(mapping))
			result = km_call(map_access)(vma, address, buffer, length, write);
		work_end(mapping);
		mapping_put(mapping);
	}
	km_probe_leave();
	return result;
}

/* --- The addresses are unmapped again: before its task has returned, where that is kept in mmap(2) --- */

static bool leave_wants(struct pt_regs *regs)
{
	return mapping_of_card_file(((const struct vm_area_struct *)regs_get_kernel_argument(regs, 0))->vm_file);
}
NOKPROBE_SYMBOL(leave_wants);

KM_EXTERNAL(map_leave, void(struct vm_area_struct *));

/* nvidia_vma_release() */
static void leave_place(struct vm_area_struct *vma)
{
	struct mapping *mapping = mapping_get(vma->vm_file);

	if (mapping) {
		mutex_lock(&mapping->lock);
		if (mapping->placing && mapping->placing->vma == vma)
			mapping->placing = NULL;
		WRITE_ONCE(mapping->worker, current);
	}
	km_call(map_leave)(vma);
	if (mapping) {
		work_end(mapping);
		mapping_put(mapping);
	}
	km_probe_leave();
}

/* --- Its last close --- */

static bool close_wants(struct pt_regs *regs)
{
	km_opened_file_close_wants(regs);
	return mapping_of_file((const struct file *)regs_get_kernel_argument(regs, 1));
}
NOKPROBE_SYMBOL(close_wants);

KM_EXTERNAL(opened_close, int(struct inode *, struct file *));

/* nvidia_close() */
static int close_file(struct inode *inode, struct file *file)
{
	struct mapping *mapping = mapping_get(file);
	int err;

	if (mapping) {
		mutex_lock(&mapping->lock);
		mapping->closed = true;
		mutex_unlock(&mapping->lock);
		mapping_remove(mapping);
		mapping_put(mapping);
	}
	err = km_call(opened_close)(inode, file);
	km_probe_leave();
	return err;
}

KM_PROBE_AROUND(map, "nvidia", "nvidia_mmap", map_file, mmap_wants);
KM_PROBE_AROUND(map_fault, "nvidia", "nvidia_fault", handle_fault, fault_wants);
KM_PROBE_AROUND(map_leave, "nvidia", "nvidia_vma_release", leave_place, leave_wants);
KM_PROBE_AROUND(map_access, "nvidia", "nvidia_vma_access", access_memory, access_wants);
KM_PROBE_AROUND(opened_close, "nvidia", "nvidia_close", close_file, close_wants);
