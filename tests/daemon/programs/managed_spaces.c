// SPDX-License-Identifier: Apache-2.0
/*
 * The list of address spaces with managed memory, and when a charge of one ends: the parts of cgpud with a core, without a
 * driver, on processes of the test's own. Linked with --wrap for what the kernel says of a process number.
 */
#include <sys/resource.h>

#include "child.h"
#include "engine.h"
#include "managed.h"

#define SLICE " gpu=0:1048576000"
#define BYTES (64 * MIB)
#define ALL 64u

/* The kernel's answer for every number. */
static int has_ended;
static u64 started = 7;
static int stands = 1;
static struct address_spaces *watched;
static u32 looked_with_lock;
/* Error of a look at mappings, after as many successful ones as mappings_seen. */
static int mappings_error;
static u32 mappings_seen;
/* Looks at mappings until now. With a time that each is said to have taken, each finds one of BYTES. */
static u32 mappings_looks;
static u64 mappings_ns;

int __wrap_notice_stands(const struct notice *notice);
int __wrap_process_has_ended(s32 tgid);
u64 __wrap_look_started(const struct asker *asker, s32 tgid);

int __real_look_lives(const struct asker *asker, int pagemap);
int __wrap_look_lives(const struct asker *asker, int pagemap);
int __real_look_mappings(const struct asker *asker, int maps, mapping_fn each, void *ctx);
int __wrap_look_mappings(const struct asker *asker, int maps, mapping_fn each, void *ctx);

static void note_lock(void)
{
	if (watched && pthread_mutex_trylock(&watched->lock))
		looked_with_lock++;
	else if (watched)
		pthread_mutex_unlock(&watched->lock);
}

int __wrap_look_lives(const struct asker *asker, int pagemap)
{
	note_lock();
	return __real_look_lives(asker, pagemap);
}

int __wrap_look_mappings(const struct asker *asker, int maps, mapping_fn each, void *ctx)
{
	note_lock();
	if (mappings_error && !mappings_seen)
		return mappings_error;
	mappings_seen -= mappings_seen > 0;
	mappings_looks++;
	if (!mappings_ns)
		return __real_look_mappings(asker, maps, each, ctx);
	atomic_fetch_add(&asker->looks->at[asker->slot].mappings_ns, mappings_ns);
	each(ctx, 1ull << 40, (1ull << 40) + BYTES);
	return 0;
}

int __wrap_notice_stands(const struct notice *notice)
{
	return stands;
}

int __wrap_process_has_ended(s32 tgid)
{
	return has_ended;
}

u64 __wrap_look_started(const struct asker *asker, s32 tgid)
{
	return started;
}

struct harness {
	struct bench *bench;
	struct cgpud *d;
	struct caller a, b;
};

static struct cgpud *engine(struct bench *bench)
{
	struct cgpud *d = calloc(1, sizeof(*d));

	CHECK(d);
	d->core = bench->core;
	events_open(&d->events, -1);
	CHECK_EQ(looks_open(&d->looks, &d->core, &d->events), 0);
	managed_open(d, 1);
	return d;
}

static struct harness two_containers(void)
{
	struct harness harness = { .bench = bench_new("580.142") };

	CHECK_EQ(bench_ctl(harness.bench, "create id=a pid=1" SLICE), 0);
	CHECK_EQ(bench_ctl(harness.bench, "create id=b pid=2" SLICE), 0);
	harness.a = bench_caller(harness.bench, "a", 100);
	harness.b = bench_caller(harness.bench, "b", 100);
	harness.d = engine(harness.bench);
	return harness;
}

static int take(struct harness *harness, const struct caller *caller, s32 tgid)
{
	struct address_space wanted = { .tgid = tgid, .slot = caller->slot, .generation = caller->generation };
	struct notice notice = { .listener = -1 };
	int at = address_spaces_take(&harness->d->managed.spaces, &wanted, &notice);

	if (at >= 0)
		address_spaces_put(&harness->d->managed.spaces, (u32)at);
	return at;
}

