// SPDX-License-Identifier: Apache-2.0
/* Taking up a state after its owner died anywhere, or after it was damaged. */
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include "stats.h"

#define SKIPPED 77

static u64 seed = 0x9e3779b97f4a7c15ull;

static void fill(struct bench *bench)
{
	struct memory_ask ask = { .client = 0xc1, .parent = 0xd0, .size = MIB };
	struct caller caller;

	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:104857600:2 gpu=1:104857600"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=2 gpu=0:104857600"), 0);
	CHECK_EQ(bench_ctl(bench, "reserve id=s gpu=0:104857600:2:1"), 0);
	CHECK_EQ(bench_ctl(bench, "reserve id=t gpu=0:1048576"), 0);
	CHECK_EQ(bench_ctl(bench, "destroy id=u"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=u pid=3 share=s"), 0);
	caller = bench_caller(bench, "a", 100);
	bench_cuda_start(bench, &caller, 0xc1);
	for (ask.object = 1; ask.object < 20; ask.object++)
		CHECK_EQ(bench_vidmem(bench, &caller, 1, &ask), NV_OK);
	caller.tgid = 101;
	bench_cuda_start(bench, &caller, 0xc2);
	CHECK_EQ(bench_dup(bench, &caller, 0xc2, 0xd0, 5, 0xc1, 5), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 7), NV_OK);
	CHECK_EQ(bench_ctl(bench, "destroy id=b"), 0);
}

static void check_refused(struct bench *bench, struct cgpu_state *fresh)
{
	CHECK_EQ(cgpu_state_recover(bench->core.state), -EINVAL);
	CHECK_EQ(cgpu_state_convert(fresh, bench->core.state), -EPROTO);
}

TEST_ON(another_layout_is_refused, bench_new("580.142"))
{
	struct cgpu_state *state = bench->core.state, *fresh = calloc(1, cgpu_state_bytes());

	CHECK(fresh);
	state->magic++;
	check_refused(bench, fresh);
	state->magic--;
	state->version++;
	check_refused(bench, fresh);
	state->version--;
	state->bytes--;
	check_refused(bench, fresh);
	state->bytes++;
	CHECK_EQ(cgpu_state_recover(state), 0);
	CHECK_EQ(cgpu_state_convert(fresh, state), 0);
	CHECK_EQ(fresh->version, cgpu_state_version());
	bench_invariants(fresh);
	free(fresh);
}

static struct bench *snapshot;

static void take_snapshot(struct bench *bench)
{
	memcpy(snapshot->core.state, bench->core.state, cgpu_state_bytes());
}

/* The same as to convert and then recover, also where records in the middle are free. */
TEST_ON(a_state_is_taken_over_by_what_is_in_use, bench_new("580.142"))
{
	size_t bytes = cgpu_state_bytes();
	struct cgpu_state *taken = calloc(1, bytes), *converted = calloc(1, bytes);
	u32 used, i;

	CHECK(taken && converted);
	fill(bench);
	/* Its duplicate, which came last, stays. */
	CHECK_EQ(cgpu_client_gone(&bench->core, 100, 0xc1), 0);
	cgpu_state_init(taken, 0);
	CHECK_EQ(cgpu_state_take_over(taken, bench->core.state), 0);
	CHECK_EQ(cgpu_state_convert(converted, bench->core.state), 0);
	CHECK_EQ(cgpu_state_recover(converted), 0);
	bench_invariants(taken);
	used = core_objects_used(converted);
	CHECK(used > 0 && used == core_objects_used(taken));
	CHECK_EQ(memcmp(taken, converted, offsetof(struct cgpu_state, object)), 0);
	CHECK_EQ(memcmp(taken->object, converted->object, used * sizeof(taken->object[0])), 0);
	CHECK_EQ(memcmp(taken->memory, converted->memory, used * sizeof(taken->memory[0])), 0);
	CHECK_EQ(memcmp(taken->reservation, converted->reservation, sizeof(taken->reservation)), 0);
	CHECK_EQ(memcmp(taken->reservation, bench->core.state->reservation, sizeof(taken->reservation)), 0);
	CHECK_EQ(memcmp(taken->stat.gpu, converted->stat.gpu, sizeof(taken->stat.gpu)), 0);
	CHECK_EQ(memcmp(taken->stat.container, bench->core.state->stat.container, sizeof(taken->stat.container)), 0);
	/* Every other record is in a list of free ones. */
	for (i = taken->object_free, used = 0; i != CORE_NONE; i = taken->object[i].next)
		used++;
	CHECK_EQ(used, CGPU_MAX_OBJECTS - taken->objects);
	taken->bytes++;
	CHECK_EQ(cgpu_state_take_over(converted, taken), -EPROTO);
	free(taken);
	free(converted);
}

