// SPDX-License-Identifier: GPL-2.0-only
/*
 * Duplicates of containers' memory that a part of the driver has made for itself: UVM for what it maps, often until long after
 * the container has freed the object; the export of dma-bufs for each buffer. The charge stays as long as the duplicate does.
 */
#include <linux/hashtable.h>
#include <linux/slab.h>

#include "probes/references.h"
#include "probes/task_call.h"

/* A container has at most as many as it has objects, and frees of all containers search it. */
#define BUCKETS_BITS 14

static DEFINE_HASHTABLE(references, BUCKETS_BITS);
static DEFINE_SPINLOCK(references_lock);

static struct km_reference *reference_find(const void *owner, u32 handle)
{
	struct km_reference *reference;

	hash_for_each_possible_rcu(references, reference, node, handle, lockdep_is_held(&references_lock)) {
		if (reference->owner == owner && reference->handle == handle && !READ_ONCE(reference->releasing))
			return reference;
	}
	return NULL;
}

bool km_reference_known(const void *owner, u32 handle)
{
	bool known;

	rcu_read_lock();
	known = reference_find(owner, handle) != NULL;
	rcu_read_unlock();
	return known;
}

void km_reference_add(struct km_reference *reference, const void *owner, u32 handle)
{
	reference->owner = owner;
	reference->handle = handle;
	spin_lock(&references_lock);
	hash_add_rcu(references, &reference->node, handle);
	spin_unlock(&references_lock);
}

struct km_reference *km_reference_release(const void *owner, u32 handle)
{
	struct km_reference *reference;

	spin_lock(&references_lock);
	reference = reference_find(owner, handle);
	/* From here on the probe lets the call through. */
	if (reference)
		WRITE_ONCE(reference->releasing, true);
	spin_unlock(&references_lock);
	return reference;
}

static void reference_drop(struct km_reference *reference)
{
	struct km_engine *engine = km_engine_get_surely();

	if (engine) {
		engine->logic->hold_drop(&engine->core, &reference->hold);
		engine->logic->hold_drop(&engine->core, &reference->also);
		km_engine_put(engine);
	}
	spin_lock(&references_lock);
	hash_del_rcu(&reference->node);
	spin_unlock(&references_lock);
	kfree_rcu(reference, rcu);
}

void km_reference_released(struct km_reference *reference, bool done)
{
	if (done)
		reference_drop(reference);
	else
		WRITE_ONCE(reference->releasing, false);
}

void km_references_clear(void)
{
	struct hlist_node *next;
	struct km_reference *reference;
	u32 bucket;

	hash_for_each_safe(references, bucket, next, reference, node) reference_drop(reference);
}

bool km_reference_wants(struct pt_regs *regs)
{
	struct km_identity identity;

	return !km_task_call_current() && km_identity_of_current(&identity);
}
NOKPROBE_SYMBOL(km_reference_wants);

static u32 run_contained(
	struct km_engine *engine, const struct km_identity *identity, const struct km_reference_call *what)
{
	struct cgpu_reference_request request = {
		.slot = identity->slot,
		.generation = identity->generation,
		.tgid = task_tgid_nr(current),
		.client = what->client,
		.handle = what->handle,
	};
	struct km_reference *reference = kzalloc(sizeof(*reference), GFP_KERNEL_ACCOUNT);
	struct km_order *order = km_order_get(identity->slot, identity->generation);
	u32 status = NV_ERR_NO_MEMORY;

	if (reference && order && mutex_lock_killable(&order->lock) == 0) {
		status = what->run_ordered(engine, &request, what->call, reference);
		mutex_unlock(&order->lock);
	} else {
		kfree(reference);
	}
	if (order)
		km_order_put(order);
	return status;
}

