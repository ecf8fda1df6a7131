// SPDX-License-Identifier: GPL-2.0
/*
 * UVM's managed memory: a mapping of its node, for which UVM takes memory of the cards by itself, in pieces of 2 MiB,
 * when it is touched. It can go to each of the container's cards, so its whole length is charged on each of them from
 * its first moment on, until UVM has taken its range apart.
 */
#include <linux/rbtree.h>
#include <linux/slab.h>

#include "km.h"

#define CHUNK_BYTES (2ull << 20) /* UVM_CHUNK_SIZE_MAX, kernel-open/nvidia-uvm/uvm_pmm_gpu.h */

/* How uvm_va_range_t begins (uvm_va_range.h, uvm_range_tree.h), in all public versions from 515 to 595. */
struct uvm_range {
	const void *space;
	u64 start, end; /* the last byte */
	struct rb_node node; /* cleared until it has its place in the address space */
};

/* One mapping. A part of it that goes may be a range of its own by then. */
struct managed {
	struct rb_node node;
	const void *space;
	u64 start, end; /* the last byte */
	u64 left; /* bytes of it that are still there */
	u32 holds;
	struct cgpu_hold hold[];
};

static struct rb_root managed_tree = RB_ROOT;
static DEFINE_SPINLOCK(managed_lock);
static atomic_t managed_count;

/* By address space, and in it by place. */
static bool lies_before(const void *space, u64 start, const struct managed *managed)
{
	return space != managed->space ? space < managed->space : start < managed->start;
}

static void managed_add(struct managed *managed)
{
	struct rb_node **at = &managed_tree.rb_node, *above = NULL;
	const struct managed *other;

	spin_lock(&managed_lock);
	while (*at) {
		above = *at;
		other = rb_entry(above, struct managed, node);
		at = lies_before(managed->space, managed->start, other) ? &above->rb_left : &above->rb_right;
	}
	rb_link_node(&managed->node, above, at);
	rb_insert_color(&managed->node, &managed_tree);
	atomic_inc(&managed_count);
	spin_unlock(&managed_lock);
}

/* The mapping that a part of an address space is of; NULL: none of a container. Under the lock. */
static struct managed *managed_find(const void *space, u64 start, u64 end)
{
	struct managed *best = NULL, *managed;
	struct rb_node *at = managed_tree.rb_node;

	while (at) {
		managed = rb_entry(at, struct managed, node);
		if (lies_before(space, start, managed)) {
			at = at->rb_left;
		} else {
			best = managed;
			at = at->rb_right;
		}
	}
	return best && best->space == space && end <= best->end ? best : NULL;
}

static void managed_drop(struct managed *managed)
{
	struct km_engine *engine = km_engine_get_surely();
	u32 i;

	for (i = 0; engine && i < managed->holds; i++)
		engine->logic->hold_drop(&engine->core, &managed->hold[i]);
	if (engine)
		km_engine_put(engine);
	kfree(managed);
}

/* Charge a mapping on each of the container's cards, or on none. */
static u32 charge(struct km_engine *engine, struct cgpu_hold_request *request, u32 gpus, struct managed *managed)
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

/* Of the whole pieces that a range may come to take. */
static u64 piece_bytes(const struct uvm_range *range)
{
	return round_up(range->end + 1, CHUNK_BYTES) - round_down(range->start, CHUNK_BYTES);
}

static u32 managed_charge(struct km_engine *engine, const struct km_identity *identity, const struct uvm_range *range)
{
	struct cgpu_hold_request request = {
		.slot = identity->slot,
		.generation = identity->generation,
		.tgid = task_tgid_nr(current),
		.bytes = piece_bytes(range),
	};
	u32 gpus = engine->logic->container_gpus(&engine->core, identity->slot, identity->generation);
	struct managed *managed = kzalloc(struct_size(managed, hold, hweight32(gpus)), GFP_KERNEL_ACCOUNT);
	u32 status;

	if (!managed)
		return NV_ERR_NO_MEMORY;
	managed->space = range->space;
	managed->start = range->start;
	managed->end = range->end;
	managed->left = range->end - range->start + 1;
	status = gpus ? charge(engine, &request, gpus, managed) : NV_ERR_INSUFFICIENT_PERMISSIONS;
	if (status == NV_OK)
		managed_add(managed);
	else
		kfree(managed);
	return status;
}

static u32 managed_judge(const struct km_identity *identity, const struct uvm_range *range)
{
	struct km_engine *engine;
	u32 status;

	if (!km_managed_memory() && km_enforce())
		return NV_ERR_INSUFFICIENT_PERMISSIONS;
	engine = km_engine_get();
	if (!engine)
		return NV_ERR_INSUFFICIENT_RESOURCES;
	status = managed_charge(engine, identity, range);
	km_engine_put(engine);
	return km_enforce() ? status : NV_OK;
}

