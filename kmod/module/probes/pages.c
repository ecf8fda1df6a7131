// SPDX-License-Identifier: GPL-2.0-only
/*
 * The driver's page allocator (PMA), from which every page of a card's memory comes that the driver gives out: page
 * tables, buffers of contexts and clients' memory alike. Pages given out in a container's call are counted as the
 * container's until they are freed; pages beyond the container's limit are refused here, and the driver fails as it
 * does on a full card. Not counted: pages of a card's start, pages that UVM takes for a card when it first has it,
 * which serve all, and UVM's chunks, of which several containers may have parts: managed memory is charged by its
 * length.
 */
#include <linux/mutex.h>

#include "compat.h"
#include "driver/driver.h"
#include "probes/page_counts.h"
#include "probes/pages.h"
#include "probes/task_call.h"

/* PMA_ALLOCATION_OPTIONS (phys_mem_allocator.h) begins as UvmPmaAllocationOptions does (nv_uvm_types.h), in all public versions
 * from 515 to 595. */
struct pma_options {
	u32 flags;
	u32 minimum_speed;
	u64 begin, end;
	u32 region;
	u64 alignment;
	u64 allocated; /* with PMA_ALLOW_PARTIAL */
};
#define PMA_CONTIGUOUS (1u << 6)
#define PMA_ALLOW_PARTIAL (1u << 12)

struct pma_call {
	const void *allocator;
	u64 count;
	u64 bytes; /* of one page */
	const struct pma_options *options;
	u64 *pages;
};

static bool pages_attached;
static unsigned long pages_expected; /* bit n: the card of GPU n may be started */
static atomic_t pages_opening[CGPU_MAX_GPUS];
/* Held by a task that takes a page of a card to learn which allocator that has. */
static DEFINE_MUTEX(binding_lock);
static struct task_struct *binding_task;
static u32 binding_gpu;

static bool pages_counted(void)
{
	return READ_ONCE(pages_attached) && km_enforce && km_count_pages;
}

/* --- pmaAllocatePages(): NV_STATUS (PMA *, NvLength count, NvU64 pageSize, PMA_ALLOCATION_OPTIONS *, NvU64 *pages) --- */

static bool allocate_wants(struct pt_regs *regs)
{
	const struct km_task_call *task_call = km_task_call_current();
	struct km_identity identity;

	if (task_call && READ_ONCE(task_call->allocates))
		return false;
	return READ_ONCE(binding_task) == current || km_identity_of_current(&identity);
}
NOKPROBE_SYMBOL(allocate_wants);

KM_EXTERNAL(pages_allocate, u32(const void *, u64, u64, const struct pma_options *, u64 *));

static u32 allocate_run(const struct pma_call *call)
{
	return km_call(pages_allocate)(call->allocator, call->count, call->bytes, call->options, call->pages);
}

static void allocate_settle(const struct pma_call *call, const struct page_reservation *reservation, u32 status)
{
	u64 given = call->options->flags & PMA_ALLOW_PARTIAL ? min(call->count, call->options->allocated) : call->count;

	if (status != NV_OK)
		page_settle(reservation, NULL, 0, 0);
	else if (call->options->flags & PMA_CONTIGUOUS)
		page_settle(reservation, call->pages, 1, given * call->bytes);
	else
		page_settle(reservation, call->pages, given, call->bytes);
}

static u32 allocate_counted(const struct pma_call *call, const struct km_identity *identity)
{
	struct page_reservation reservation;
	u64 bytes;
	u32 status;
	int err;

	if (check_mul_overflow(call->count, call->bytes, &bytes))
		return NV_ERR_NO_MEMORY;
	err = page_reserve(call->allocator, identity->generation, bytes, &reservation);
	if (err == -ENOMEM)
		return NV_ERR_NO_MEMORY;
	status = allocate_run(call);
	if (err == 0)
		allocate_settle(call, &reservation, status);
	return status;
}

static u32 allocate_judged(const struct pma_call *call, const struct km_task_call *task_call)
{
	struct km_identity identity;

	if (binding_task == current) {
		page_bind(binding_gpu, call->allocator);
		return allocate_run(call);
	}
	/* A call without options or pages fails by itself. */
	if (task_call->for_card || !call->options || !call->pages || !km_identity_of_current(&identity))
		return allocate_run(call);
	return allocate_counted(call, &identity);
}

