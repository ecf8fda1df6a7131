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

/* What one mmap has got, under its space's lock; after a split several ranges share it. */
struct managed {
	struct kref refs;
	struct uvm_va_space *space;
	/* Whose mapping it is; only compared. */
	const struct mm_struct *mm;
	u64 start;
	u64 end;
	struct xarray chunks;
	struct xarray pages;
};

struct managed_range {
	struct uvm_va_range range;
	struct managed *managed;
	struct uvm_vma_wrapper *wrapper;
};

static struct managed_range *managed_of(struct uvm_va_range *range)
{
	return container_of(range, struct managed_range, range);
}

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
}

static void destroy(struct kref *refs)
{
	struct managed *managed = container_of(refs, struct managed, refs);

	give_back(managed, managed->start, managed->end);
	xa_destroy(&managed->chunks);
	xa_destroy(&managed->pages);
	kfree(managed);
}

/* The first registered card gives the memory; without one it is the host's alone. */
static struct uvm_gpu *gpu_for(struct uvm_va_space *space)
{
	struct uvm_gpu *gpu = NULL;
	unsigned int i;

	for (i = 0; i < UVM_MAX_CARDS && !gpu; i++)
		gpu = space->gpus[i];
	if (gpu)
		uvm_gpu_hold(gpu);
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
	struct uvm_vma_wrapper *wrapper = vmf->vma->vm_private_data;
	struct managed *managed = managed_of(wrapper->range)->managed;
	struct page *page;

	mutex_lock(&managed->space->lock);
	page = page_at(managed, vmf->address);
	if (page)
		get_page(page);
	mutex_unlock(&managed->space->lock);
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

static void disable(struct vm_area_struct *vma)
{
	vma->vm_ops = &uvm_vm_ops_disabled;
	vma->vm_private_data = NULL;
}

static void wrapper_ties(struct uvm_vma_wrapper *wrapper, struct uvm_va_range *range)
{
	wrapper->range = range;
	managed_of(range)->wrapper = wrapper;
}

/* One vma becomes two: each gets a range. The new one is the upper or the lower half of what the old one was. */
static bool split_vma_range(struct uvm_vma_wrapper *old, struct vm_area_struct *vma)
{
	struct uvm_vma_wrapper *wrapper = kzalloc(sizeof(*wrapper), GFP_KERNEL);
	struct uvm_va_range *lower = old->range, *upper;
	bool is_lower = vma->vm_start == lower->node.start;

	if (!wrapper)
		return false;
	if (uvm_va_range_split(lower, is_lower ? vma->vm_end - 1 : vma->vm_start - 1, &upper) != NV_OK) {
		kfree(wrapper);
		return false;
	}
	wrapper->vma = vma;
	wrapper_ties(wrapper, is_lower ? lower : upper);
	wrapper_ties(old, is_lower ? upper : lower);
	vma->vm_private_data = wrapper;
	return true;
}

/* A split, or a fork after MADV_DOFORK: the child's copy is of no use (uvm_vm_open_managed in the driver). */
static void uvm_vm_open_managed_entry(struct vm_area_struct *vma)
{
	struct uvm_vma_wrapper *old = vma->vm_private_data;
	struct uvm_va_space *space = old->range->va_space;
	struct vm_area_struct *original = old->vma;

	if (vma->vm_mm != managed_of(old->range)->managed->mm) {
		disable(vma);
		return;
	}
	mutex_lock(&space->lock);
	if (!split_vma_range(old, vma)) {
		uvm_va_range_destroy(old->range, NULL);
		kfree(old);
		disable(original);
		disable(vma);
	}
	mutex_unlock(&space->lock);
}

static void uvm_vm_close_managed_entry(struct vm_area_struct *vma)
{
	struct uvm_vma_wrapper *wrapper = vma->vm_private_data;
	struct uvm_va_space *space = wrapper->range->va_space;

	mutex_lock(&space->lock);
	uvm_va_range_destroy(wrapper->range, NULL);
	mutex_unlock(&space->lock);
	kfree(wrapper);
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

static void set_flags(struct vm_area_struct *vma)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTCOPY);
#else
	vma->vm_flags |= VM_DONTEXPAND | VM_DONTCOPY;
#endif
}

void uvm_managed_destroy(struct uvm_va_range *range)
{
	struct managed_range *own = managed_of(range);

	/* Of one that found its place taken there is nothing yet. */
	if (own->managed) {
		give_back(own->managed, range->node.start, range->node.end + 1);
		kref_put(&own->managed->refs, destroy);
	}
	kfree(own);
}