/* Counters are not believed blindly, and their owner is gone. */
TEST_ON(counters_of_nobody_are_dropped, bench_new("580.142"))
{
	struct cgpu_state *state = bench->core.state;
	struct core_stat *stat = &state->stat;

	fill(bench);
	caller = bench_caller(bench, "a", 100);
	stat->gpu[0].instance[0].peak = ~0ull;
	stat->gpu[0].instance[0].throttled = 7;
	stat->gpu[0].instance[0].sampled = 7;
	stat->gpu[0].instance[20].throttled = 7;
	stat->gpu[5].usage = 7;
	stat->gpu[0].disabled = ~0u;
	stat->container[caller.slot].refused[0] = 3;
	stat->container[400].refused[0] = 3;
	CHECK_EQ(cgpu_state_recover(state), 0);
	CHECK_STAT("0/a/stat", "peak", 18 * MIB);
	CHECK_STAT("0/a/stat", "throttled", 7);
	CHECK_STAT("0/a/stat", "refused_class", 3);
	CHECK_STAT("stat", "restarts", 1);
	CHECK_EQ(stat->gpu[0].instance[0].sampled, 0);
	CHECK_EQ(stat->gpu[0].instance[20].throttled, 0);
	CHECK_EQ(stat->gpu[5].usage, 0);
	CHECK_EQ(stat->gpu[0].disabled, 0);
	CHECK_EQ(stat->container[400].refused[0], 0);
}

static struct core_reservation *reservation_of(struct bench *bench, u32 number)
{
	return &bench->core.state->reservation[0][number];
}

TEST_ON(reservations_that_make_no_sense_are_dropped, bench_new("580.142"))
{
	struct cgpu_state *state = bench->core.state;
	u32 which;

	for (which = 0; which < 8; which++) {
		struct core_reservation *bad;

		CHECK_EQ(bench_ctl(bench, "reserve id=good gpu=0:1048576"), 0);
		CHECK_EQ(bench_ctl(bench, "reserve id=bad gpu=0:1048576"), 0);
		bad = reservation_of(bench, 1);
		if (which == 0)
			memset(bad->id, 'x', sizeof(bad->id));
		else if (which == 1)
			bad->id[0] = '/';
		else if (which == 2)
			memcpy(bad->id, "good", sizeof("good"));
		else if (which == 3)
			bad->slice.memsize = 0;
		else if (which == 4)
			bad->slice.memsize = ~0ull;
		else if (which == 5)
			bad->slice.weight = CGPU_MAX_INST + 1;
		else if (which == 6)
			bad->slice.highprio = 2;
		else
			bad->live++;
		CHECK_EQ(cgpu_state_recover(state), 0);
		CHECK(bench_is(bench, "0/reserved", "good 1048576 1 0 -\n"));
		bench_invariants(state);
	}
	/* A reservation of a card that is not there. */
	state->reservation[7][0] = *reservation_of(bench, 0);
	memcpy(state->reservation[7][0].id, "away", sizeof("away"));
	CHECK_EQ(cgpu_state_recover(state), 0);
	CHECK_EQ(state->reservation[7][0].live, 0);
	/* Not even a state promises a byte twice. */
	reservation_of(bench, 0)->slice.memsize = CARD_BYTES;
	CHECK_EQ(cgpu_state_recover(state), 0);
	*reservation_of(bench, 3) = *reservation_of(bench, 0);
	reservation_of(bench, 3)->slice.memsize = 1;
	memcpy(reservation_of(bench, 3)->id, "more", sizeof("more"));
	CHECK_EQ(cgpu_state_recover(state), -EINVAL);
	reservation_of(bench, 3)->live = 0;
	CHECK_EQ(cgpu_state_recover(state), 0);
}

