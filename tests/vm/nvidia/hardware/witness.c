// SPDX-License-Identifier: GPL-2.0-only
/*
 * How much of the card's memory NVIDIA's own page allocator (PMA) has given out, and the most it ever had: a test of a
 * limit believes it, since neither engine has a part in it. /proc/opencgpu_card has it as the fake driver tells it; a
 * write to it takes what is used now as the driver's own, and forgets the peak. UVM's chunks are told beside it: UVM
 * keeps some that no process uses, until the allocator has nothing else to give.
 */
#include <linux/bitmap.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/spinlock.h>

#include "gsp.h"
#include "gsp_layouts.h"
#include "proc_text.h"

#define PROC_NAME "opencgpu_card"
#define CALLS_AT_ONCE 128
#define FRAME_SHIFT GSP_PMA_PAGE_SHIFT
#define FRAMES (1u << 18) /* 16 GiB */

static DEFINE_SPINLOCK(witness_lock);
static s64 witness_used, witness_own, witness_peak; /* bytes */
static s64 chunks_used, chunks_peak, driver_peak; /* UVM's chunks, and all but these */
static u64 witness_total;
module_param_named(total, witness_total, ullong, 0444);
MODULE_PARM_DESC(total, "the card's memory in bytes");

/* Which frames are given out. A sum of calls would go wrong: the allocator takes frames that UVM can do without, and
 * gives them to others, and it may free what was given out before this was here. */
static DECLARE_BITMAP(witness_frames, FRAMES);
/*
 * Frames of these that are the driver's own. The driver gives some of them back, as 535 does a page of its pools after
 * a call that was refused.
 */
static DECLARE_BITMAP(own_frames, FRAMES);
/* Frames of these that are UVM's chunks. */
static DECLARE_BITMAP(chunk_frames, FRAMES);

/* Request of a call, until its result is known. */
struct asked {
	u64 count, bytes; /* of one page */
	const u64 *pages;
	bool contiguous;
};

static void chunk_note(u64 frame, bool chunk)
{
	if (__test_and_change_bit(frame, chunk_frames) != chunk)
		chunks_used += chunk ? 1 << FRAME_SHIFT : -(1 << FRAME_SHIFT);
	else
		__change_bit(frame, chunk_frames);
}

static void frames_note(u64 address, u64 bytes, bool given, bool chunk)
{
	u64 frame = address >> FRAME_SHIFT, last = (address + bytes - 1) >> FRAME_SHIFT;

	for (; frame <= last && frame < FRAMES; frame++) {
		chunk_note(frame, given && chunk);
		if (!given && __test_and_clear_bit(frame, own_frames))
			witness_own -= 1 << FRAME_SHIFT;
		if (__test_and_change_bit(frame, witness_frames) != given)
			witness_used += given ? 1 << FRAME_SHIFT : -(1 << FRAME_SHIFT);
		else
			__change_bit(frame, witness_frames);
	}
}

static void witness_note(const struct asked *asked, bool given, bool chunk)
{
	u64 count = asked->contiguous ? 1 : asked->count, i;
	u64 bytes = asked->contiguous ? asked->count * asked->bytes : asked->bytes;
	unsigned long flags;

	spin_lock_irqsave(&witness_lock, flags);
	for (i = 0; i < count; i++)
		frames_note(asked->pages[i], bytes, given, chunk);
	witness_peak = max(witness_peak, witness_used - witness_own);
	driver_peak = max(driver_peak, witness_used - witness_own - chunks_used);
	chunks_peak = max(chunks_peak, chunks_used);
	spin_unlock_irqrestore(&witness_lock, flags);
}

/* Tasks inside of the allocator. One is there twice where another probe runs the function by itself. */
static const void *inside[CALLS_AT_ONCE];
/* Arrays that UVM has passed for the addresses of its chunks. */
static const void *chunk_pages[CALLS_AT_ONCE];

/* Put an entry in place of another one, or of NULL. Returns whether that one was found. */
static bool table_replace(const void **table, const void *before, const void *after)
{
	unsigned long flags;
	bool found = false;
	u32 i;

	spin_lock_irqsave(&witness_lock, flags);
	for (i = 0; i < CALLS_AT_ONCE && !found; i++) {
		found = table[i] == before;
		if (found)
			table[i] = after;
	}
	spin_unlock_irqrestore(&witness_lock, flags);
	return found;
}

/* NV_STATUS rm_gpu_ops_pma_alloc_pages(stack, PMA *, count, page size, options, NvU64 *pages): UVM's call ends here */
static int chunks_begin(struct kprobe *kprobe, struct pt_regs *regs)
{
	const void *pages = (const void *)regs->r9;

	if (!table_replace(chunk_pages, pages, pages))
		table_replace(chunk_pages, NULL, pages);
	return 0;
}