static u32 pages_allocate(
	const void *allocator, u64 count, u64 page_size, const struct pma_options *options, u64 *pages)
{
	/* Up to 525 the page size is of 32 bits. */
	const struct pma_call call = { allocator, count, (u32)page_size ? (u32)page_size : page_size, options, pages };
	struct km_task_call *outer = km_task_call_current();
	struct km_task_call *task_call = outer ? outer : km_task_call_begin_locked();
	u32 status = NV_ERR_NO_MEMORY;

	if (task_call) {
		WRITE_ONCE(task_call->allocates, true);
		status = allocate_judged(&call, task_call);
		WRITE_ONCE(task_call->allocates, false);
	}
	if (task_call && !outer)
		km_task_call_end(task_call);
	km_probe_leave();
	return status;
}

/* --- pmaFreePages(): (PMA *, NvU64 *pages, NvU64 count, NvU64 bytes, NvU32 flags), in whatever task or thread --- */

/* The probe alone does it: nobody else gets the pages before the driver has freed them. */
static bool free_wants(struct pt_regs *regs)
{
	const u64 *pages = (const u64 *)regs_get_kernel_argument(regs, 1);

	if (page_any() && pages)
		page_free((const void *)regs_get_kernel_argument(regs, 0), pages, regs_get_kernel_argument(regs, 2),
			regs_get_kernel_argument(regs, 3));
	return false;
}
NOKPROBE_SYMBOL(free_wants);

/* A card is stopped, or does not start: nothing is expected of it, unless another task starts it meanwhile. */
static void expect_no_more(u32 gpu)
{
	clear_bit((int)gpu, &pages_expected);
	smp_mb__after_atomic(); /* pairs with the one in km_pages_opening() */
	if (atomic_read(&pages_opening[gpu]))
		set_bit((int)gpu, &pages_expected);
}
NOKPROBE_SYMBOL(expect_no_more);

/* pmaDestroy(PMA *): the card is stopped. The probe alone does it. */
static bool destroy_wants(struct pt_regs *regs)
{
	u32 gpu = page_forget((const void *)regs_get_kernel_argument(regs, 0));

	if (gpu < CGPU_MAX_GPUS)
		expect_no_more(gpu);
	return false;
}
NOKPROBE_SYMBOL(destroy_wants);

/* --- nvUvmInterfacePmaAllocPages(): UVM's chunks --- */

static bool chunks_wants(struct pt_regs *regs)
{
	const struct km_task_call *task_call = km_task_call_current();
	struct km_identity identity;

	return !(task_call && READ_ONCE(task_call->for_card)) && km_identity_of_current(&identity);
}
NOKPROBE_SYMBOL(chunks_wants);

KM_EXTERNAL(pages_chunks, u32(const void *, u64, u64, const struct pma_options *, u64 *));

static u32 pages_chunks(const void *allocator, u64 count, u64 page_size, const struct pma_options *options, u64 *pages)
{
	struct km_task_call *outer = km_task_call_current();
	struct km_task_call *task_call = outer ? outer : km_task_call_begin_locked();
	u32 status = NV_ERR_NO_MEMORY;

	if (task_call) {
		WRITE_ONCE(task_call->for_card, true);
		status = km_call(pages_chunks)(allocator, count, page_size, options, pages);
		WRITE_ONCE(task_call->for_card, false);
	}
	if (task_call && !outer)
		km_task_call_end(task_call);
	km_probe_leave();
	return status;
}

KM_PROBE_AROUND(pages_allocate, "nvidia", "pmaAllocatePages", pages_allocate, allocate_wants, .optional = true);
KM_PROBE(pages_free, "nvidia", "pmaFreePages", NULL, free_wants, .optional = true);
KM_PROBE(pages_destroy, "nvidia", "pmaDestroy", NULL, destroy_wants, .optional = true);
KM_PROBE_AROUND(pages_chunks, "nvidia", "nvUvmInterfacePmaAllocPages", pages_chunks, chunks_wants, .optional = true);

/* Ends first: nothing may be counted whose end would not be seen. */
static struct km_probe *const pages_probes[] = {
	&km_probe_pages_destroy,
	&km_probe_pages_free,
	&km_probe_pages_chunks,
	&km_probe_pages_allocate,
};