/* A container that came later by the same number of its generation would use what it never asked for. */
TEST_ON(who_died_uses_no_reservation, bench_new("580.142"))
{
	CHECK_EQ(bench_ctl(bench, "reserve id=s gpu=0:1048576"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 share=s"), 0);
	bench->core.state->container[0].live = 0;
	bench->core.state->generation = 0;
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=1 gpu=0:1048576"), 0);
	CHECK(bench_is(bench, "0/reserved", "s 1048576 1 0 -\n"));
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 share=s"), 0);
	CHECK(bench_is(bench, "0/reserved", "s 1048576 1 0 a\n"));
}

/* The daemon dies while the driver works: whether the driver did it is unknown, so it stays charged. */
TEST_ON(calls_under_way_stay_charged, bench_new("580.142"))
{
	struct memory_ask ask = { .client = 0xc1, .parent = 0xd0, .object = 50, .size = 3 * MIB, .attr = 2u << 23 };

	snapshot = bench_new("580.142");
	fill(bench);
	caller = bench_caller(bench, "a", 100);
	bench->at_execute = take_snapshot;
	CHECK_EQ(bench_vidmem(bench, &caller, 1, &ask), NV_OK);
	CHECK_EQ(cgpu_state_recover(snapshot->core.state), 0);
	bench_invariants(snapshot->core.state);
	CHECK_EQ(bench_used(snapshot, 0, caller.slot), 21 * MIB);
	CHECK_EQ(cgpu_client_gone(&snapshot->core, 100, 0xc1), 0);
	CHECK_EQ(bench_used(snapshot, 0, caller.slot), MIB);
	bench_free(snapshot);
}

/* State that recovery lets pass must go on working: registering, allocating, freeing, listing. */
static void use(struct bench *bench)
{
	struct memory_ask ask = { .client = 0xcc, .parent = 0xd0, .object = 1, .size = MIB };
	struct cgpu_container_info info;
	struct caller caller;
	char text[4096];
	u32 slot = 0;

	bench_invariants(bench->core.state);
	while (cgpu_container_next(&bench->core, slot, &info) == 0) {
		slot = info.slot + 1;
		caller = bench_caller(bench, info.id, 4000);
		if (bench_device(bench, &caller, 0xcc, 0xd0, 0) == NV_OK)
			bench_vidmem(bench, &caller, 1, &ask);
		snprintf(text, sizeof(text), "0/%.12s/meminfo", info.id);
		bench_read(bench, text, text, sizeof(text));
		cgpu_container_remove(&bench->core, info.slot, info.generation);
		bench_orphans_gone(bench);
	}
	bench_orphans_gone(bench);
	bench_invariants(bench->core.state);
	CHECK_EQ(bench->core.state->objects, 0);
	CHECK_EQ(bench->core.state->clients, 0);
}

/* Records, not the whole: most of the state is free records, where damage would mean nothing. */
static void damage(struct cgpu_state *state)
{
	u8 *part[] = { (u8 *)state, (u8 *)state->gpu, (u8 *)state->container, (u8 *)state->client, (u8 *)state->object,
		(u8 *)state->memory, (u8 *)state->reservation, (u8 *)&state->stat };
	static const u32 bytes[] = { 512, 2 * sizeof(struct core_gpu), 2 * sizeof(struct core_container),
		3 * sizeof(struct core_client), 24 * sizeof(struct core_object), 24 * sizeof(struct core_memory),
		3 * sizeof(struct core_reservation),
		sizeof(struct core_engine_stat) + 2 * sizeof(struct core_gpu_stat) };
	u32 times = 1 + bench_chance(&seed, 4), which;

	while (times--) {
		/* The head of the state seldom: it is refused at once. */
		which = bench_chance(&seed, 16) ? 1 + bench_chance(&seed, 7) : 0;
		part[which][bench_chance(&seed, bytes[which])] =
			bench_chance(&seed, 2) ? (u8)bench_chance(&seed, 256) : 0xff;
	}
}

TEST_ON(damage_is_repaired_or_refused, bench_new("580.142"))
{
	struct bench *victim = bench_new("580.142");
	u32 passed = 0, i;

	fill(bench);
	for (i = 0; i < 80; i++) {
		memcpy(victim->core.state, bench->core.state, cgpu_state_bytes());
		damage(victim->core.state);
		if (cgpu_state_recover(victim->core.state))
			continue;
		passed++;
		use(victim);
	}
	CHECK(passed > 15);
	bench_free(bench);
	cgpu_state_init(victim->core.state, 1);
	bench_free(victim);
}

/* Links and sums hold nothing that the records do not: with all of them destroyed, everything is as before. */
TEST_ON(links_and_sums_are_made_anew, bench_new("580.142"))
{
	struct cgpu_state *state = bench->core.state;
	u32 i;

	fill(bench);
	memset(state->client_hash, 0xa5, sizeof(state->client_hash));
	memset(state->file_hash, 0xa5, sizeof(state->file_hash));
	memset(state->tgid_hash, 0xa5, sizeof(state->tgid_hash));
	memset(state->object_hash, 0xa5, sizeof(state->object_hash));
	state->clients = state->objects = state->containers = 12345;
	state->client_free = state->object_free = state->memory_free = 3;
	for (i = 0; i < CGPU_MAX_OBJECTS; i++) {
		struct core_object *object = &state->object[i];

		object->next = object->child = object->after = object->before = object->alias = 7;
		object->alias_before = 7;
		state->memory[i].first = 9;
	}
	for (i = 0; i < CGPU_MAX_CLIENTS; i++) {
		state->client[i].next = state->client[i].tgid_next = state->client[i].first = 11;
		state->client[i].tgid_before = state->client[i].file_next = state->client[i].file_before = 11;
		state->client[i].memories = state->client[i].objects = 11;
		memset(state->client[i].charged, 0x11, sizeof(state->client[i].charged));
	}
	CHECK_EQ(cgpu_state_recover(state), 0);
	bench_invariants(state);
	CHECK_EQ(bench_used(bench, 0, 0), 18 * MIB);
	use(bench);
}

/* One life, in steps between which nothing may be half done. */
static void life(struct bench *bench)
{
	struct memory_ask ask = { .client = 0xc5, .parent = 0xd0, .object = 1, .size = MIB };
	struct caller caller;

	bench_ctl(bench, "reserve id=s gpu=0:524288:1");
	bench_ctl(bench, "reserve id=t gpu=0:524288:2");
	bench_ctl(bench, "reserve id=v gpu=1:1048576");
	bench_ctl(bench, "create id=c pid=3 share=s share=t share=v");
	caller = bench_caller(bench, "c", 400);
	bench_device(bench, &caller, 0xc5, 0xd0, 0);
	bench_vidmem(bench, &caller, 1, &ask);
	bench_dup(bench, &caller, 0xc5, 0xd0, 2, 0xc5, 1);
	bench_rm_free(bench, &caller, 0xc5, 1);
	bench_rm_free(bench, &caller, 0xc5, 0xd0);
	bench_device(bench, &caller, 0xc5, 0xd0, 0);
	bench_vidmem(bench, &caller, 1, &ask);
	bench_dup(bench, &caller, 0xc6, 0xd0, 2, 0xc5, 1);
	bench_ctl(bench, "destroy id=c");
	cgpu_orphan_gone(&bench->core, 400, 0xc5);
	cgpu_orphan_gone(&bench->core, 400, 0xc6);
	bench_ctl(bench, "release id=s");
}

/* Whether the text of a node is one of these. */
static int is_one_of(struct bench *bench, const char *path, const char *const *texts)
{
	char found[512] = "";
	long length = bench_read(bench, path, found, sizeof(found) - 1);

	CHECK(length >= 0);
	found[length] = 0;
	while (*texts && strcmp(found, *texts))
		texts++;
	return *texts != NULL;
}

/* Each reservation is whole or not there, those of a container are used all or none, and none is lost. */
static void check_reservations(struct bench *bench, int used)
{
	static const char *const before[] = { "", "s 524288 1 0 -\n", "s 524288 1 0 -\nt 524288 2 0 -\n",
		"t 524288 2 0 -\n", NULL };
	static const char *const during[] = { "s 524288 1 0 c\nt 524288 2 0 c\n", NULL };
	static const char *const second[] = { "", "v 1048576 1 0 -\n", NULL };
	static const char *const second_during[] = { "v 1048576 1 0 c\n", NULL };

	CHECK(is_one_of(bench, "0/reserved", used ? during : before));
	CHECK(is_one_of(bench, "1/reserved", used ? second_during : second));
}

static void check_dead(struct bench *bench, const struct cgpu_state *shared)
{
	struct cgpu_container_info info;

	memcpy(bench->core.state, shared, cgpu_state_bytes());
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	/* All of a registration or nothing of it. */
	if (cgpu_container_find(&bench->core, "c", &info) == 0) {
		CHECK(bench_is(bench, "0/c/weight", "3\n"));
		CHECK(bench_is(bench, "1/c/weight", "1\n"));
		CHECK(bench_is(bench, "0/policy", "2\n"));
		CHECK(bench_used(bench, 0, info.slot) <= MIB);
		CHECK(bench_is(bench, "0/free_weight", "17\n"));
		check_reservations(bench, 1);
	} else {
		static const char *const weights[] = { "20\n", "19\n", "17\n", "18\n", NULL };

		CHECK(is_one_of(bench, "0/free_weight", weights));
		check_reservations(bench, 0);
		CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 0), bench->core.state->clients ? MIB : 0);
	}
	use(bench);
}

/* Run a life one instruction at a time, looking at what would be left if it ended there. */
TEST_ON(death_at_any_instruction_is_survived, bench_new("580.142"))
{
	struct bench *heir = bench_new("580.142");
	struct cgpu_state *own = bench->core.state;
	void *shared = mmap(NULL, cgpu_state_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	u32 step = 0, next = 0, sampling = 0;
	int status;
	pid_t child;

	CHECK(shared != MAP_FAILED);
	memcpy(shared, bench->core.state, cgpu_state_bytes());
	bench->core.state = shared;
	child = fork();
	if (child == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(SKIPPED);
		raise(SIGSTOP);
		life(bench);
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED)
		exit(SKIPPED);
	for (; WIFSTOPPED(status); step++) {
		if (step == next) {
			check_dead(heir, shared);
			next += 1 + bench_chance(&seed, 4000);
			sampling++;
		}
		CHECK_EQ(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
		CHECK_EQ(waitpid(child, &status, 0), child);
	}
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	fprintf(stderr, "%u instructions, %u samples\n", step, sampling);
	CHECK(sampling > 50);
	munmap(shared, cgpu_state_bytes());
	bench->core.state = own;
}