static struct managed *managed_make(struct uvm_va_space *space, const struct vm_area_struct *vma)
{
	struct managed *managed = kzalloc(sizeof(*managed), GFP_KERNEL);

	if (!managed)
		return NULL;
	kref_init(&managed->refs);
	xa_init(&managed->chunks);
	xa_init(&managed->pages);
	managed->space = space;
	managed->mm = vma->vm_mm;
	managed->start = vma->vm_start;
	managed->end = vma->vm_end;
	return managed;
}

noinline __noclone u32 uvm_va_range_create_mmap(struct uvm_va_space *va_space, struct mm_struct *mm,
	struct uvm_vma_wrapper *vma_wrapper, struct uvm_va_range **out_va_range)
{
	struct managed_range *own = kzalloc(sizeof(*own), GFP_KERNEL);
	const struct vm_area_struct *vma = vma_wrapper->vma;
	u32 status;

	if (!own)
		return NV_ERR_NO_MEMORY;
	uvm_va_range_init(&own->range, va_space, vma->vm_start, vma->vm_end - 1, UVM_VA_RANGE_TYPE_MANAGED);
	own->managed = managed_make(va_space, vma);
	status = own->managed ? uvm_va_range_add(&own->range) : NV_ERR_NO_MEMORY;
	if (status != NV_OK) {
		uvm_va_range_destroy(&own->range, NULL);
		return status;
	}
	wrapper_ties(vma_wrapper, &own->range);
	if (out_va_range)
		*out_va_range = &own->range;
	return NV_OK;
}

/* The existing range keeps the lower part, and ends there. */
noinline u32 uvm_va_range_split(struct uvm_va_range *existing, u64 new_end, struct uvm_va_range **new_va_range)
{
	struct managed_range *upper = kzalloc(sizeof(*upper), GFP_KERNEL);

	if (!upper)
		return NV_ERR_NO_MEMORY;
	uvm_va_range_init(
		&upper->range, existing->va_space, new_end + 1, existing->node.end, UVM_VA_RANGE_TYPE_MANAGED);
	upper->managed = managed_of(existing)->managed;
	kref_get(&upper->managed->refs);
	existing->node.end = new_end;
	WARN_ON(uvm_va_range_add(&upper->range) != NV_OK);
	*new_va_range = &upper->range;
	return NV_OK;
}

/* What is there already and waits to be mapped. */
static int map_existing(struct uvm_va_space *space, struct vm_area_struct *vma)
{
	struct uvm_va_range *range = uvm_va_range_find(space, vma->vm_start);

	if (!range || range->type != UVM_VA_RANGE_TYPE_SEMAPHORE_POOL || range->node.start != vma->vm_start ||
		range->node.end + 1 != vma->vm_end)
		return -EADDRINUSE;
	return uvm_semaphore_pool_map(range, vma);
}

int uvm_managed_mmap(struct uvm_va_space *space, struct vm_area_struct *vma)
{
	struct uvm_vma_wrapper *wrapper = kzalloc(sizeof(*wrapper), GFP_KERNEL);
	int result = 0;
	u32 status;

	if (!wrapper)
		return -ENOMEM;
	wrapper->vma = vma;
	mutex_lock(&space->lock);
	status = uvm_va_range_create_mmap(space, current->mm, wrapper, NULL);
	if (status == NV_ERR_UVM_ADDRESS_IN_USE)
		result = map_existing(space, vma);
	else if (status != NV_OK)
		result = status == NV_ERR_NO_MEMORY ? -ENOMEM : -EPERM;
	mutex_unlock(&space->lock);
	if (status != NV_OK) {
		kfree(wrapper);
		return result;
	}
	set_flags(vma);
	vma->vm_ops = &uvm_vm_ops_managed;
	vma->vm_private_data = wrapper;
	return 0;
}

u32 uvm_api_validate_va_range(struct uvm_va_space *space, u8 *params)
{
	const struct nv_layout_UVM_VALIDATE_VA_RANGE_PARAMS *at = &fake_abi()->UVM_VALIDATE_VA_RANGE_PARAMS;
	u64 base = get64(params, at->base), length = get64(params, at->length);
	const struct uvm_va_range *range;

	if (length == 0 || base + length <= base)
		return NV_ERR_INVALID_ADDRESS;
	range = uvm_va_range_find(space, base);
	return range && range->type == UVM_VA_RANGE_TYPE_MANAGED ? NV_OK : NV_ERR_INVALID_ADDRESS;
}
