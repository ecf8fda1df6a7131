// SPDX-License-Identifier: Apache-2.0
/* Charges managed memory by the mappings that processes have. */
#define _GNU_SOURCE
#include <unistd.h>

#include "clock.h"
#include "engine.h"
#include "managed.h"
#include "processes.h"

#define PIECE (2ull << 20) /* UVM_CHUNK_SIZE_MAX, kernel-open/nvidia-uvm/uvm_pmm_gpu.h */
#define ADDRESS_MAX (1ull << 57)
#define PENDING_MS 1000
#define RECOUNT_MS 100
#define PROCESSES_MAX 1024
#define WAIT_MS 1000
#define BUDGET_US 10000

struct sum {
	struct managed_container *container;
	u64 space;
	u64 bytes;
	u64 counted; /* the piece after the last that counts */
};

static struct managed_container *container_of_slot(struct cgpud *d, u32 slot)
{
	return &d->managed.container[slot % CGPU_MAX_CONTAINERS];
}

void managed_open(struct cgpud *d, u32 allowed)
{
	struct managed *managed = &d->managed;
	u32 i;

	atomic_store(&managed->allowed, allowed);
	address_spaces_open(&managed->spaces, &d->core, &d->looks);
	if (managed->spaces.max < ADDRESS_SPACES_MAX)
		events_log(&d->events, LOG_LEVEL_WARNING,
			"managed memory in at most %u address spaces, not %u: set LimitNOFILE= of cgpud to %u or more "
			"(systemctl edit cgpud)",
			managed->spaces.max, ADDRESS_SPACES_MAX, 4 * ADDRESS_SPACES_MAX);
	for (i = 0; i < CGPU_MAX_CONTAINERS; i++)
		pthread_mutex_init(&managed->container[i].order, NULL);
}

/* --- counts, and their budget --- */

/* A removed container's last call may still be under way: it spends from the next one's budget. */
static void renew_budget(struct managed_container *container, u64 generation)
{
	if (generation <= container->generation)
		return;
	container->generation = generation;
	container->paid = (s64)clock_ms() - MANAGED_WHILE_MS;
}

/* A count may wait for memory that a hostile process keeps locked. No other one waits for it for long, least of all of the
 * next container in this place. */
static int begin_count(struct managed_container *container, u64 generation)
{
	struct timespec until = clock_until(WAIT_MS);

	if (pthread_mutex_clocklock(&container->order, CLOCK_MONOTONIC, &until))
		return -EAGAIN;
	renew_budget(container, generation);
	return 0;
}

/* Whether reads may take time, and leave a reserve. */
static int may_read(const struct managed_container *container, s64 reserve_ms)
{
	return container->paid + reserve_ms <= (s64)clock_ms();
}

/* before: looks_mappings_ns() when the reads began. */
static void pay_reads(struct managed_container *container, const struct asker *asker, u64 before)
{
	s64 from = (s64)clock_ms() - MANAGED_WHILE_MS;
	u64 price_ms = (looks_mappings_ns(asker) - before) * MANAGED_SHARE / 1000000;

	container->paid = (container->paid > from ? container->paid : from) + (s64)price_ms;
}

/* Begin the count of a thread that maps, which waits a moment for the budget. */
static int begin_map(struct managed_container *container, u64 generation)
{
	u64 until = clock_ms() + WAIT_MS;
	int r;

	while ((r = begin_count(container, generation)) == 0) {
		if (may_read(container, 0))
			return 0;
		pthread_mutex_unlock(&container->order);
		if (clock_ms() >= until)
			return -EAGAIN;
		usleep(BUDGET_US);
	}
	return r;
}

/* --- pending mappings --- */

/* A thread that makes another call has done the one before; so has one that had long enough. */
static void pending_settle(struct managed_container *container, s32 tid)
{
	u64 now = clock_ms();
	u32 i;

	for (i = 0; i < MANAGED_PENDING; i++) {
		if (container->pending[i].tid == tid || now >= container->pending[i].until)
			container->pending[i].tid = 0;
	}
}

static int pending_add(struct managed_container *container, const struct managed_map *map, u64 space)
{
	u32 i;

	for (i = 0; i < MANAGED_PENDING && container->pending[i].tid; i++)
		;
	if (i == MANAGED_PENDING)
		return -EAGAIN;
	container->pending[i] = (struct managed_pending){ .tid = map->tid,
		.space = space,
		.start = map->start,
		.end = map->start + map->bytes,
		.until = clock_ms() + PENDING_MS };
	return 0;
}

static u64 pieces(u64 start, u64 end)
{
	return (end + PIECE - 1) / PIECE * PIECE - start / PIECE * PIECE;
}

