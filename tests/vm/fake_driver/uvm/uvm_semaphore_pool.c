// SPDX-License-Identifier: GPL-2.0
/* Pools of semaphores: memory of the host that CUDA shares with the cards. Made by a call, mapped by mmap afterwards. */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "uvm.h"

struct semaphore_pool {
	struct uvm_va_range range;
	void *memory;
};

static struct semaphore_pool *pool_of(struct uvm_va_range *range)
{
	return container_of(range, struct semaphore_pool, range);
}

void uvm_semaphore_pool_destroy(struct uvm_va_range *range)
{
	struct semaphore_pool *pool = pool_of(range);

	vfree(pool->memory);
	kfree(pool);
}

u32 uvm_api_alloc_semaphore_pool(struct uvm_va_space *space, u8 *params)
{
	const struct nv_layout_UVM_ALLOC_SEMAPHORE_POOL_PARAMS *at = &fake_abi()->UVM_ALLOC_SEMAPHORE_POOL_PARAMS;
	u64 base = get64(params, at->base), length = get64(params, at->length);
	struct semaphore_pool *pool;
	u32 status;

	if (!uvm_span_is_valid(base, length))
		return NV_ERR_INVALID_ADDRESS;
	pool = kzalloc(sizeof(*pool), GFP_KERNEL);
	if (!pool)
		return NV_ERR_NO_MEMORY;
	uvm_va_range_init(&pool->range, space, base, base + length - 1, UVM_VA_RANGE_TYPE_SEMAPHORE_POOL);
	pool->memory = vmalloc_user(length);
	status = pool->memory ? uvm_va_range_add(&pool->range) : NV_ERR_NO_MEMORY;
	if (status != NV_OK)
		uvm_va_range_destroy(&pool->range, NULL);
	return status;
}

int uvm_semaphore_pool_map(struct uvm_va_range *range, struct vm_area_struct *vma)
{
	return remap_vmalloc_range(vma, pool_of(range)->memory, 0);
}
