// SPDX-License-Identifier: GPL-2.0-only
/*
 * Exports of memory as dma-bufs, which do not pass the driver's ioctl. The driver makes a duplicate of each object in a
 * client of its own, and frees it with the buffer, in whatever task that is (kernel-open/nvidia/nv-dmabuf.c). Both go
 * through one function per object, and the charge stays from the one to the other.
 */
#include <linux/slab.h>

#include "driver/driver.h"
#include "fields.h"
#include "probes/references.h"
#include "probes/task_call.h"

/* State of an export that is under way. */
struct km_exporting {
	struct km_engine *engine;
	struct cgpu_reference_request request;
	u32 duplicates;
};

static const void *owner_of(u64 client)
{
	return (const void *)(unsigned long)(u32)client;
}

static bool dup_wants(struct pt_regs *regs)
{
	const struct km_task_call *task_call = km_task_call_current();

	return task_call && task_call->exporting;
}
NOKPROBE_SYMBOL(dup_wants);

/* Only memory that the ledger has as this container's is exported. */
static u32 hold(struct km_exporting *exporting, struct cgpu_reference *held)
{
	struct km_engine *engine = exporting->engine;
	int err = engine->logic->hold_begin(&engine->core, &exporting->request, held);

	if (err == 0 && held->serial == 0)
		return km_enforce ? NV_ERR_NOT_SUPPORTED : NV_OK;
	/* From here on it does not pass to another owner if the container is removed. */
	if (err == 0)
		err = engine->logic->hold_confirm(&engine->core, held);
	if (err == 0)
		return NV_OK;
	return err == -ENOSPC ? NV_ERR_INSUFFICIENT_RESOURCES : NV_ERR_INSUFFICIENT_PERMISSIONS;
}

KM_EXTERNAL(
	dma_buf_dup, u32(void *, void *, u64, u64, u64, u64, void *, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64));

/*
 * rm_dma_buf_dup_mem_handle(). Its first ten arguments are the same in all versions. Then comes the place of the
 * duplicate's handle, in some after the kind of mapping, and up to five more. A version that lacks an argument ignores
 * the value in its place.
 */
static u32 dup_mem_handle(void *sp, void *nv, u64 source, u64 target, u64 device, u64 subdevice, void *instance,
	u64 handle, u64 offset, u64 size, u64 more1, u64 more2, u64 more3, u64 more4, u64 more5, u64 more6, u64 more7)
{
	struct km_task_call *task_call = km_task_call_current();
	struct km_exporting *exporting = task_call->exporting;
	bool mapping = exporting->engine->core.abi->dma_buf_dup_names_mapping;
	const u32 *duplicate = (const u32 *)(unsigned long)(mapping ? more2 : more1);
	struct km_reference *reference = kzalloc(sizeof(*reference), GFP_KERNEL_ACCOUNT);
	u32 status = NV_ERR_NO_MEMORY;

	exporting->request.client = (u32)source;
	exporting->request.handle = (u32)handle;
	if (reference)
		status = hold(exporting, &reference->hold);
	if (status == NV_OK) {
		/* The probe lets this one through. */
		task_call->exporting = NULL;
		status = km_call(dma_buf_dup)(sp, nv, source, target, device, subdevice, instance, handle, offset, size,
			more1, more2, more3, more4, more5, more6, more7);
		task_call->exporting = exporting;
		exporting->duplicates += status == NV_OK;
	}
	if (status == NV_OK && reference->hold.serial) {
		km_reference_add(reference, owner_of(target), *duplicate);
	} else if (reference) {
		exporting->engine->logic->hold_drop(&exporting->engine->core, &reference->hold);
		kfree(reference);
	}
	km_probe_leave();
	return status;
}

static bool undup_wants(struct pt_regs *regs)
{
	return km_reference_known(owner_of(regs_get_kernel_argument(regs, 2)), (u32)regs_get_kernel_argument(regs, 3));
}
NOKPROBE_SYMBOL(undup_wants);

KM_EXTERNAL(dma_buf_undup, void(void *, void *, u32, u32));