static u64 pending_bytes(const struct managed_container *container, u64 space)
{
	u64 bytes = 0;
	u32 i;

	for (i = 0; i < MANAGED_PENDING; i++) {
		if (container->pending[i].tid && container->pending[i].space == space)
			bytes += pieces(container->pending[i].start, container->pending[i].end);
	}
	return bytes;
}

/* A mapping that the process has is no longer pending. */
static void pending_seen(struct managed_container *container, u64 space, u64 start, u64 end)
{
	u32 i;

	for (i = 0; i < MANAGED_PENDING; i++) {
		struct managed_pending *p = &container->pending[i];

		if (p->space == space && start <= p->start && p->end <= end)
			p->tid = 0;
	}
}

/* Neighbours may share a piece. */
static void add(void *ctx, u64 start, u64 end)
{
	struct sum *sum = ctx;
	u64 from = start > sum->counted ? start : sum->counted;

	pending_seen(sum->container, sum->space, start, end);
	if (end <= from)
		return;
	sum->bytes += pieces(from, end);
	sum->counted = (end + PIECE - 1) / PIECE * PIECE;
}

/* An address space that no process uses keeps its mapped and pending bytes until it is taken apart. */
static int measure_space(struct cgpud *d, struct managed_container *container, u32 at)
{
	struct address_space *space = &d->managed.spaces.at[at];
	struct asker asker = asker_of(&d->looks, space->slot, space->generation);
	struct sum sum = { .container = container, .space = space->serial };
	int r = look_mappings(&asker, space->maps, add, &sum);

	if (r == 0)
		space->bytes = sum.bytes + pending_bytes(container, space->serial);
	/* Bytes that cannot be counted may be more than the charge: refuse more mappings meanwhile. */
	else if (r != -ESRCH)
		return -EAGAIN;
	else if (!address_space_lives(&asker, space))
		space->bytes = 0;
	return space->bytes == ADDRESS_SPACE_UNKNOWN ? -EAGAIN : 0;
}

/* Bytes that a process has, or is about to have. */
static int measure(struct cgpud *d, struct managed_container *container, const struct managed_map *map, u64 *bytes)
{
	struct address_space of = { .tgid = map->tgid, .slot = map->slot, .generation = map->generation };
	struct address_spaces *spaces = &d->managed.spaces;
	int r = 0;
	u32 at;

	*bytes = 0;
	for (at = address_spaces_get(spaces, &of, 0); at < ADDRESS_SPACES_MAX;
		at = address_spaces_get(spaces, &of, at + 1)) {
		r = measure_space(d, container, at);
		*bytes += spaces->at[at].bytes;
		address_spaces_put(spaces, at);
		if (r < 0)
			break;
	}
	return r;
}

static u32 mark_of(struct cgpud *d, const struct managed_map *map)
{
	struct asker asker = asker_of(&d->looks, map->slot, map->generation);

	return look_mark(&asker, map->tgid);
}

static int set(struct cgpud *d, const struct managed_map *map, u64 bytes, u32 limited)
{
	struct cgpu_managed wanted = {
		.slot = map->slot, .generation = map->generation, .tgid = map->tgid, .bytes = bytes, .limited = limited
	};

	/* A thread that maps is there; at a later count another one may have the number. */
	if (limited)
		wanted.started = mark_of(d, map);
	return cgpu_managed_set(&d->core, &wanted);
}

/* at: its address space. */
static int charge(struct cgpud *d, struct managed_container *container, const struct managed_map *map, u32 at)
{
	u64 before, more = pieces(map->start, map->start + map->bytes);
	int r = measure(d, container, map, &before);

	if (r < 0)
		return r;
	/* First charge the memory that is there, without the limit; then the new mapping. */
	r = set(d, map, before, 0);
	if (r == 0)
		r = set(d, map, before + more, 1);
	if (r < 0)
		return r;
	r = pending_add(container, map, d->managed.spaces.at[at].serial);
	if (r < 0) {
		set(d, map, before, 0);
		return r;
	}
	/* Its process may end before the next count. */
	d->managed.spaces.at[at].bytes += more;
	return 0;
}

static int take_and_charge(struct cgpud *d, struct managed_container *container, const struct managed_map *map)
{
	struct address_space space = { .tgid = map->tgid, .slot = map->slot, .generation = map->generation };
	struct asker asker = asker_of(&d->looks, map->slot, map->generation);
	u64 before = looks_mappings_ns(&asker);
	int at = address_spaces_take(&d->managed.spaces, &space, &map->notice), r = at;

	if (at >= 0) {
		r = charge(d, container, map, (u32)at);
		address_spaces_put(&d->managed.spaces, (u32)at);
	}
	pay_reads(container, &asker, before);
	return at == -ENOSPC ? -ENOMEM : r;
}

