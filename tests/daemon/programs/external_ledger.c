// SPDX-License-Identifier: Apache-2.0
/*
 * Recovery of mappings by UVM from a dead engine, at each step where that may have died: the parts of cgpud with a
 * core, and without a driver. Linked with --wrap for functions that ask the driver and the kernel.
 */
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bench.h"
#include "engine.h"
#include "external.h"
#include "files.h"
#include "uvm.h"

#define SLICE (6043 * MIB)
#define CLIENT 0xc1u
#define HANDLE 0x51u
#define SIZE (600 * MIB)
#define BASE 0x300000000000ull

/* Answers of the kernel and the driver. */
static s32 alive[4];
static u32 unmapped;
static int is_uvm = 1;
static u64 started; /* of all processes */
static int no_memory;
static struct cgpud *watched;
static u32 asked_with_lock;

int __wrap_process_has_ended(s32 tgid);
int __wrap_devices_identify(struct devices *devices, const struct identity *identity, enum cgpu_device *kind, u32 *gpu);
int __wrap_uvm_take_away(const struct nv_abi *abi, int fd, const struct external_map *map, u32 *status);
void __wrap_workers_wake(struct cgpud *d);
u64 __wrap_look_started(const struct asker *asker, s32 tid);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

u64 __wrap_look_started(const struct asker *asker, s32 tid)
{
	return started;
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	return no_memory ? NULL : __real_calloc(n, bytes);
}

int __wrap_process_has_ended(s32 tgid)
{
	u32 i;

	if (watched && pthread_mutex_trylock(&watched->external.lock))
		asked_with_lock++;
	else if (watched)
		pthread_mutex_unlock(&watched->external.lock);
	for (i = 0; i < sizeof(alive) / sizeof(alive[0]); i++) {
		if (alive[i] == tgid)
			return 0;
	}
	return 1;
}

int __wrap_devices_identify(struct devices *devices, const struct identity *identity, enum cgpu_device *kind, u32 *gpu)
{
	*kind = is_uvm ? CGPU_DEVICE_UVM : CGPU_DEVICE_OTHER;
	*gpu = 0;
	return 1;
}

int __wrap_uvm_take_away(const struct nv_abi *abi, int fd, const struct external_map *map, u32 *status)
{
	unmapped++;
	*status = NV_OK;
	return 0;
}

void __wrap_workers_wake(struct cgpud *d)
{
}

struct harness {
	struct bench *bench;
	struct cgpud *d;
	struct external_store *store;
	struct caller caller;
	int file; /* what it maps by */
};

/* An engine on the state and store that there are. */
static void take_over(struct harness *harness)
{
	struct cgpud *before = harness->d;

	harness->d = calloc(1, sizeof(*harness->d));
	CHECK(harness->d);
	harness->d->core = harness->bench->core;
	events_open(&harness->d->events, -1);
	CHECK_EQ(looks_open(&harness->d->looks, &harness->d->core, &harness->d->events), 0);
	if (before)
		CHECK_EQ(cgpu_state_recover(harness->bench->core.state), 0);
	CHECK_EQ(external_open(harness->d, harness->store), 0);
	if (before) {
		external_close(before);
		free(before);
		external_take_up(harness->d);
	}
}

static u64 used(const struct harness *harness)
{
	return bench_used(harness->bench, 0, harness->caller.slot);
}

static struct external_request request_of(const struct harness *harness)
{
	static const u8 uuid[EXTERNAL_UUID] = { 1 };

	return (struct external_request){ .caller = { .slot = harness->caller.slot,
						  .generation = harness->caller.generation,
						  .user = { getpid(), getpid(), harness->file, (u32)started } },
		.client = CLIENT,
		.handle = HANDLE,
		.start = BASE,
		.end = BASE + SIZE,
		.count = 1,
		.stride = EXTERNAL_UUID,
		.uuid = uuid };
}

static void map(struct harness *harness)
{
	struct external_request request = request_of(harness);
	int fd = dup(harness->file);

	CHECK_EQ(external_add(harness->d, &request, &fd), 0);
	if (fd >= 0)
		close(fd);
}

