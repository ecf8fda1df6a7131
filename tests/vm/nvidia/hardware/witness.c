// SPDX-License-Identifier: GPL-2.0
/*
 * How much of the card's memory NVIDIA's own page allocator (PMA) has given out, and the most it ever had: what a test of
 * a limit believes, since neither engine has a part in it. /proc/opencgpu_card has it as the fake driver tells it; a
 * write to it takes what is used now as the driver's own, and forgets the peak.
 */
#include <linux/bitmap.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/spinlock.h>

#include "gsp.h"
#include "proc_text.h"

#define PROC_NAME "opencgpu_card"
#define CALLS_AT_ONCE 128
#define FRAME_SHIFT 16 /* PMA_PAGE_SHIFT, phys_mem_allocator.h */
#define FRAMES (1u << 18) /* 16 GiB */
#define CONTIGUOUS (1u << 6) /* PMA_ALLOCATE_CONTIGUOUS */

static DEFINE_SPINLOCK(witness_lock);
static s64 witness_used, witness_own, witness_peak; /* bytes */
static u64 witness_total;
module_param_named(total, witness_total, ullong, 0444);
MODULE_PARM_DESC(total, "the card's memory in bytes");

/* Which frames are given out. A sum of calls would go wrong: the allocator takes frames that UVM can do without, and gives them
 * to somebody else, and it may free what was given out before this was here. */
static DECLARE_BITMAP(witness_frames, FRAMES);
/* Of these, the driver's own. It gives some of them back, as 535 does a page of its pools after a call that was refused. */
static DECLARE_BITMAP(own_frames, FRAMES);

/* What a call asks for, until it is known whether it got that. */
struct asked {
	u64 count, bytes; /* of one page */
	const u64 *pages;
	bool contiguous;
};

static void frames_note(u64 address, u64 bytes, bool given)
{
	u64 frame = address >> FRAME_SHIFT, last = (address + bytes - 1) >> FRAME_SHIFT;

	for (; frame <= last && frame < FRAMES; frame++) {
		if (!given && __test_and_clear_bit(frame, own_frames))
			witness_own -= 1 << FRAME_SHIFT;
		if (__test_and_change_bit(frame, witness_frames) != given)
			witness_used += given ? 1 << FRAME_SHIFT : -(1 << FRAME_SHIFT);
		else
			__change_bit(frame, witness_frames);
	}
}

static void witness_note(const struct asked *asked, bool given)
{
	u64 count = asked->contiguous ? 1 : asked->count, i;
	u64 bytes = asked->contiguous ? asked->count * asked->bytes : asked->bytes;
	unsigned long flags;

	spin_lock_irqsave(&witness_lock, flags);
	for (i = 0; i < count; i++)
		frames_note(asked->pages[i], bytes, given);
	if (witness_used - witness_own > witness_peak)
		witness_peak = witness_used - witness_own;
	spin_unlock_irqrestore(&witness_lock, flags);
}

/* Tasks inside of the allocator. One is there twice where another probe runs the function by itself. */
static const struct task_struct *inside[CALLS_AT_ONCE];

/* Put a task in place of another one, or of NULL. Returns whether that one was found. */
static bool inside_replace(const struct task_struct *before, const struct task_struct *after)
{
	unsigned long flags;
	bool found = false;
	u32 i;

	spin_lock_irqsave(&witness_lock, flags);
	for (i = 0; i < CALLS_AT_ONCE && !found; i++) {
		found = inside[i] == before;
		if (found)
			inside[i] = after;
	}
	spin_unlock_irqrestore(&witness_lock, flags);
	return found;
}

/* NV_STATUS pmaAllocatePages(PMA *, NvLength count, NvU64 pageSize, PMA_ALLOCATION_OPTIONS *, NvU64 *pages) */
static int allocate_begin(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	/* Counted once, by the outer call; and one that finds no place here is counted as it ends. */
	if (inside_replace(current, current))
		return 1;
	inside_replace(NULL, current);
	*(struct asked *)instance->data = (struct asked){ .count = regs->si,
		.bytes = regs->dx,
		.pages = (const u64 *)regs->r8,
		.contiguous = *(const u32 *)regs->cx & CONTIGUOUS };
	return 0;
}

static int allocate_end(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	inside_replace(current, NULL);
	if ((u32)regs->ax == 0)
		witness_note((struct asked *)instance->data, true);
	return 0;
}

/* void pmaFreePages(PMA *, NvU64 *pages, NvU64 count, NvU64 pageSize, NvU32 flag) */
static int free_begin(struct kprobe *kprobe, struct pt_regs *regs)
{
	const struct asked given = { .count = regs->dx, .bytes = regs->cx, .pages = (const u64 *)regs->si };

	witness_note(&given, false);
	return 0;
}

/* A card that starts has all of its memory: NV_STATUS pmaInitialize(PMA *, NvU32 flags) */
static int start_begin(struct kprobe *kprobe, struct pt_regs *regs)
{
	unsigned long flags;

	spin_lock_irqsave(&witness_lock, flags);
	witness_used = witness_own = 0;
	bitmap_zero(witness_frames, FRAMES);
	bitmap_zero(own_frames, FRAMES);
	spin_unlock_irqrestore(&witness_lock, flags);
	return 0;
}

static struct kretprobe allocate_probe = {
	.entry_handler = allocate_begin,
	.handler = allocate_end,
	.data_size = sizeof(struct asked),
	.maxactive = CALLS_AT_ONCE,
};
static struct kprobe free_probe, start_probe;

static int show_card(struct seq_file *s, void *unused)
{
	s64 used, peak;

	spin_lock_irq(&witness_lock);
	used = witness_used - witness_own;
	peak = witness_peak;
	spin_unlock_irq(&witness_lock);
	/* A call that was missed would be memory unseen: better no answer. */
	if (allocate_probe.nmissed)
		return -EIO;
	seq_printf(s, "card=0 used=%lld peak=%lld total=%llu\n", used, peak, witness_total);
	return 0;
}

static ssize_t begin_anew(struct file *file, const char __user *text, size_t bytes, loff_t *at)
{
	spin_lock_irq(&witness_lock);
	witness_own = witness_used;
	witness_peak = 0;
	bitmap_copy(own_frames, witness_frames, FRAMES);
	spin_unlock_irq(&witness_lock);
	return (ssize_t)bytes;
}

PROC_TEXT(card, show_card, begin_anew);

int witness_place(void)
{
	int err;

	/* From the life of a driver before: a probe is registered as if it were new. */
	allocate_probe.kp = (struct kprobe){ .symbol_name = "pmaAllocatePages" };
	free_probe = (struct kprobe){ .symbol_name = "pmaFreePages", .pre_handler = free_begin };
	start_probe = (struct kprobe){ .symbol_name = "pmaInitialize", .pre_handler = start_begin };
	witness_used = witness_own = witness_peak = 0;
	bitmap_zero(witness_frames, FRAMES);
	bitmap_zero(own_frames, FRAMES);
	err = register_kretprobe(&allocate_probe);
	if (err)
		return err;
	err = register_kprobe(&free_probe);
	if (err)
		goto no_free;
	err = register_kprobe(&start_probe);
	if (err == 0)
		return 0;
	unregister_kprobe(&free_probe);
no_free:
	unregister_kretprobe(&allocate_probe);
	return err;
}

void witness_remove(void)
{
	unregister_kprobe(&start_probe);
	unregister_kprobe(&free_probe);
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
