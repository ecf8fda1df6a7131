// SPDX-License-Identifier: GPL-2.0-only
/*
 * A fake copy engine for UVM of NVIDIA's real driver: loaded after nvidia-uvm.ko. The module learns from the driver's
 * core which channels UVM has and where the memory that UVM and the engine share lies, and does what UVM puts into the
 * channels, in their order (copy_methods.c). UVM must have been told to have all of it in the machine's memory.
 */
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/spinlock.h>
#include <linux/wait.h>

#include "copy_engine.h"
#include "gsp_layouts.h"

#define RANGES 4096u
#define CHANNELS 64u
#define CALLS_AT_ONCE 16
/* Rounds without work after UVM has rung: its probe comes before what it rings for. */
#define IDLE_ROUNDS 200u

struct copy_range {
	u64 address, bytes;
	u8 *memory; /* NULL: the place is free */
};

struct copy_channel {
	const void *handle; /* NULL: the place is free */
	u32 *get;
	const u32 *put;
	const u32 *entries;
	u32 count, done;
	struct copy_state state;
};

static DEFINE_SPINLOCK(copy_lock);
static struct copy_range ranges[RANGES];
static struct copy_channel channels[CHANNELS];
static bool copy_rung;
static DECLARE_WAIT_QUEUE_HEAD(copy_wait);
static struct task_struct *engine_thread;

/* Request of a call, until its result is known. */
struct asked {
	u64 address, bytes;
	const u8 *results[2];
};

void *copy_memory_at(u64 address, u32 bytes)
{
	u32 i;

	for (i = 0; i < RANGES; i++) {
		const struct copy_range *range = &ranges[i];

		if (range->memory && address >= range->address && bytes <= range->bytes &&
			address - range->address <= range->bytes - bytes)
			return range->memory + (address - range->address);
	}
	return NULL;
}

static void *pointer_at(const u8 *at)
{
	void *pointer;

	memcpy(&pointer, at, sizeof(pointer));
	return pointer;
}

/* NV_STATUS nvGpuOpsMemoryCpuMap(gpuAddressSpace *, NvU64 address, NvLength bytes, void **memory, NvU64 pageSize) */
static int map_begin(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct asked *asked = (struct asked *)instance->data;

	asked->address = regs->si;
	asked->bytes = regs->dx;
	asked->results[0] = (const u8 *)regs->cx;
	return 0;
}

static int map_end(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	const struct asked *asked = (const struct asked *)instance->data;
	unsigned long flags;
	u32 i;

	if ((u32)regs->ax)
		return 0;
	spin_lock_irqsave(&copy_lock, flags);
	for (i = 0; i < RANGES && ranges[i].memory; i++)
		;
	if (i < RANGES)
		ranges[i] = (struct copy_range){ asked->address, asked->bytes, pointer_at(asked->results[0]) };
	spin_unlock_irqrestore(&copy_lock, flags);
	return 0;
}

/* void nvGpuOpsMemoryCpuUnMap(gpuAddressSpace *, void *memory) */
static int unmap_begin(struct kprobe *kprobe, struct pt_regs *regs)
{
	unsigned long flags;
	u32 i;

	spin_lock_irqsave(&copy_lock, flags);
	for (i = 0; i < RANGES; i++) {
		if (ranges[i].memory && ranges[i].memory == (u8 *)regs->si)
			ranges[i].memory = NULL;
	}
	spin_unlock_irqrestore(&copy_lock, flags);
	return 0;
}

/* NV_STATUS nvGpuOpsChannelAllocate(gpuTsgHandle, const gpuChannelAllocParams *, gpuChannelHandle *, gpuChannelInfo *) */
static int channel_begin(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct asked *asked = (struct asked *)instance->data;

	asked->results[0] = (const u8 *)regs->dx;
	asked->results[1] = (const u8 *)regs->cx;
	return 0;
}

static int channel_end(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	const struct asked *asked = (const struct asked *)instance->data;
	const u8 *info = asked->results[1];
	struct copy_channel made = { 0 };
	unsigned long flags;
	u32 i;

	if ((u32)regs->ax)
		return 0;
	made.handle = pointer_at(asked->results[0]);
	made.get = pointer_at(info + GSP_channel_gpGet);
	made.put = pointer_at(info + GSP_channel_gpPut);
	made.entries = pointer_at(info + GSP_channel_gpFifoEntries);
	memcpy(&made.count, info + GSP_channel_numGpFifoEntries, sizeof(made.count));
	spin_lock_irqsave(&copy_lock, flags);
	for (i = 0; i < CHANNELS && channels[i].handle; i++)
		;
	if (i < CHANNELS)
		channels[i] = made;
	spin_unlock_irqrestore(&copy_lock, flags);
	return 0;
}