static void charge(struct harness *harness, const struct caller *caller, s32 tgid)
{
	struct cgpu_managed wanted = { .slot = caller->slot,
		.generation = caller->generation,
		.tgid = tgid,
		.bytes = BYTES,
		.started = (u32)started };

	CHECK(take(harness, caller, tgid) >= 0);
	CHECK_EQ(cgpu_managed_set(&harness->d->core, &wanted), 0);
}

static u64 used(const struct harness *harness, const struct caller *caller)
{
	return bench_used(harness->bench, 0, caller->slot);
}

TEST(one_number_in_two_containers_is_two_spaces)
{
	struct harness harness = two_containers();
	struct address_spaces *spaces = &harness.d->managed.spaces;
	struct address_space of = { .tgid = child_begin(), .slot = harness.a.slot, .generation = harness.a.generation };
	int a = take(&harness, &harness.a, of.tgid), b = take(&harness, &harness.b, of.tgid);

	CHECK(a >= 0 && b >= 0 && a != b);
	CHECK_EQ(take(&harness, &harness.a, of.tgid), a);
	CHECK_EQ(address_spaces_get(spaces, &of, 0), a);
	CHECK_EQ(address_spaces_get(spaces, &of, (u32)a + 1), ADDRESS_SPACES_MAX);
	of.generation++;
	CHECK_EQ(address_spaces_get(spaces, &of, 0), ADDRESS_SPACES_MAX);
	child_end(of.tgid);
}

/* A look is under way: it must not find its files closed, and their numbers in use for others. */
TEST(files_are_not_replaced_under_a_recount)
{
	struct harness harness = two_containers();
	struct address_spaces *spaces = &harness.d->managed.spaces;
	struct address_space of = { .tgid = child_begin(), .slot = harness.a.slot, .generation = harness.a.generation };
	int at = take(&harness, &harness.a, of.tgid), maps = spaces->at[at].maps;

	CHECK_EQ(address_spaces_get(spaces, &of, 0), at);
	CHECK_EQ(take(&harness, &harness.a, of.tgid), -EAGAIN);
	CHECK_EQ(spaces->at[at].maps, maps);
	address_spaces_put(spaces, (u32)at);
	CHECK_EQ(take(&harness, &harness.a, of.tgid), at);
	CHECK(spaces->at[at].maps != maps);
	child_end(of.tgid);
}

TEST(a_number_in_use_again_keeps_no_charge)
{
	struct harness harness = two_containers();
	s32 child = child_begin();

	watched = &harness.d->managed.spaces;
	charge(&harness, &harness.a, child);
	managed_drop_ended(harness.d, harness.a.slot);
	CHECK_EQ(used(&harness, &harness.a), BYTES);
	child_end(child);
	managed_drop_ended(harness.d, harness.b.slot);
	CHECK_EQ(used(&harness, &harness.a), BYTES);
	/* Another one looks for a place first. */
	address_spaces_sweep(&harness.d->managed.spaces, NULL);
	managed_drop_ended(harness.d, harness.a.slot);
	CHECK_EQ(used(&harness, &harness.a), 0);
	/* Others need it while a process keeps a look at it waiting. */
	CHECK_EQ(looked_with_lock, 0);
}

TEST(one_that_has_ended_keeps_what_another_one_uses)
{
	struct harness harness = two_containers();
	s32 child = child_begin();

	charge(&harness, &harness.a, child);
	has_ended = 1;
	managed_drop_ended(harness.d, harness.a.slot);
	CHECK_EQ(used(&harness, &harness.a), BYTES);
	child_end(child);
	managed_drop_ended(harness.d, harness.a.slot);
	CHECK_EQ(used(&harness, &harness.a), 0);
}

TEST(a_removed_container_keeps_what_is_used)
{
	struct harness harness = two_containers();
	s32 child = child_begin();

	charge(&harness, &harness.a, child);
	charge(&harness, &harness.b, child);
	CHECK_EQ(bench_ctl(harness.bench, "destroy id=a"), 0);
	managed_drop_ended(harness.d, CGPU_ORPHANS);
	CHECK_EQ(cgpu_gpu_orphaned(&harness.d->core, 0), BYTES);
	child_end(child);
	managed_drop_ended(harness.d, CGPU_ORPHANS);
	CHECK_EQ(cgpu_gpu_orphaned(&harness.d->core, 0), 0);
	CHECK_EQ(used(&harness, &harness.b), BYTES);
}