/* rm_dma_buf_undup_mem_handle() */
static void undup_mem_handle(void *sp, void *nv, u32 client, u32 handle)
{
	struct km_reference *reference = km_reference_release(owner_of(client), handle);

	km_call(dma_buf_undup)(sp, nv, client, handle);
	if (reference)
		km_reference_released(reference, true);
	km_probe_leave();
}

KM_EXTERNAL(dma_buf, u32(void *, void *));

/*
 * Only buffers that are whole from the start: of one with gaps the driver forgets the last duplicates when it is closed,
 * and that memory is lost. Some versions forget one, too, when they refuse a mix of objects.
 */
static bool export_is_whole(const struct nv_abi *abi, const u8 *params)
{
	const struct nv_layout_nv_ioctl_export_to_dma_buf_fd_t *at = &abi->nv_ioctl_export_to_dma_buf_fd_t;
	u32 count = get32(params, at->numObjects);

	if (get32(params, at->fd) != U32_MAX || get32(params, at->index) != 0 ||
		get32(params, at->totalObjects) != count)
		return false;
	return count <= 1 || !abi->dma_buf_mix_leaks;
}

/* With the order held. */
static u32 export_ordered(struct km_task_call *task_call, struct km_exporting *exporting, void *nv, void *params)
{
	const struct nv_abi *abi = exporting->engine->core.abi;
	u32 count = get32(params, abi->nv_ioctl_export_to_dma_buf_fd_t.numObjects);
	u32 status;

	task_call->exporting = exporting;
	status = km_call(dma_buf)(nv, params);
	task_call->exporting = NULL;
	if (status != NV_OK || exporting->duplicates == count)
		return status;
	km_driver_distrust(km_probe_dma_buf_dup.symbol);
	return km_enforce ? NV_ERR_INVALID_STATE : status;
}

static u32 export_contained(struct km_task_call *task_call, const struct km_identity *identity, void *nv, void *params)
{
	struct km_exporting exporting = {
		.engine = km_engine_get(),
		.request = {
			.slot = identity->slot,
			.generation = identity->generation,
			.tgid = task_tgid_nr(current),
		},
	};
	const struct nv_abi *abi = exporting.engine ? exporting.engine->core.abi : NULL;
	bool counted = km_probe_dma_buf_dup.attached && km_probe_dma_buf_undup.attached;
	struct km_order *order = NULL;
	u32 status = NV_ERR_INSUFFICIENT_PERMISSIONS;

	if (abi && km_enforce && (!counted || !export_is_whole(abi, params)))
		status = NV_ERR_NOT_SUPPORTED;
	else if (abi && counted)
		order = km_order_get(identity->slot, identity->generation);
	else if (!km_enforce)
		status = km_call(dma_buf)(nv, params);
	if (order && mutex_lock_killable(&order->lock) == 0) {
		status = export_ordered(task_call, &exporting, nv, params);
		mutex_unlock(&order->lock);
	}
	if (order)
		km_order_put(order);
	km_engine_put(exporting.engine);
	return status;
}

static u32 export_recorded(struct km_task_call *task_call, void *nv, void *params)
{
	struct km_identity identity;

	if (!km_identity_of_current(&identity))
		return km_call(dma_buf)(nv, params);
	if (km_driver_bypassed() && km_enforce)
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	return export_contained(task_call, &identity, nv, params);
}

/* nv_dma_buf_export(): the structure is in the kernel's memory already. */
static u32 dma_buf_export_call(void *nv, void *params)
{
	struct km_task_call *task_call = km_task_call_begin();
	u32 status = NV_ERR_NO_MEMORY;

	if (task_call) {
		status = export_recorded(task_call, nv, params);
		km_task_call_end(task_call);
	}
	km_probe_leave();
	return status;
}

KM_PROBE_AROUND(dma_buf, "nvidia", "nv_dma_buf_export", dma_buf_export_call, km_wants_container, .optional = true);

/* Without these two nothing is exported in a container. */
KM_PROBE_AROUND(dma_buf_dup, "nvidia", "rm_dma_buf_dup_mem_handle", dup_mem_handle, dup_wants, .optional = true);
KM_PROBE_AROUND(
	dma_buf_undup, "nvidia", "rm_dma_buf_undup_mem_handle", undup_mem_handle, undup_wants, .optional = true);