/* void nvGpuOpsChannelDestroy(gpuChannel *) */
static int channel_gone(struct kprobe *kprobe, struct pt_regs *regs)
{
	unsigned long flags;
	u32 i;

	spin_lock_irqsave(&copy_lock, flags);
	for (i = 0; i < CHANNELS; i++) {
		if (channels[i].handle == (void *)regs->di)
			channels[i].handle = NULL;
	}
	spin_unlock_irqrestore(&copy_lock, flags);
	return 0;
}

static int ring(struct kprobe *kprobe, struct pt_regs *regs)
{
	WRITE_ONCE(copy_rung, true);
	wake_up(&copy_wait);
	return 0;
}

/* One entry: a piece of a pushbuffer, or nothing. */
static bool run_entry(struct copy_channel *channel, const u32 *entry)
{
	u64 address = (u64)FIELD(entry[1], GP_ENTRY1_GET_HI) << 32 | (entry[0] & ~3u);
	u32 count = FIELD(entry[1], GP_ENTRY1_LENGTH);
	const u32 *words;

	if (count == 0)
		return true;
	words = copy_memory_at(address, count * 4);
	if (words)
		return copy_run(&channel->state, words, count);
	pr_err("copy engine: pushbuffer at %#llx: no memory is known there\n", address);
	return true;
}

static bool run_channel(struct copy_channel *channel)
{
	bool worked = false;
	unsigned long flags;

	spin_lock_irqsave(&copy_lock, flags);
	while (channel->handle && channel->done != READ_ONCE(*channel->put) && channel->done < channel->count) {
		if (!run_entry(channel, channel->entries + 2 * channel->done))
			break;
		channel->done = (channel->done + 1) % channel->count;
		WRITE_ONCE(*channel->get, channel->done);
		worked = true;
	}
	spin_unlock_irqrestore(&copy_lock, flags);
	return worked;
}

static bool run_all(void)
{
	bool worked = false;
	u32 i;

	for (i = 0; i < CHANNELS; i++) {
		if (run_channel(&channels[i]))
			worked = true;
	}
	return worked;
}

static int copy_work(void *unused)
{
	u32 idle = 0;

	while (!kthread_should_stop()) {
		if (xchg(&copy_rung, false) || run_all())
			idle = 0;
		else
			idle++;
		if (idle < IDLE_ROUNDS)
			cond_resched();
		else
			wait_event_timeout(copy_wait, READ_ONCE(copy_rung) || kthread_should_stop(), 1);
	}
	return 0;
}

static struct kretprobe calls[] = {
	{ .kp.symbol_name = "nvGpuOpsMemoryCpuMap", .entry_handler = map_begin, .handler = map_end },
	{ .kp.symbol_name = "nvGpuOpsChannelAllocate", .entry_handler = channel_begin, .handler = channel_end },
};
static struct kprobe ends[] = {
	{ .symbol_name = "nvGpuOpsMemoryCpuUnMap", .pre_handler = unmap_begin },
	{ .symbol_name = "nvGpuOpsChannelDestroy", .pre_handler = channel_gone },
	{ .pre_handler = ring }, /* the function that writes an address of UVM's channel to the card */
};

static void probes_remove(u32 calls_placed, u32 ends_placed)
{
	while (calls_placed)
		unregister_kretprobe(&calls[--calls_placed]);
	while (ends_placed)
		unregister_kprobe(&ends[--ends_placed]);
}

static int probes_place(void)
{
	u32 i, k;
	int err = 0;

	ends[ARRAY_SIZE(ends) - 1].symbol_name = gsp_layout->names[GSP_NAME_write_gpu_put];
	for (i = 0; i < ARRAY_SIZE(calls) && err == 0; i++) {
		calls[i].maxactive = CALLS_AT_ONCE;
		calls[i].data_size = sizeof(struct asked);
		err = register_kretprobe(&calls[i]);
	}
	for (k = 0; k < ARRAY_SIZE(ends) && err == 0; k++)
		err = register_kprobe(&ends[k]);
	if (err == 0)
		return 0;
	/* The last one of those that were tried is not there. */
	probes_remove(k ? i : i - 1, k ? k - 1 : 0);
	return err;
}

static int __init copy_init(void)
{
	int err;

	if (!gsp_layout)
		return -ENODEV;
	engine_thread = kthread_run(copy_work, NULL, "opencgpu_copy");
	if (IS_ERR(engine_thread))
		return PTR_ERR(engine_thread);
	err = probes_place();
	if (err)
		kthread_stop(engine_thread);
	return err;
}

static void __exit copy_exit(void)
{
	probes_remove(ARRAY_SIZE(calls), ARRAY_SIZE(ends));
	kthread_stop(engine_thread);
}

module_init(copy_init);
module_exit(copy_exit);
MODULE_DESCRIPTION("A fake copy engine for UVM of NVIDIA's driver, for tests");
MODULE_LICENSE("GPL");