/* NV_STATUS pmaAllocatePages(PMA *, NvLength count, NvU64 pageSize, PMA_ALLOCATION_OPTIONS *, NvU64 *pages) */
static int allocate_begin(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	/* Counted once, by the outer call; and one that finds no place here is counted as it ends. */
	if (table_replace(inside, current, current))
		return 1;
	table_replace(inside, NULL, current);
	*(struct asked *)instance->data = (struct asked){ .count = regs->si,
		.bytes = regs->dx,
		.pages = (const u64 *)regs->r8,
		.contiguous = *(const u32 *)regs->cx & GSP_PMA_ALLOCATE_CONTIGUOUS };
	return 0;
}

static int allocate_end(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	const struct asked *asked = (struct asked *)instance->data;
	bool chunk = table_replace(chunk_pages, asked->pages, NULL);

	table_replace(inside, current, NULL);
	if ((u32)regs->ax == 0)
		witness_note(asked, true, chunk);
	return 0;
}

/* void pmaFreePages(PMA *, NvU64 *pages, NvU64 count, NvU64 pageSize, NvU32 flag) */
static int free_begin(struct kprobe *kprobe, struct pt_regs *regs)
{
	const struct asked given = { .count = regs->dx, .bytes = regs->cx, .pages = (const u64 *)regs->si };

	witness_note(&given, false, false);
	return 0;
}

/* A card that starts has all of its memory: NV_STATUS pmaInitialize(PMA *, NvU32 flags) */
static int start_begin(struct kprobe *kprobe, struct pt_regs *regs)
{
	unsigned long flags;

	spin_lock_irqsave(&witness_lock, flags);
	witness_used = witness_own = chunks_used = 0;
	bitmap_zero(witness_frames, FRAMES);
	bitmap_zero(own_frames, FRAMES);
	bitmap_zero(chunk_frames, FRAMES);
	spin_unlock_irqrestore(&witness_lock, flags);
	return 0;
}

static struct kretprobe allocate_probe = {
	.entry_handler = allocate_begin,
	.handler = allocate_end,
	.data_size = sizeof(struct asked),
	.maxactive = CALLS_AT_ONCE,
};
static struct kprobe free_probe, start_probe, chunks_probe;

static int show_card(struct seq_file *s, void *unused)
{
	s64 used, peak, chunks, chunks_most, driver_most;

	spin_lock_irq(&witness_lock);
	used = witness_used - witness_own;
	peak = witness_peak;
	chunks = chunks_used;
	chunks_most = chunks_peak;
	driver_most = driver_peak;
	spin_unlock_irq(&witness_lock);
	/* A call that was missed would be memory unseen: better no answer. */
	if (allocate_probe.nmissed)
		return -EIO;
	seq_printf(s, "card=0 used=%lld peak=%lld chunks=%lld chunks_peak=%lld driver_peak=%lld total=%llu\n", used,
		peak, chunks, chunks_most, driver_most, witness_total);
	return 0;
}

static ssize_t begin_anew(struct file *file, const char __user *text, size_t bytes, loff_t *at)
{
	spin_lock_irq(&witness_lock);
	witness_own = witness_used;
	witness_peak = driver_peak = chunks_peak = chunks_used = 0;
	bitmap_copy(own_frames, witness_frames, FRAMES);
	bitmap_zero(chunk_frames, FRAMES);
	spin_unlock_irq(&witness_lock);
	return (ssize_t)bytes;
}

PROC_TEXT(card, show_card, begin_anew);

static struct kprobe *witness_probes[] = { &free_probe, &start_probe, &chunks_probe };

int witness_place(void)
{
	int err;

	/* From the life of a driver before: a probe is registered as if it were new. */
	allocate_probe.kp = (struct kprobe){ .symbol_name = "pmaAllocatePages" };
	free_probe = (struct kprobe){ .symbol_name = "pmaFreePages", .pre_handler = free_begin };
	start_probe = (struct kprobe){ .symbol_name = "pmaInitialize", .pre_handler = start_begin };
	chunks_probe = (struct kprobe){ .symbol_name = "rm_gpu_ops_pma_alloc_pages", .pre_handler = chunks_begin };
	witness_used = witness_own = witness_peak = chunks_used = chunks_peak = driver_peak = 0;
	bitmap_zero(witness_frames, FRAMES);
	bitmap_zero(own_frames, FRAMES);
	bitmap_zero(chunk_frames, FRAMES);
	err = register_kretprobe(&allocate_probe);
	if (err)
		return err;
	err = register_kprobes(witness_probes, ARRAY_SIZE(witness_probes));
	if (err)
		unregister_kretprobe(&allocate_probe);
	return err;
}

void witness_remove(void)
{
	unregister_kprobes(witness_probes, ARRAY_SIZE(witness_probes));
	unregister_kretprobe(&allocate_probe);
}

int witness_init(void)
{
	return proc_create(PROC_NAME, 0600, NULL, &card_ops) ? 0 : -ENOMEM;
}

void witness_exit(void)
{
	remove_proc_entry(PROC_NAME, NULL);
}
