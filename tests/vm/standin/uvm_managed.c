// SPDX-License-Identifier: GPL-2.0
/*
 * Managed memory: a mapping of the node. Each 2 MiB of it take memory of the card at the first touch, whoever touches;
 * the driver would do so for the card's touch, and move pages. Here the pages a process sees are always of the host.
 */
#include <linux/kref.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <linux/xarray.h>

#include "uvm.h"

struct chunk {
	struct uvm_gpu *gpu;
	u64 address;
};

/* One mmap; after a split several vmas share it. */
struct managed {
	struct list_head node;
	struct kref refs;
	struct uvm_va_space *space;
	/* Whose mapping it is; only compared. */
	const struct mm_struct *mm;
	u64 start;
	u64 end;
	struct mutex lock;
	struct xarray chunks;
	struct xarray pages;
};

static void free_chunk(struct chunk *chunk)
{
	if (chunk->gpu) {
		nvUvmInterfacePmaFreePages(chunk->gpu->pma, &chunk->address, 1, UVM_CHUNK_SIZE, 0);
		uvm_gpu_put(chunk->gpu);
	}
	kfree(chunk);
}

/* Gives back what lies between two addresses: pages, and chunks wholly inside. */
static void give_back(struct managed *managed, u64 start, u64 end)
{
	unsigned long index;
	struct chunk *chunk;
	struct page *page;

	mutex_lock(&managed->lock);
	xa_for_each_range(&managed->pages, index, page, start >> PAGE_SHIFT, (end - 1) >> PAGE_SHIFT)
	{
		xa_erase(&managed->pages, index);
		put_page(page);
	}
	xa_for_each(&managed->chunks, index, chunk)
	{
		u64 from = max_t(u64, index * UVM_CHUNK_SIZE, managed->start);
		u64 to = min_t(u64, (index + 1) * UVM_CHUNK_SIZE, managed->end);

		if (from < start || to > end)
			continue;
		xa_erase(&managed->chunks, index);
		free_chunk(chunk);
	}
	mutex_unlock(&managed->lock);
}

static void destroy(struct kref *refs)
{
	struct managed *managed = container_of(refs, struct managed, refs);

	give_back(managed, managed->start, managed->end);
	mutex_lock(&managed->space->lock);
	list_del(&managed->node);
	mutex_unlock(&managed->space->lock);
	xa_destroy(&managed->chunks);
	xa_destroy(&managed->pages);
	kfree(managed);
}

/* The first registered card gives the memory; without one it is the host's alone. */
static struct uvm_gpu *gpu_for(struct uvm_va_space *space)
{
	struct uvm_gpu *gpu = NULL;
	unsigned int i;

	mutex_lock(&space->lock);
	for (i = 0; i < UVM_MAX_CARDS && !gpu; i++)
		gpu = space->gpus[i];
	if (gpu)
		uvm_gpu_hold(gpu);
	mutex_unlock(&space->lock);
	return gpu;
}

static bool take_chunk(struct managed *managed, unsigned long index)
{
	UvmPmaAllocationOptions options = { 0 };
	struct chunk *chunk;

	if (xa_load(&managed->chunks, index))
		return true;
	chunk = kzalloc(sizeof(*chunk), GFP_KERNEL);
	if (!chunk)
		return false;
	chunk->gpu = gpu_for(managed->space);
	if (chunk->gpu &&
		nvUvmInterfacePmaAllocPages(chunk->gpu->pma, 1, UVM_CHUNK_SIZE, &options, &chunk->address) != NV_OK) {
		uvm_gpu_put(chunk->gpu);
		kfree(chunk);
		return false;
	}
	if (!xa_err(xa_store(&managed->chunks, index, chunk, GFP_KERNEL)))
		return true;
	free_chunk(chunk);
	return false;
}

static struct page *page_at(struct managed *managed, u64 address)
{
	struct page *page = xa_load(&managed->pages, address >> PAGE_SHIFT);

