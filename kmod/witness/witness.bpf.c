// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts who has which page of a card, at hardware breakpoints on the driver's page allocator (PMA). The entry of
 * pmaAllocatePages() says who asks for how much, its return whether the array is filled, the entry of pmaFreePages() what
 * goes back. A breakpoint calls these as perf events, with the registers of the call; nothing in the kernel changes.
 *
 * Every map has all its memory from the start. Pages are on record by their place on the card, so nobody can crowd
 * others out; a page that is given out anew has a new owner, also where its end was not seen (UVM's evictions).
 */
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <linux/ptrace.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "witness.h"

/* PMA_ALLOCATION_OPTIONS (phys_mem_allocator.h), the same in all public versions from 515 to 595. */
#define PMA_CONTIGUOUS (1u << 6)
#define PMA_ALLOW_PARTIAL (1u << 12)
#define PMA_ALLOCATED_OFFSET 40
#define OWNER_IN_EACH 0x0001000100010001ull

/* A call of pmaAllocatePages() until it returns. */
struct call {
	__u64 stack; /* pointer: the same at entry and return */
	__u64 count, bytes; /* bytes: of one page */
	__u64 pages, options; /* addresses */
	__u32 flags, card, owner;
};

/* By task. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct call);
	__uint(max_entries, WITNESS_CALLS);
} calls SEC(".maps");

/* The loader sizes it by the cards. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, union witness_frame);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
} owners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct witness_count);
	__uint(max_entries, WITNESS_COUNTS);
	__uint(map_flags, BPF_F_MMAPABLE);
} counts SEC(".maps");

/* Owner by the cgroup's id. Only the loader writes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u64);
	__type(value, __u32);
	__uint(max_entries, WITNESS_OWNERS);
} cgroups SEC(".maps");

/* Places of threads in `acting`. Only the loader writes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u32);
	__uint(max_entries, WITNESS_WORKERS);
} workers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 65536);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, char[WITNESS_CODE_BYTES]);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
} code SEC(".maps");

struct witness_state state;

static void add(__u64 *to, __u64 bytes)
{
	__sync_fetch_and_add(to, bytes);
}

static struct witness_count *count_of(__u32 card, __u32 owner)
{
	__u32 place = card * WITNESS_OWNERS + owner;

	return bpf_map_lookup_elem(&counts, &place);
}

static void credit(__u32 card, __u32 owner, __u32 granules)
{
	struct witness_count *count = owner ? count_of(card, owner) : NULL;

	if (count)
		add(&count->back, (__u64)granules << WITNESS_GRANULE_SHIFT);
}

/* --- owners --- */

/* Granules that get an owner. */
struct run {
	__u64 first, last; /* granules of the card */
	__u64 set;
	__u32 card, owner;
};

/* Whether all of a frame has one owner. */
static _Bool frame_is_whole(const union witness_frame *frame)
{
	__u64 other = frame->word[0] ^ (__u64)frame->owner[0] * OWNER_IN_EACH;
	__u32 i;

	for (i = 1; i < WITNESS_WORDS; i++)
		other |= frame->word[i] ^ frame->word[0];
	return other == 0;
}

static void frame_set_all(union witness_frame *frame, __u32 card, __u32 owner)
{
	__u32 i;

	credit(card, frame->owner[0], WITNESS_GRANULES);
	for (i = 0; i < WITNESS_WORDS; i++)
		frame->word[i] = owner * OWNER_IN_EACH;
}

/* A part of a frame. A loop by the kernel's helper is checked once, whatever it runs over. */
struct part {
	__u32 place, from, card, owner;
};

static long part_set_granule(__u32 nth, struct part *part)
{
	union witness_frame *frame = bpf_map_lookup_elem(&owners, &part->place);
	__u32 at = part->from + nth;

	if (!frame || at >= WITNESS_GRANULES)
		return 1;
	credit(part->card, frame->owner[at], 1);
	frame->owner[at] = (__u16)part->owner;
	return 0;
}

static long run_set_frame(__u32 nth, struct run *run)
{
	const __u32 in_frame = WITNESS_GRANULES - 1;
	__u64 at = run->first / WITNESS_GRANULES + nth;
	__u32 from = nth ? 0 : run->first & in_frame;
	__u32 to = at == run->last / WITNESS_GRANULES ? run->last & in_frame : in_frame;
	struct part part = { .from = from, .card = run->card, .owner = run->owner };
	const struct witness_card *card;
	union witness_frame *frame;

	if (run->card >= WITNESS_CARDS)
		return 1;
	card = &state.card[run->card];
	if (at >= card->frames) {
		add(&state.lost, 1);
		return 1;
	}
	part.place = card->first + (__u32)at;
	frame = bpf_map_lookup_elem(&owners, &part.place);
	if (!frame)
		return 1;
	if (from == 0 && to == in_frame && frame_is_whole(frame))
		frame_set_all(frame, run->card, run->owner);
	else
		bpf_loop(to - from + 1, part_set_granule, &part, 0);
	run->set += to - from + 1;
	return 0;
}

static void run_set(struct run *run, __u64 address, __u64 bytes)
{
	__u64 frames;

	if (!bytes)
		return;
	run->first = address >> WITNESS_GRANULE_SHIFT;
	run->last = (address + bytes - 1) >> WITNESS_GRANULE_SHIFT;
	frames = run->last / WITNESS_GRANULES - run->first / WITNESS_GRANULES + 1;
	if (bpf_loop((__u32)frames, run_set_frame, run, 0) < 0)
		add(&state.lost, 1);
}

/* Pages of an array. */
struct array {
	__u64 address, count, bytes;
	struct run run;
};

static long array_set_page(__u32 nth, struct array *array)
{
	__u64 page;

	if (bpf_probe_read_kernel(&page, sizeof(page), (const void *)(array->address + (__u64)nth * sizeof(page)))) {
		add(&state.lost, 1);
		return 1;
	}
	run_set(&array->run, page, array->bytes);
	return 0;
}

/* Give the pages of an array to an owner. Returns their bytes. */
static __u64 array_set(struct array *array)
{
	if (bpf_loop((__u32)array->count, array_set_page, array, 0) < 0)
		add(&state.lost, 1);
	return array->run.set << WITNESS_GRANULE_SHIFT;
}

/* --- who asks --- */

/* The owner for whom a thread makes a call; WITNESS_FREE: it makes none for others. */
static __u32 owner_of_worker(void)
{
	__u32 task = (__u32)bpf_get_current_pid_tgid(), *place = bpf_map_lookup_elem(&workers, &task), owner;

	if (!place || *place >= WITNESS_WORKERS)
		return WITNESS_FREE;
	owner = state.acting[*place];
	return owner < WITNESS_OWNERS ? owner : WITNESS_FREE;
}

static __u32 owner_of_task(void)
{
	__u32 *owner;
	__u64 id;
	int level;

	for (level = WITNESS_LEVELS; level > 0; level--) {
		id = bpf_get_current_ancestor_cgroup_id(level);
		owner = id ? bpf_map_lookup_elem(&cgroups, &id) : NULL;
		if (owner && *owner < WITNESS_OWNERS)
			return *owner;
	}
	return WITNESS_DRIVER;
}

static __u32 owner_of_call(__u64 caller)
{
	__u32 owner;

	if (caller >= state.chunks_begin && caller < state.chunks_end)
		return WITNESS_CHUNKS;
	owner = owner_of_worker();
	return owner ? owner : owner_of_task();
}

struct search {
	__u64 allocator;
	__u32 card;
};

static long card_compare(__u32 nth, struct search *search)
{
	if (nth >= WITNESS_CARDS || state.card[nth].allocator != search->allocator)
		return 0;
	search->card = nth;
	return 1;
}

/* The card that has an allocator, or WITNESS_CARDS. */
static __u32 card_of(__u64 allocator)
{
	struct search search = { .allocator = allocator, .card = WITNESS_CARDS };

	bpf_loop(WITNESS_CARDS, card_compare, &search, 0);
	return search.card;
}

static void card_bind(__u64 allocator)
{
	__u32 card = state.binding_card, task = (__u32)bpf_get_current_pid_tgid();

	if (task != state.binding_task || card >= WITNESS_CARDS)
		return;
	state.card[card].allocator = allocator;
	state.binding_task = 0;
}

/* --- breakpoints --- */

/* At the first instruction of a function of x86 the return address lies on top of the stack. */
static __u64 caller_of(const bpf_user_pt_regs_t *regs)
{
	__u64 caller = 0;

	bpf_probe_read_kernel(&caller, sizeof(caller), (const void *)PT_REGS_SP(regs));
	return caller;
}

/* NV_STATUS pmaAllocatePages(PMA *, NvLength count, NvU64 pageSize, PMA_ALLOCATION_OPTIONS *, NvU64 *pages) */
SEC("perf_event")
int on_allocate(struct bpf_perf_event_data *ctx)
{
	__u64 allocator = PT_REGS_PARM1(&ctx->regs), bytes = PT_REGS_PARM3(&ctx->regs);
	struct call call = { .stack = PT_REGS_SP(&ctx->regs),
		.count = PT_REGS_PARM2(&ctx->regs),
		/* Up to 525 the page size is of 32 bits. */
		.bytes = (__u32)bytes ? (__u32)bytes : bytes,
		.options = PT_REGS_PARM4(&ctx->regs),
		.pages = PT_REGS_PARM5(&ctx->regs) };
	__u32 task = (__u32)bpf_get_current_pid_tgid();

	add(&state.runs[WITNESS_ENTRY], 1);
	if (state.binding_task)
		card_bind(allocator);
	call.card = card_of(allocator);
	call.owner = owner_of_call(caller_of(&ctx->regs));
	/* A call without options or pages fails by itself. Of a card that is not known, containers alone are counted. */
	if ((call.card >= WITNESS_CARDS && call.owner < WITNESS_CONTAINERS) || !call.options || !call.pages)
		return 0;
	if (bpf_probe_read_kernel(&call.flags, sizeof(call.flags), (const void *)call.options) ||
		bpf_map_update_elem(&calls, &task, &call, BPF_ANY))
		add(&state.lost, 1);
	return 0;
}

static void report_excess(const struct call *call, struct witness_count *count, __u64 bytes)
{
	__u64 used = count->given - count->back, task = bpf_get_current_pid_tgid();
	struct witness_event *event;

	if (!count->limit || used <= count->limit)
		return;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		add(&state.lost_events, 1);
		return;
	}
	*event = (struct witness_event){ .used = used, .limit = count->limit, .bytes = bytes, .card = call->card };
	event->time = bpf_ktime_get_ns();
	event->owner = call->owner;
	event->process = (__u32)(task >> 32);
	event->task = (__u32)task;
	bpf_get_current_comm(event->command, sizeof(event->command));
	bpf_ringbuf_submit(event, 0);
	count->limit = 2 * used;
}