u32 km_reference_run(const struct km_reference_call *what)
{
	struct km_task_call *task_call = km_task_call_begin();
	struct km_engine *engine = task_call ? km_engine_get() : NULL;
	u32 status = NV_ERR_NO_MEMORY;
	struct km_identity identity;

	if (task_call && !km_identity_of_current(&identity))
		status = what->run(what->call);
	else if (engine)
		status = run_contained(engine, &identity, what);
	km_engine_put(engine);
	if (task_call)
		km_task_call_end(task_call);
	km_probe_leave();
	return status;
}

/* --- UVM --- */

struct dup_call {
	const void *device;
	u32 client, handle;
	u32 *dup;
	void *info;
};

KM_EXTERNAL(uvm_dup, u32(const void *, u32, u32, u32 *, void *));

static u32 uvm_run_dup(const void *of)
{
	const struct dup_call *call = of;

	return km_call(uvm_dup)(call->device, call->client, call->handle, call->dup, call->info);
}

KM_EXTERNAL(uvm_free, u32(const void *, u32));

/* The driver has made the duplicate: put it on record. */
static u32 uvm_keep(struct km_engine *engine, const struct dup_call *call, struct km_reference *reference)
{
	if (engine->logic->hold_confirm(&engine->core, &reference->hold)) {
		km_call(uvm_free)(call->device, *call->dup);
		engine->logic->hold_drop(&engine->core, &reference->hold);
		kfree(reference);
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	}
	km_reference_add(reference, call->device, *call->dup);
	return NV_OK;
}

/* An object without a record when it was judged may have one by now, or its client may have become another
 * container's. */
static u32 uvm_judge_again(struct km_engine *engine, struct cgpu_reference_request *request,
	const struct dup_call *call, struct km_reference *reference)
{
	if (engine->logic->hold_begin(&engine->core, request, &reference->hold) == 0)
		return NV_OK;
	km_call(uvm_free)(call->device, *call->dup);
	return NV_ERR_INSUFFICIENT_PERMISSIONS;
}

static u32 uvm_dup_ordered(struct km_engine *engine, struct cgpu_reference_request *request, const void *call,
	struct km_reference *reference)
{
	int err = engine->logic->hold_begin(&engine->core, request, &reference->hold);
	u32 status;

	if (err == 0)
		status = uvm_run_dup(call);
	else
		status = err == -ENOSPC ? NV_ERR_INSUFFICIENT_RESOURCES : NV_ERR_INSUFFICIENT_PERMISSIONS;
	if (err == 0 && status == NV_OK && !reference->hold.serial)
		status = uvm_judge_again(engine, request, call, reference);
	if (err == 0 && status == NV_OK && reference->hold.serial)
		return uvm_keep(engine, call, reference);
	engine->logic->hold_drop(&engine->core, &reference->hold);
	kfree(reference);
	return status;
}

/* nvUvmInterfaceDupMemory() */
static u32 uvm_dup_memory(const void *device, u32 client, u32 handle, u32 *duplicate, void *info)
{
	const struct dup_call call = { device, client, handle, duplicate, info };
	const struct km_reference_call what = { client, handle, &call, uvm_run_dup, uvm_dup_ordered };

	return km_reference_run(&what);
}

static bool uvm_free_wants(struct pt_regs *regs)
{
	return km_reference_known(
		(const void *)regs_get_kernel_argument(regs, 0), (u32)regs_get_kernel_argument(regs, 1));
}
NOKPROBE_SYMBOL(uvm_free_wants);

/* nvUvmInterfaceFreeDupedHandle(), from whatever thread UVM does it */
static u32 uvm_free_duped(const void *device, u32 handle)
{
	struct km_reference *reference = km_reference_release(device, handle);
	u32 status = km_call(uvm_free)(device, handle);

	if (reference)
		km_reference_released(reference, status == NV_OK);
	km_probe_leave();
	return status;
}

KM_PROBE_AROUND(uvm_dup, "nvidia", "nvUvmInterfaceDupMemory", uvm_dup_memory, km_reference_wants);
KM_PROBE_AROUND(uvm_free, "nvidia", "nvUvmInterfaceFreeDupedHandle", uvm_free_duped, uvm_free_wants);