/* Ours is the process that has the file by which memory is mapped. */
static struct harness with_mapping(void)
{
	struct memory_ask ask = { .client = CLIENT, .parent = 0xd0, .object = HANDLE, .size = SIZE, .attr = 2u << 23 };
	struct harness harness = { .bench = bench_new("580.142"), .file = eventfd(0, EFD_CLOEXEC) };

	CHECK_EQ(bench_ctl(harness.bench, "create id=a pid=1 gpu=0:6336544768"), 0);
	harness.caller = bench_caller(harness.bench, "a", getpid());
	bench_cuda_start(harness.bench, &harness.caller, CLIENT);
	CHECK_EQ(bench_vidmem(harness.bench, &harness.caller, 1, &ask), NV_OK);
	harness.store = calloc(1, sizeof(*harness.store));
	CHECK(harness.store && harness.file >= 0);
	alive[0] = getpid();
	take_over(&harness);
	map(&harness);
	return harness;
}

static void free_handle(struct harness *harness)
{
	CHECK_EQ(bench_rm_free(harness->bench, &harness->caller, CLIENT, HANDLE), NV_OK);
}

static u32 mapped_at(const struct harness *harness)
{
	u32 i;

	for (i = 0; i < harness->store->used && harness->store->map[i].serial == 0; i++)
		;
	CHECK(i < harness->store->used);
	return i;
}

/* The end of all files, as the look at ended processes finds it: until then it is charged. */
static void let_go(struct harness *harness)
{
	CHECK_EQ(used(harness), SIZE);
	alive[0] = alive[1] = 0;
	close(harness->file);
	harness->file = -1;
	external_sweep(harness->d, -1);
	CHECK_EQ(used(harness), 0);
	CHECK_EQ(atomic_load(&harness->d->external.files), 0);
}

/* The engine died before the hold of a mapping was confirmed. The call is judged again, and goes on. */
TEST(a_mapping_that_was_not_confirmed_stays_charged)
{
	struct harness harness = with_mapping();
	u32 at;

	at = mapped_at(&harness);
	harness.bench->core.state->object[at].live = CORE_PENDING;
	harness.bench->core.state->object[at].handle = 0;
	take_over(&harness);
	map(&harness);
	cgpu_recover_finish(&harness.d->core);
	bench_invariants(harness.bench->core.state);
	free_handle(&harness);
	let_go(&harness);
}

/* The engine died before a mapping was written down, or after it was crossed out. */
TEST(a_hold_of_no_mapping_goes)
{
	struct harness harness = with_mapping();
	struct external_request request = request_of(&harness);
	struct cgpu_reference_request named = { .slot = harness.caller.slot,
		.generation = harness.caller.generation,
		.tgid = getpid(),
		.client = CLIENT,
		.handle = HANDLE };
	struct external_span span = { .start = BASE, .end = BASE + SIZE, .tid = getpid(), .latest = ~0ull };
	struct memory_ask other = { .client = CLIENT, .parent = 0xd0, .object = 2, .size = MIB, .attr = 2u << 23 };
	struct cgpu_reference hold;

	CHECK_EQ(bench_vidmem(harness.bench, &harness.caller, 1, &other), NV_OK);
	named.handle = 2;
	CHECK_EQ(cgpu_reference_on_file(&harness.d->core, &named, 0, &hold), 0);
	CHECK_EQ(cgpu_reference_confirm(&harness.d->core, &hold), 0);
	take_over(&harness);
	free_handle(&harness);
	CHECK_EQ(bench_rm_free(harness.bench, &harness.caller, CLIENT, 2), NV_OK);
	CHECK_EQ(used(&harness), SIZE);
	span.uuid = request.uuid;
	external_gone(harness.d, 0, &span);
	CHECK_EQ(used(&harness), 0);
	bench_invariants(harness.bench->core.state);
}