	if (page || !take_chunk(managed, address / UVM_CHUNK_SIZE))
		return page;
	page = alloc_page(GFP_HIGHUSER | __GFP_ZERO);
	if (page && xa_err(xa_store(&managed->pages, address >> PAGE_SHIFT, page, GFP_KERNEL))) {
		put_page(page);
		page = NULL;
	}
	return page;
}

static vm_fault_t uvm_vm_fault_entry(struct vm_fault *vmf)
{
	struct managed *managed = vmf->vma->vm_private_data;
	struct page *page;

	mutex_lock(&managed->lock);
	page = page_at(managed, vmf->address);
	if (page)
		get_page(page);
	mutex_unlock(&managed->lock);
	vmf->page = page;
	return page ? 0 : VM_FAULT_SIGBUS;
}

static vm_fault_t uvm_vm_fault_sigbus_entry(struct vm_fault *vmf)
{
	return VM_FAULT_SIGBUS;
}

static const struct vm_operations_struct uvm_vm_ops_disabled = {
	.fault = uvm_vm_fault_sigbus_entry,
};

/* A split, or a fork after MADV_DOFORK: the child's copy is of no use (uvm_vm_open_managed in the driver). */
static void uvm_vm_open_managed_entry(struct vm_area_struct *vma)
{
	struct managed *managed = vma->vm_private_data;

	if (vma->vm_mm == managed->mm) {
		kref_get(&managed->refs);
		return;
	}
	vma->vm_ops = &uvm_vm_ops_disabled;
	vma->vm_private_data = NULL;
}

static void uvm_vm_close_managed_entry(struct vm_area_struct *vma)
{
	struct managed *managed = vma->vm_private_data;

	give_back(managed, vma->vm_start, vma->vm_end);
	kref_put(&managed->refs, destroy);
}

static int refuse_move(struct vm_area_struct *vma)
{
	return -EINVAL;
}

static const struct vm_operations_struct uvm_vm_ops_managed = {
	.open = uvm_vm_open_managed_entry,
	.close = uvm_vm_close_managed_entry,
	.mremap = refuse_move,
	.fault = uvm_vm_fault_entry,
};

bool uvm_managed_overlaps(const struct uvm_va_space *space, u64 base, u64 end)
{
	struct managed *at;

	list_for_each_entry(at, &space->managed, node) {
		if (at->start < end && base < at->end)
			return true;
	}
	return false;
}

static void set_flags(struct vm_area_struct *vma)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTCOPY);
#else
	vma->vm_flags |= VM_DONTEXPAND | VM_DONTCOPY;
#endif
}

int uvm_managed_mmap(struct uvm_va_space *space, struct vm_area_struct *vma)
{
	struct managed *managed = kzalloc(sizeof(*managed), GFP_KERNEL);
	int result = 0;

	if (!managed)
		return -ENOMEM;
	kref_init(&managed->refs);
	mutex_init(&managed->lock);
	xa_init(&managed->chunks);
	xa_init(&managed->pages);
	managed->space = space;
	managed->mm = vma->vm_mm;
	managed->start = vma->vm_start;
	managed->end = vma->vm_end;
	mutex_lock(&space->lock);
	if (uvm_external_overlaps(space, managed->start, managed->end) ||
		uvm_managed_overlaps(space, managed->start, managed->end))
		result = -EADDRINUSE;
	else
		list_add(&managed->node, &space->managed);
	mutex_unlock(&space->lock);
	if (result != 0) {
		kfree(managed);
		return result;
	}
	set_flags(vma);
	vma->vm_ops = &uvm_vm_ops_managed;
	vma->vm_private_data = managed;
	return 0;
}

u32 uvm_api_validate_va_range(struct uvm_va_space *space, u8 *params)
{
	const struct nv_layout_UVM_VALIDATE_VA_RANGE_PARAMS *at = &standin_abi()->UVM_VALIDATE_VA_RANGE_PARAMS;
	u64 base = get64(params, at->base), length = get64(params, at->length);

	if (length == 0 || base + length <= base)
		return NV_ERR_INVALID_ADDRESS;
	return uvm_managed_overlaps(space, base, base + length) ? NV_OK : NV_ERR_INVALID_ADDRESS;
}