/* UVM holds its lock on the address space all the time: nobody can have used the range before it is judged. */
static __nocfi u32 managed_make(void *space, void *mm, void *wrapper, const struct uvm_range **out)
{
	u32 (*original)(void *, void *, void *, const struct uvm_range **) = (void *)km_probe_managed_create.original;
	void (*destroy)(const struct uvm_range *, void *) = (void *)km_probe_managed_destroy.original;
	const struct uvm_range *made = NULL;
	struct km_identity identity;
	int known = km_identity_find(&identity);
	u32 status;

	if (known < 0)
		return NV_ERR_NO_MEMORY;
	status = original(space, mm, wrapper, &made);
	if (status != NV_OK)
		return status;
	if (known)
		status = managed_judge(&identity, made);
	if (status != NV_OK)
		destroy(made, NULL);
	else if (out)
		*out = made;
	return status;
}

/* uvm_va_range_create_mmap(). What is at that place already and waits to be mapped, as CUDA's semaphores do, makes it
 * fail, whereupon UVM maps that. */
static u32 managed_create(void *space, void *mm, void *wrapper, const struct uvm_range **out)
{
	struct km_record *record = km_record_begin();
	u32 status = NV_ERR_NO_MEMORY;

	if (record) {
		status = managed_make(space, mm, wrapper, out);
		km_record_end(record);
	}
	km_probe_leave();
	return status;
}

static bool managed_create_wants(struct pt_regs *regs)
{
	struct km_identity identity;

	return !km_record_current() && (km_identity_unbound() || km_identity_of_current(&identity));
}
NOKPROBE_SYMBOL(managed_create_wants);

/* Take a part off. Returns the mapping that it was of, with last set when nothing of that is left. */
static struct managed *managed_take(const void *space, u64 start, u64 end, bool *last)
{
	struct managed *managed;

	spin_lock(&managed_lock);
	managed = managed_find(space, start, end);
	if (managed) {
		managed->left -= min(managed->left, end - start + 1);
		*last = managed->left == 0;
		if (*last) {
			rb_erase(&managed->node, &managed_tree);
			atomic_dec(&managed_count);
		}
	}
	spin_unlock(&managed_lock);
	return managed;
}

static void managed_shrink(const struct managed *managed, u64 bytes)
{
	struct km_engine *engine = km_engine_get_surely();
	u32 i;

	for (i = 0; engine && i < managed->holds; i++)
		engine->logic->hold_shrink(&engine->core, &managed->hold[i], bytes);
	if (engine)
		km_engine_put(engine);
}

static void managed_part_gone(const void *space, u64 start, u64 end)
{
	u64 first = round_up(start, CHUNK_BYTES), after = round_down(end + 1, CHUNK_BYTES);
	bool last = false;
	struct managed *managed = managed_take(space, start, end, &last);

	if (!managed)
		return;
	if (last)
		managed_drop(managed);
	else if (after > first)
		managed_shrink(managed, after - first);
}

static bool managed_destroy_wants(struct pt_regs *regs)
{
	return atomic_read(&managed_count) && !km_record_current();
}
NOKPROBE_SYMBOL(managed_destroy_wants);

/*
 * uvm_va_range_destroy(), in whatever task or thread. UVM's lock keeps the address space, and so the mapping while a part
 * of it is worked on. What never got its place is no part of what is there.
 */
static __nocfi void managed_destroy(const struct uvm_range *range, void *deferred)
{
	void (*original)(const struct uvm_range *, void *) = (void *)km_probe_managed_destroy.original;
	bool placed = !RB_EMPTY_NODE(&range->node);
	const void *space = range->space;
	u64 start = range->start, end = range->end;
	/* With it the probe lets our own call through. */
	struct km_record *record = km_record_begin_surely();

	original(range, deferred);
	if (placed)
		managed_part_gone(space, start, end);
	km_record_end(record);
	km_probe_leave();
}

void km_managed_clear(void)
{
	struct managed *managed, *next;

	rbtree_postorder_for_each_entry_safe(managed, next, &managed_tree, node) managed_drop(managed);
	managed_tree = RB_ROOT;
	atomic_set(&managed_count, 0);
}

struct km_probe km_probe_managed_create = {
	.module = "nvidia_uvm",
	.symbol = "uvm_va_range_create_mmap",
	.replacement = managed_create,
	.wants = managed_create_wants,
};

struct km_probe km_probe_managed_destroy = {
	.module = "nvidia_uvm",
	.symbol = "uvm_va_range_destroy",
	.replacement = managed_destroy,
	.wants = managed_destroy_wants,
};