static void call_settle(const struct call *call)
{
	struct array array = { .address = call->pages, .count = call->count, .bytes = call->bytes };
	struct witness_count *count = count_of(call->card, call->owner);
	__u64 given = call->count, bytes;

	if (call->flags & PMA_ALLOW_PARTIAL &&
		bpf_probe_read_kernel(&given, sizeof(given), (const void *)(call->options + PMA_ALLOCATED_OFFSET)))
		add(&state.lost, 1);
	if (given < array.count)
		array.count = given;
	if (call->flags & PMA_CONTIGUOUS) {
		array.bytes *= array.count;
		array.count = array.count ? 1 : 0;
	}
	array.run.card = call->card;
	array.run.owner = call->owner;
	/* Nobody sees its pages go back. */
	bytes = call->card < WITNESS_CARDS ? array_set(&array) : array.count * array.bytes;
	if (!count)
		return;
	add(&count->given, bytes);
	report_excess(call, count, bytes);
}

SEC("perf_event")
int on_return(struct bpf_perf_event_data *ctx)
{
	__u32 task = (__u32)bpf_get_current_pid_tgid();
	struct call *call, copy;

	add(&state.runs[WITNESS_RETURN], 1);
	call = bpf_map_lookup_elem(&calls, &task);
	/* Another one: its own begin was not seen. */
	if (!call || call->stack != PT_REGS_SP(&ctx->regs))
		return 0;
	copy = *call;
	bpf_map_delete_elem(&calls, &task);
	if ((__u32)PT_REGS_RC(&ctx->regs) == 0)
		call_settle(&copy);
	return 0;
}

/* void pmaFreePages(PMA *, NvU64 *pages, NvU64 count, NvU64 pageSize, NvU32 flag): nobody gets them before it ends. */
SEC("perf_event")
int on_free(struct bpf_perf_event_data *ctx)
{
	struct array array = { .address = PT_REGS_PARM2(&ctx->regs),
		.count = PT_REGS_PARM3(&ctx->regs),
		.bytes = PT_REGS_PARM4(&ctx->regs) };

	add(&state.runs[WITNESS_FREEING], 1);
	array.run.card = card_of(PT_REGS_PARM1(&ctx->regs));
	array.run.owner = WITNESS_FREE;
	if (array.run.card < WITNESS_CARDS)
		array_set(&array);
	return 0;
}

/* Copies code of the kernel for the loader, which looks for the returns in it. */
SEC("syscall")
int read_code(void *ctx __attribute__((unused)))
{
	__u32 first = 0, bytes = state.code_bytes;
	char *to = bpf_map_lookup_elem(&code, &first);

	if (!to || bytes > WITNESS_CODE_BYTES)
		return -1;
	return (int)bpf_probe_read_kernel(to, bytes, (const void *)state.code_address);
}

char LICENSE[] SEC("license") = "GPL";