static void lose_hold(struct harness *harness)
{
	u32 at = mapped_at(harness);
	struct cgpu_reference hold = { .object = at, .serial = harness->bench->core.state->object[at].serial };

	cgpu_reference_drop(&harness->d->core, &hold);
}

TEST(a_lost_hold_is_made_again)
{
	struct harness harness = with_mapping();

	lose_hold(&harness);
	take_over(&harness);
	CHECK_EQ(unmapped, 0);
	free_handle(&harness);
	let_go(&harness);
}

/* No container is charged for the mapping. */
TEST(a_mapping_that_cannot_be_held_is_unmapped)
{
	struct memory_ask ask = { .client = CLIENT, .parent = 0xd0, .object = HANDLE, .size = MIB, .attr = 2u << 23 };
	struct harness harness = with_mapping();

	lose_hold(&harness);
	free_handle(&harness);
	/* Other memory under its handle is not what is mapped there. */
	CHECK_EQ(bench_vidmem(harness.bench, &harness.caller, 1, &ask), NV_OK);
	take_over(&harness);
	CHECK_EQ(unmapped, 1);
	CHECK_EQ(atomic_load(&harness.d->external.files), 0);
	free_handle(&harness);
	CHECK_EQ(used(&harness), 0);
}

/* A record of the core that comes to lie in the place of a lost one must find no links there. */
TEST(places_are_used_again)
{
	struct harness harness = with_mapping();
	u32 i;

	lose_hold(&harness);
	take_over(&harness);
	for (i = 0; i < 3; i++) {
		map(&harness);
		lose_hold(&harness);
		harness.store->map[mapped_at(&harness)].of = 0;
		take_over(&harness);
		CHECK_EQ(unmapped, i + 1);
	}
}

/* A process that has moved the file to another number while there was no engine has it still. */
TEST(a_living_process_keeps_what_cannot_be_found)
{
	struct harness harness = with_mapping();
	int moved;

	free_handle(&harness);
	moved = fcntl(harness.file, F_DUPFD_CLOEXEC, 100);
	close(harness.file);
	harness.file = moved;
	is_uvm = 0;
	take_over(&harness);
	external_sweep(harness.d, -1);
	let_go(&harness);
}

/* A process that has got the number since has not got the file. */
TEST(a_number_in_use_again_keeps_no_file)
{
	struct harness harness;

	started = 5;
	harness = with_mapping();
	free_handle(&harness);
	is_uvm = 0;
	take_over(&harness);
	external_sweep(harness.d, -1);
	CHECK_EQ(used(&harness), SIZE);
	CHECK_EQ(external_left(harness.d), 0);
	started = 6;
	CHECK_EQ(external_left(harness.d), 1);
	external_sweep(harness.d, -1);
	CHECK_EQ(used(&harness), 0);
	CHECK_EQ(atomic_load(&harness.d->external.files), 0);
}

TEST(a_start_without_memory_forgets_nothing)
{
	struct harness harness = with_mapping();
	struct cgpud *d = calloc(1, sizeof(*d));

	CHECK(d);
	lose_hold(&harness);
	d->core = harness.bench->core;
	no_memory = 1;
	CHECK_EQ(external_open(d, harness.store), -ENOMEM);
	no_memory = 0;
	free(d);
	take_over(&harness);
	CHECK_EQ(unmapped, 0);
	free_handle(&harness);
	let_go(&harness);
}

TEST(files_are_left_when_all_users_have_ended)
{
	struct harness harness = with_mapping();

	harness.store->file[0].user[1] = (struct external_user){ 7, 7, 3, 0 };
	alive[1] = 7;
	watched = harness.d;
	CHECK_EQ(external_left(harness.d), 0);
	alive[0] = 0;
	CHECK_EQ(external_left(harness.d), 0);
	alive[1] = 0;
	CHECK_EQ(external_left(harness.d), 1);
	alive[0] = getpid();
	CHECK_EQ(external_left(harness.d), 0);
	CHECK_EQ(asked_with_lock, 0);
	watched = NULL;
}
