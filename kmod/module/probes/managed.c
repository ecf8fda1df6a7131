// SPDX-License-Identifier: GPL-2.0-only
/*
 * UVM's managed memory: a mapping of its node, for which UVM takes memory of the cards by itself, in pieces of 2 MiB,
 * when it is touched. It can go to each of the container's cards, so its whole length is charged on each of them from
 * its first moment on, until UVM has taken its range apart.
 */
#include <linux/rbtree.h>
#include <linux/slab.h>

#include "probes/task_call.h"
#include "probes/live.h"

/* First fields of uvm_va_range_t (uvm_va_range.h, uvm_range_tree.h), in all public versions from 515 to 595. */
struct uvm_range {
	const void *va_space;
	u64 start, end; /* the last byte */
	struct rb_node node; /* cleared until it has its place in the address space */
};

/* One mapping. Its live parts are in the tree; parts that could not be followed are lost. */
struct managed {
	struct live_mapping live;
	struct list_head lost; /* once a part of it is */
	u32 holds;
	struct cgpu_reference hold[];
};

static struct rb_root managed_tree = RB_ROOT;
static LIST_HEAD(managed_lost);
/* Protects tree and list. UVM's lock on an address space keeps the parts in that as they are. */
static DEFINE_SPINLOCK(managed_lock);
static atomic_t managed_count;

static void managed_drop(struct managed *managed)
{
	struct km_engine *engine = km_engine_get_surely();
	u32 i;

	for (i = 0; engine && i < managed->holds; i++)
		engine->logic->hold_drop(&engine->core, &managed->hold[i]);
	km_engine_put(engine);
	atomic_dec(&managed_count);
	kfree(managed);
}

/* Charge a mapping on each of the container's cards, or on none. */
static u32 charge(struct km_engine *engine, struct cgpu_reference_request *request, u32 gpus, struct managed *managed)
{
	int err = 0;

	for (request->gpu = 0; request->gpu < CGPU_MAX_GPUS && err == 0; request->gpu++) {
		if (!(gpus >> request->gpu & 1))
			continue;
		err = engine->logic->hold_charge(&engine->core, request, &managed->hold[managed->holds]);
		managed->holds += err == 0;
	}
	if (err == 0)
		return NV_OK;
	while (managed->holds > 0)
		engine->logic->hold_drop(&engine->core, &managed->hold[--managed->holds]);
	return err == -ENOMEM ? NV_ERR_NO_MEMORY : NV_ERR_INSUFFICIENT_RESOURCES;
}

/* Put a mapping that is charged on record. */
static u32 managed_add(struct managed *managed, struct live_part *part)
{
	bool added;

	atomic_inc(&managed_count);
	spin_lock(&managed_lock);
	added = live_add(&managed_tree, &managed->live, part);
	spin_unlock(&managed_lock);
	if (added)
		return NV_OK;
	/* A range that was there went by its probe: what became of it is not known. */
	managed_drop(managed);
	kfree(part);
	return NV_ERR_INSUFFICIENT_RESOURCES;
}

static u32 managed_begin(struct km_engine *engine, const struct km_identity *identity, const struct uvm_range *range)
{
	struct cgpu_reference_request request = {
		.slot = identity->slot,
		.generation = identity->generation,
		.tgid = task_tgid_nr(current),
		.bytes = live_chunk_bytes(range->start, range->end),
	};
	u32 gpus = engine->logic->container_gpus(&engine->core, identity->slot, identity->generation);
	struct managed *managed = kzalloc(struct_size(managed, hold, hweight32(gpus)), GFP_KERNEL_ACCOUNT);
	struct live_part *part = kzalloc(sizeof(*part), GFP_KERNEL_ACCOUNT);
	u32 status = NV_ERR_NO_MEMORY;

	if (part && managed) {
		part->start = range->start;
		part->end = range->end;
		managed->live.va_space = range->va_space;
		INIT_LIST_HEAD(&managed->lost);
		status = gpus ? charge(engine, &request, gpus, managed) : NV_ERR_INSUFFICIENT_PERMISSIONS;
	}
	if (status == NV_OK)
		return managed_add(managed, part);
	kfree(managed);
	kfree(part);
	return status;
}

static u32 managed_judge(const struct km_identity *identity, const struct uvm_range *range)
{
	struct km_engine *engine;
	u32 status;

	if (!km_managed_memory() && km_enforce)
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	engine = km_engine_get();
	if (!engine)
		return NV_ERR_INSUFFICIENT_RESOURCES;
	status = managed_begin(engine, identity, range);
	km_engine_put(engine);
	return km_enforce ? status : NV_OK;
}

KM_EXTERNAL(managed_create, u32(void *, void *, void *, const struct uvm_range **));
KM_EXTERNAL(managed_destroy, void(const struct uvm_range *, void *));

/* UVM holds its lock on the address space all the time: the range cannot be used before it is judged. */
static u32 managed_make(void *va_space, void *mm, void *wrapper, const struct uvm_range **out)
{
	const struct uvm_range *made = NULL;
	struct km_identity identity;
	u32 status = km_call(managed_create)(va_space, mm, wrapper, &made);

	if (status != NV_OK)
		return status;
	if (km_identity_of_current(&identity))
		status = managed_judge(&identity, made);
	if (status != NV_OK)
		km_call(managed_destroy)(made, NULL);
	else if (out)
		*out = made;
	return status;
}

/* uvm_va_range_create_mmap(). It fails where a range is at that place already and waits to be mapped, as those of
 * CUDA's semaphores do; UVM then maps that range. */