/* Its address space is without users before the driver has the memory. */
TEST(a_process_on_its_way_out_keeps_its_charge)
{
	struct harness harness = two_containers();
	s32 child = child_begin();

	charge(&harness, &harness.a, child);
	/* The child is a zombie until we wait for it. */
	kill(child, SIGKILL);
	CHECK_EQ(waitid(P_PID, (id_t)child, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	managed_drop_ended(harness.d, harness.a.slot);
	CHECK_EQ(used(&harness, &harness.a), BYTES);
	child_end(child);
	managed_drop_ended(harness.d, harness.a.slot);
	CHECK_EQ(used(&harness, &harness.a), 0);
}

static void new_engine(struct harness *harness)
{
	address_spaces_close(&harness->d->managed.spaces);
	free(harness->d);
	harness->d = engine(harness->bench);
	managed_take_up(harness->d);
}

TEST(a_new_engine_takes_up_the_process_and_no_other)
{
	struct harness harness = two_containers();
	s32 child = child_begin();

	charge(&harness, &harness.a, child);
	charge(&harness, &harness.b, child);
	CHECK_EQ(bench_ctl(harness.bench, "destroy id=b"), 0);
	new_engine(&harness);
	managed_drop_ended(harness.d, harness.a.slot);
	managed_drop_ended(harness.d, CGPU_ORPHANS);
	CHECK_EQ(used(&harness, &harness.a), BYTES);
	CHECK_EQ(cgpu_gpu_orphaned(&harness.d->core, 0), BYTES);
	started++;
	new_engine(&harness);
	managed_drop_ended(harness.d, harness.a.slot);
	managed_drop_ended(harness.d, CGPU_ORPHANS);
	CHECK_EQ(used(&harness, &harness.a), 0);
	CHECK_EQ(cgpu_gpu_orphaned(&harness.d->core, 0), 0);
	child_end(child);
}

/* The mappings of this process cannot be read: it keeps its charge until it ends. */
TEST(a_process_that_cannot_be_opened_keeps_its_charge)
{
	struct harness harness = two_containers();
	s32 child = child_begin();

	charge(&harness, &harness.a, child);
	child_end(child);
	new_engine(&harness);
	managed_drop_ended(harness.d, harness.a.slot);
	CHECK_EQ(used(&harness, &harness.a), BYTES);
	has_ended = 1;
	managed_drop_ended(harness.d, harness.a.slot);
	CHECK_EQ(used(&harness, &harness.a), 0);
}

TEST(a_container_leaves_the_others_their_shares)
{
	struct harness harness = two_containers();
	s32 child[ALL];
	u32 i, a = 0, b = 0;

	harness.d->managed.spaces.max = ALL;
	for (i = 0; i < ALL; i++) {
		child[i] = child_begin();
		a += take(&harness, &harness.a, child[i]) >= 0;
	}
	/* Half of all is kept for equal shares. */
	CHECK_EQ(a, ALL - ALL / 4);
	for (i = 0; i < ALL; i++)
		b += take(&harness, &harness.b, child[i]) >= 0;
	CHECK_EQ(b, ALL / 4);
	CHECK_EQ(take(&harness, &harness.a, getpid()), -ENOSPC);
	for (i = 0; i < ALL; i++)
		child_end(child[i]);
}

TEST(there_are_as_many_as_descriptors_allow)
{
	struct rlimit limit = { 1000, 1000 };
	struct harness harness;

	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	harness = two_containers();
	CHECK_EQ(harness.d->managed.spaces.max, 250);
}

/* Another process may have the caller's number by then. */
TEST(a_caller_that_waits_no_longer_is_not_looked_at)
{
	struct harness harness = two_containers();
	s32 child = child_begin();

	stands = 0;
	CHECK_EQ(take(&harness, &harness.a, child), -ENOENT);
	stands = 1;
	CHECK(take(&harness, &harness.a, child) >= 0);
	child_end(child);
}

/* A mapping that a process of a container is about to make. */
static struct managed_map map_of(const struct caller *container)
{
	s32 child = child_begin();

	return (struct managed_map){ .slot = container->slot,
		.generation = container->generation,
		.notice = { .listener = -1 },
		.tid = child,
		.tgid = child,
		.start = 1ull << 40,
		.bytes = BYTES };
}

/* A process's mappings are unknown, so nothing is mapped on top of them. */
TEST(mappings_that_cannot_be_counted_let_no_more_be_mapped)
{
	static const int errors[] = { -ETIMEDOUT, -EAGAIN, -EPIPE, -EPROTO, -EACCES, -ENOMEM, -EIO, -EBADF };
	struct harness harness = two_containers();
	struct managed_map map = map_of(&harness.a);
	size_t i;

	atomic_store(&harness.d->enforce, 1);
	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		/* The first look finds its address space, the second one counts. */
		mappings_seen = i == 0 ? 1 : 2;
		mappings_error = errors[i];
		CHECK_EQ(managed_map(harness.d, &map), -EAGAIN);
	}
	/* No process uses it any more: nothing can be mapped there. */
	mappings_seen = 2;
	mappings_error = -ESRCH;
	CHECK_EQ(managed_map(harness.d, &map), 0);
	CHECK_EQ(used(&harness, &harness.a), BYTES);
	child_end(map.tid);
}

/* Recounts by failing allocations, each of which looks once, until the budget is spent. Returns how many looked. */
static u32 recount_often(struct harness *harness, const struct caller *caller)
{
	u32 before = mappings_looks, i;

	for (i = 0; i < 1000; i++)
		managed_recount(harness->d, caller->slot, caller->generation, 0);
	return mappings_looks - before;
}

static u32 recount_stale_often(struct harness *harness, const struct caller *caller)
{
	u32 before = mappings_looks, i;

	for (i = 0; i < 1000; i++) {
		atomic_store(&harness->d->managed.container[caller->slot].recounted, 0);
		managed_recount_stale(harness->d, caller->slot, caller->generation, 0);
	}
	return mappings_looks - before;
}

/* A look of 100 ms costs two seconds of the budget, of which there are 20. Other containers have budgets of their own. */
TEST(looks_at_many_mappings_have_a_budget)
{
	struct harness harness = two_containers();
	s32 child = child_begin();
	u32 looks;

	charge(&harness, &harness.a, child);
	charge(&harness, &harness.b, child);
	mappings_ns = 100000000;
	looks = recount_stale_often(&harness, &harness.a);
	CHECK(looks >= 5 && looks <= 7);
	/* The rest is for calls that find no room. */
	looks += recount_often(&harness, &harness.a);
	CHECK(looks >= 10 && looks <= 13);
	CHECK(recount_often(&harness, &harness.b) >= 10);
	CHECK_EQ(bench_ctl(harness.bench, "destroy id=a"), 0);
	CHECK_EQ(bench_ctl(harness.bench, "create id=c pid=3" SLICE), 0);
	harness.a = bench_caller(harness.bench, "c", 100);
	charge(&harness, &harness.a, child);
	CHECK(recount_often(&harness, &harness.a) >= 10);
	child_end(child);
}

TEST(a_spent_budget_lets_no_more_be_mapped)
{
	struct harness harness = two_containers();
	struct managed_map map = map_of(&harness.a);
	u32 looks;

	atomic_store(&harness.d->enforce, 1);
	CHECK_EQ(managed_map(harness.d, &map), 0);
	mappings_ns = 2000000000;
	recount_often(&harness, &harness.a);
	looks = mappings_looks;
	CHECK_EQ(managed_map(harness.d, &map), -EAGAIN);
	CHECK_EQ(mappings_looks, looks);
	CHECK_EQ(used(&harness, &harness.a), BYTES);
	child_end(map.tid);
}