/* The first of the functions that the driver hides; NULL: it hides none. */
static const char *pages_hidden(void)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(pages_probes); i++) {
		if (!km_symbol(pages_probes[i]->module, pages_probes[i]->symbol))
			return pages_probes[i]->symbol;
	}
	return NULL;
}

int km_pages_attach(void)
{
	const char *failed = km_count_pages && km_enforce ? pages_hidden() : NULL;
	int err;

	if (failed)
		pr_info("nvidia: hides %s: pages are not counted, and the ledger decides alone\n", failed);
	if (failed || !km_count_pages || !km_enforce)
		return 0;
	err = km_probes_attach(pages_probes, ARRAY_SIZE(pages_probes), &failed);
	if (err)
		pr_err("nvidia: %s cannot be probed (error %d); count_pages=N does without\n", failed, err);
	WRITE_ONCE(pages_attached, err == 0);
	return err;
}

void km_pages_detach(void)
{
	WRITE_ONCE(pages_attached, false);
	km_probes_detach(pages_probes, ARRAY_SIZE(pages_probes));
}

void km_pages_clear(void)
{
	page_forget_all();
	WRITE_ONCE(pages_expected, 0);
}

void km_pages_exit(void)
{
	page_counts_exit();
}

/* --- which allocator a card has --- */

void km_pages_opening(u32 gpu)
{
	if (gpu >= CGPU_MAX_GPUS)
		return;
	atomic_inc(&pages_opening[gpu]);
	smp_mb__after_atomic(); /* pairs with the one in expect_no_more() */
	set_bit((int)gpu, &pages_expected);
}

u32 km_pages_unbound(void)
{
	u32 expected = (u32)READ_ONCE(pages_expected), gpu;

	for (gpu = 0; expected >> gpu; gpu++) {
		if ((expected >> gpu & 1) && page_bound(gpu))
			expected &= ~(1u << gpu);
	}
	return pages_counted() ? expected : 0;
}

/* With the lock of binding held. */
static int card_bind(struct km_engine *engine, u32 gpu)
{
	int err;

	binding_gpu = gpu;
	WRITE_ONCE(binding_task, current);
	err = km_gpu_take_page(engine, gpu);
	WRITE_ONCE(binding_task, NULL);
	if (page_bound(gpu))
		return 0;
	/* A card that does not open is not started: no container has a page of it. */
	if (err == -ENXIO) {
		expect_no_more(gpu);
		return 0;
	}
	pr_warn_ratelimited(
		"GPU %u: its page allocator is not found (error %d): calls of its containers are refused\n", gpu, err);
	return -EIO;
}

int km_pages_bind(struct km_engine *engine, u32 gpus)
{
	int err = 0;
	u32 gpu;

	/* The driver opens a card for this very purpose. */
	if (READ_ONCE(binding_task) == current)
		return 0;
	mutex_lock(&binding_lock);
	gpus &= km_pages_unbound();
	for (gpu = 0; gpu < CGPU_MAX_GPUS && err == 0; gpu++) {
		if (gpus >> gpu & 1)
			err = card_bind(engine, gpu);
	}
	mutex_unlock(&binding_lock);
	return err;
}

void km_pages_opened(u32 gpu)
{
	struct km_engine *engine;

	if (gpu >= CGPU_MAX_GPUS)
		return;
	engine = km_pages_unbound() >> gpu & 1 ? km_engine_get() : NULL;
	/* Where it fails, the next call of a container tries again. */
	if (engine)
		km_pages_bind(engine, 1u << gpu);
	km_engine_put(engine);
	atomic_dec(&pages_opening[gpu]);
}

/* --- for the core --- */

int km_pages_of(void *ctx, u32 gpu, u64 generation, u64 *bytes)
{
	*bytes = pages_counted() && generation ? page_bytes(gpu, generation) : 0;
	return pages_counted();
}

int km_pages_next(void *ctx, u32 gpu, u32 *cursor, struct cgpu_pages *pages)
{
	return page_next(gpu, cursor, pages);
}

/* The core sets limits also before a driver is there: it may come while containers are. */
void km_pages_limit(void *ctx, u32 gpu, u64 generation, u64 bytes, const char *id)
{
	if (km_count_pages && km_enforce && page_limit(gpu, generation, bytes, id))
		pr_warn_ratelimited("GPU %u: no record for the pages of %s: the driver gives it none\n", gpu,
			id ? id : "a container");
}