static u32 managed_create(void *va_space, void *mm, void *wrapper, const struct uvm_range **out)
{
	struct km_task_call *task_call = km_task_call_begin();
	u32 status = NV_ERR_NO_MEMORY;

	if (task_call) {
		status = managed_make(va_space, mm, wrapper, out);
		km_task_call_end(task_call);
	}
	km_probe_leave();
	return status;
}

static void managed_shrink(const struct managed *managed, u64 bytes)
{
	struct km_engine *engine = km_engine_get_surely();
	u32 i;

	for (i = 0; engine && i < managed->holds; i++)
		engine->logic->hold_shrink(&engine->core, &managed->hold[i], bytes);
	km_engine_put(engine);
}

/* Take a piece off the live parts. Returns the piece's mapping, with last set when nothing of that is left; NULL: it
 * had none, as a range that was put into a hole of a mapping. */
static struct managed *managed_take(const void *va_space, u64 start, u64 end, bool *last)
{
	struct live_part *part, *spare = NULL;
	struct managed *managed;

	spin_lock(&managed_lock);
	part = live_find(&managed_tree, va_space, start, end);
	spin_unlock(&managed_lock);
	if (!part)
		return NULL;
	managed = container_of(part->of, struct managed, live);
	if (live_splits(part, start, end))
		spare = kmalloc(sizeof(*spare), GFP_KERNEL_ACCOUNT);
	spin_lock(&managed_lock);
	part = live_take(&managed_tree, part, start, end, spare);
	if (managed->live.lost && list_empty(&managed->lost))
		list_add(&managed->lost, &managed_lost);
	*last = managed->live.parts == 0 && !managed->live.lost;
	spin_unlock(&managed_lock);
	kfree(part);
	return managed;
}

static void managed_part_gone(const void *va_space, u64 start, u64 end)
{
	bool last = false;
	struct managed *managed = managed_take(va_space, start, end, &last);
	u64 bytes = live_chunk_bytes_inside(start, end);

	if (managed && last)
		managed_drop(managed);
	else if (managed && bytes)
		managed_shrink(managed, bytes);
}

static bool managed_destroy_wants(struct pt_regs *regs)
{
	const struct km_task_call *task_call;

	if (!atomic_read(&managed_count))
		return false;
	task_call = km_task_call_current();
	return !task_call || READ_ONCE(task_call->ends_va_space);
}
NOKPROBE_SYMBOL(managed_destroy_wants);

/*
 * uvm_va_range_destroy(), in whatever task or thread. UVM's lock keeps the address space, and so the mapping while a
 * part of it is worked on. A range that never got its place is no part of a mapping.
 */
static void managed_destroy(const struct uvm_range *range, void *deferred)
{
	bool placed = !RB_EMPTY_NODE(&range->node);
	const void *va_space = range->va_space;
	u64 start = range->start, end = range->end;
	/* With it the probe lets our own call through. */
	struct km_task_call *task_call = km_task_call_begin_surely();

	km_call(managed_destroy)(range, deferred);
	if (placed)
		managed_part_gone(va_space, start, end);
	km_task_call_end(task_call);
	km_probe_leave();
}

/* Remove a mapping of an address space, or of any for NULL, from what is known, and return it. */
static struct managed *managed_left(const void *va_space)
{
	struct managed *managed;
	struct live_part *part;

	lockdep_assert_held(&managed_lock);
	while ((part = live_any(&managed_tree, va_space))) {
		managed = container_of(part->of, struct managed, live);
		kfree(live_take(&managed_tree, part, part->start, part->end, NULL));
		/* Mappings with lost parts are on the list. */
		if (!managed->live.parts && !managed->live.lost)
			return managed;
	}
	list_for_each_entry(managed, &managed_lost, lost) {
		if (va_space && managed->live.va_space != va_space)
			continue;
		list_del(&managed->lost);
		return managed;
	}
	return NULL;
}

/* The address space has no range any more: lost parts of its mappings have ended, too. */
static void managed_space_ended(const void *va_space)
{
	struct managed *managed;

	do {
		spin_lock(&managed_lock);
		managed = managed_left(va_space);
		spin_unlock(&managed_lock);
		if (managed)
			managed_drop(managed);
	} while (managed);
}

static bool managed_space_wants(struct pt_regs *regs)
{
	return atomic_read(&managed_count) && !km_task_call_current();
}
NOKPROBE_SYMBOL(managed_space_wants);

KM_EXTERNAL(managed_space, void(const void *));

/* uvm_va_space_destroy(), in whatever task or thread. It has its ranges destroyed, which that probe sees. */
static void managed_space_destroy(const void *va_space)
{
	struct km_task_call *task_call = km_task_call_begin_surely();

	WRITE_ONCE(task_call->ends_va_space, true);
	km_call(managed_space)(va_space);
	managed_space_ended(va_space);
	km_task_call_end(task_call);
	km_probe_leave();
}

void km_managed_clear(void)
{
	managed_space_ended(NULL);
}

KM_PROBE_AROUND(managed_create, "nvidia_uvm", "uvm_va_range_create_mmap", managed_create, km_wants_container);
KM_PROBE_AROUND(managed_destroy, "nvidia_uvm", "uvm_va_range_destroy", managed_destroy, managed_destroy_wants);
KM_PROBE_AROUND(managed_space, "nvidia_uvm", "uvm_va_space_destroy", managed_space_destroy, managed_space_wants);