int managed_map(struct cgpud *d, const struct managed_map *map)
{
	struct managed_container *container = container_of_slot(d, map->slot);
	u32 enforced = atomic_load(&d->enforce);
	int r;

	if (!atomic_load(&d->managed.allowed))
		return enforced ? -EPERM : 0;
	/* No process has such addresses. */
	if (map->start >= ADDRESS_MAX || map->bytes >= ADDRESS_MAX)
		return enforced ? -ENOMEM : 0;
	r = begin_map(container, map->generation);
	if (r == 0) {
		pending_settle(container, map->tid);
		r = take_and_charge(d, container, map);
		pthread_mutex_unlock(&container->order);
	}
	return enforced ? r : 0;
}

/* With order. */
static void count_all(struct cgpud *d, struct managed_container *container, u32 slot, u64 generation)
{
	struct managed_map of = { .slot = slot, .generation = generation };
	u64 bytes, until = clock_ms() + WAIT_MS;
	s32 tgid[PROCESSES_MAX];
	struct cgpu_managed found;
	u32 cursor = 0, n = 0, i;

	while (n < PROCESSES_MAX && cgpu_managed_next(&d->core, slot, &cursor, &found) == 0)
		tgid[n++] = found.tgid;
	/* The next container in this place does not wait for all of them. */
	for (i = 0; i < n && clock_ms() < until; i++) {
		of.tgid = tgid[i];
		if (measure(d, container, &of, &bytes) == 0)
			set(d, &of, bytes, 0);
	}
}

static void recount(struct cgpud *d, u32 slot, u64 generation, s32 tid, s64 reserve_ms)
{
	struct managed_container *container = container_of_slot(d, slot);
	struct asker asker = asker_of(&d->looks, slot, generation);
	u64 before;

	if (begin_count(container, generation) < 0)
		return;
	pending_settle(container, tid);
	if (may_read(container, reserve_ms)) {
		before = looks_mappings_ns(&asker);
		count_all(d, container, slot, generation);
		pay_reads(container, &asker, before);
	}
	atomic_store(&container->recounted, clock_ms());
	pthread_mutex_unlock(&container->order);
}

void managed_recount(struct cgpud *d, u32 slot, u64 generation, s32 tid)
{
	recount(d, slot, generation, tid, 0);
}

void managed_recount_stale(struct cgpud *d, u32 slot, u64 generation, s32 tid)
{
	if (clock_ms() >= atomic_load(&container_of_slot(d, slot)->recounted) + RECOUNT_MS)
		recount(d, slot, generation, tid, MANAGED_WHILE_MS / 2);
}

/* An address space is without users before it is taken apart, and until then the card has not got its memory back. */
static int is_ending(struct cgpud *d, u32 slot, const struct cgpu_managed *found)
{
	struct asker asker = asker_soon(&d->looks, slot, found->generation);

	return !look_has_left(&asker, found->tgid, found->started) && look_exiting(&asker, found->tgid) != 0;
}

void managed_drop_ended(struct cgpud *d, u32 slot)
{
	struct address_spaces *spaces = &d->managed.spaces;
	struct cgpu_managed found;
	u32 cursor = 0;
	u64 latest;

	while (cgpu_managed_next(&d->core, slot, &cursor, &found) == 0) {
		struct address_space of = { .tgid = found.tgid, .slot = slot, .generation = found.generation };

		if (address_spaces_live(spaces, &of, &latest) || is_ending(d, slot, &found))
			continue;
		/* A mapping that is made now is charged after its address space has come to the list. */
		pthread_mutex_lock(&spaces->lock);
		if (!address_spaces_came(spaces, &of, latest))
			cgpu_managed_ended(&d->core, &found);
		pthread_mutex_unlock(&spaces->lock);
	}
}

static void take_up(struct cgpud *d, u32 slot)
{
	struct cgpu_managed found;
	u32 cursor = 0;

	while (cgpu_managed_next(&d->core, slot, &cursor, &found) == 0) {
		struct address_space space = {
			.tgid = found.tgid, .started = found.started, .slot = slot, .generation = found.generation
		};

		address_spaces_take_up(&d->managed.spaces, &space);
	}
}

void managed_take_up(struct cgpud *d)
{
	struct cgpu_container_info info;
	u32 at;

	for (at = 0; cgpu_container_next(&d->core, at, &info) == 0; at = info.slot + 1)
		take_up(d, info.slot);
	take_up(d, CGPU_ORPHANS);
}
