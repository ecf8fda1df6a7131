// SPDX-License-Identifier: GPL-2.0
/*
 * What UVM keeps. To map a container's memory it makes a duplicate of its own, and lets go of that much later, often
 * after the container has freed what it had. The charge stays as long as the duplicate does.
 */
#include <linux/slab.h>

#include "km.h"

static bool uvm_dup_wants(struct pt_regs *regs)
{
	struct km_identity identity;

	return !km_record_current() && km_identity_of_current(&identity);
}
NOKPROBE_SYMBOL(uvm_dup_wants);

struct dup_call {
	const void *device;
	u32 client, handle;
	u32 *dup;
	void *info;
};

static __nocfi u32 uvm_run_dup(const struct dup_call *call)
{
	u32 (*original)(const void *, u32, u32, u32 *, void *) = (void *)km_probe_uvm_dup.original;

	return original(call->device, call->client, call->handle, call->dup, call->info);
}

static __nocfi u32 uvm_run_free(const void *device, u32 handle)
{
	u32 (*original)(const void *, u32) = (void *)km_probe_uvm_free.original;

	return original(device, handle);
}

/* The driver has made the duplicate: put it on record. */
static u32 uvm_keep(struct km_engine *engine, const struct dup_call *call, struct km_kept *kept)
{
	if (engine->logic->hold_confirm(&engine->core, &kept->hold)) {
		uvm_run_free(call->device, *call->dup);
		kfree(kept);
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	}
	km_kept_add(kept, call->device, *call->dup);
	return NV_OK;
}

static u32 uvm_dup_ordered(struct km_engine *engine, const struct cgpu_hold_request *request,
	const struct dup_call *call, struct km_kept *kept)
{
	int err = engine->logic->hold_begin(&engine->core, request, &kept->hold);
	u32 status;

	if (err == 0)
		status = uvm_run_dup(call);
	else
		status = err == -ENOSPC ? NV_ERR_INSUFFICIENT_RESOURCES : NV_ERR_INSUFFICIENT_PERMISSIONS;
	if (err == 0 && status == NV_OK && kept->hold.serial)
		return uvm_keep(engine, call, kept);
	engine->logic->hold_drop(&engine->core, &kept->hold);
	kfree(kept);
	return status;
}

static u32 uvm_dup_contained(struct km_engine *engine, const struct km_identity *identity, const struct dup_call *call)
{
	struct cgpu_hold_request request = {
		.slot = identity->slot,
		.generation = identity->generation,
		.tgid = task_tgid_nr(current),
		.client = call->client,
		.handle = call->handle,
	};
	struct km_kept *kept = kzalloc(sizeof(*kept), GFP_KERNEL_ACCOUNT);
	struct km_order *order = km_order_get(identity->slot, identity->generation);
	u32 status = NV_ERR_NO_MEMORY;

	if (kept && order && mutex_lock_killable(&order->lock) == 0) {
		status = uvm_dup_ordered(engine, &request, call, kept);
		mutex_unlock(&order->lock);
	} else {
		kfree(kept);
	}
	if (order)
		km_order_put(order);
	return status;
}

/* nvUvmInterfaceDupMemory() */
static u32 uvm_dup_memory(const void *device, u32 client, u32 handle, u32 *duplicate, void *info)
{
	const struct dup_call call = { device, client, handle, duplicate, info };
	struct km_record *record = km_record_begin();
	struct km_engine *engine = record ? km_engine_get() : NULL;
	u32 status = NV_ERR_NO_MEMORY;
	struct km_identity identity;

	if (record && !km_identity_of_current(&identity))
		status = uvm_run_dup(&call);
	else if (engine)
		status = uvm_dup_contained(engine, &identity, &call);
	if (engine)
		km_engine_put(engine);
	if (record)
		km_record_end(record);
	km_probe_leave();
	return status;
}

static bool uvm_free_wants(struct pt_regs *regs)
{
	return km_kept_known((const void *)regs_get_kernel_argument(regs, 0), (u32)regs_get_kernel_argument(regs, 1));
}
NOKPROBE_SYMBOL(uvm_free_wants);

/* nvUvmInterfaceFreeDupedHandle(), from whatever thread UVM does it */
static u32 uvm_free_duped(const void *device, u32 handle)
{
	struct km_kept *kept = km_kept_release(device, handle);
	u32 status = uvm_run_free(device, handle);

	if (kept)
		km_kept_released(kept, status == NV_OK);
	km_probe_leave();
	return status;
}

struct km_probe km_probe_uvm_dup = {
	.module = "nvidia",
	.symbol = "nvUvmInterfaceDupMemory",
	.replacement = uvm_dup_memory,
	.wants = uvm_dup_wants,
};

struct km_probe km_probe_uvm_free = {
	.module = "nvidia",
	.symbol = "nvUvmInterfaceFreeDupedHandle",
	.replacement = uvm_free_duped,
	.wants = uvm_free_wants,
};
