// SPDX-License-Identifier: Apache-2.0
/*
 * What an engine makes of mappings by UVM that the one before left, at each step where that may have died: the parts of
 * cgpud with a core, and without a driver. Linked with --wrap for what asks the driver and the kernel.
 */
#include "external_scene.h"

static struct external_request request_of(const struct scene *scene)
{
	static const u8 uuid[EXTERNAL_UUID] = { 1 };

	return (struct external_request){ .caller = { .slot = scene->caller.slot,
						  .generation = scene->caller.generation,
						  .user = { getpid(), getpid(), scene->file, (u32)started } },
		.client = CLIENT,
		.handle = HANDLE,
		.start = BASE,
		.end = BASE + SIZE,
		.count = 1,
		.stride = EXTERNAL_UUID,
		.uuid = uuid };
}

static int map_at(struct scene *scene, u64 start)
{
	struct external_request request = request_of(scene);
	int fd = dup(scene->file), r;

	request.start = start;
	request.end = start + SIZE;
	r = external_add(scene->d, &request, &fd);
	if (fd >= 0)
		close(fd);
	return r;
}

static int map(struct scene *scene)
{
	return map_at(scene, BASE);
}

static void free_handle(struct scene *scene)
{
	CHECK_EQ(bench_rm_free(scene->bench, &scene->caller, CLIENT, HANDLE), NV_OK);
}

static u32 mapped_at(const struct scene *scene)
{
	u32 i;

	for (i = 0; i < scene->store->used && scene->store->map[i].serial == 0; i++)
		;
	CHECK(i < scene->store->used);
	return i;
}

static void end(struct scene *scene)
{
	external_close(scene->d);
	free(scene->d);
	free(scene->store);
	close(scene->file);
	bench_free(scene->bench);
}

/* The end of all files, as the look at ended processes finds it. */
static void let_go(struct scene *scene)
{
	alive[0] = alive[1] = 0;
	close(scene->file);
	scene->file = -1;
	external_look(scene->d, -1);
	CHECK_EQ(used(scene), 0);
	CHECK_EQ(atomic_load(&scene->d->external.files), 0);
}

/* It died before the hold of a mapping was confirmed. The call is judged again, and goes on. */
static void a_mapping_that_was_not_confirmed_stays_charged(void)
{
	struct scene scene = with_memory();
	u32 at;

	CHECK_EQ(map(&scene), 0);
	at = mapped_at(&scene);
	scene.bench->core.state->object[at].live = CORE_PENDING;
	scene.bench->core.state->object[at].handle = 0;
	take_over(&scene);
	external_take_up(scene.d);
	CHECK_EQ(map(&scene), 0);
	cgpu_recover_finish(&scene.d->core);
	bench_invariants(scene.bench->core.state);
	free_handle(&scene);
	CHECK_EQ(used(&scene), SIZE);
	let_go(&scene);
	end(&scene);
}

/* It died before a mapping was written down, or after it was crossed out. */
static void a_hold_of_no_mapping_goes(void)
{
	struct scene scene = with_memory();
	struct external_request request = request_of(&scene);
	struct cgpu_reference_request named = { .slot = scene.caller.slot,
		.generation = scene.caller.generation,
		.tgid = getpid(),
		.client = CLIENT,
		.handle = HANDLE };
	struct external_span span = { .start = BASE, .end = BASE + SIZE, .tid = getpid(), .latest = ~0ull };
	struct memory_ask other = { .client = CLIENT, .parent = 0xd0, .object = 2, .size = MIB, .attr = 2u << 23 };
	struct cgpu_reference hold;

	CHECK_EQ(map(&scene), 0);
	CHECK_EQ(bench_vidmem(scene.bench, &scene.caller, 1, &other), NV_OK);
	named.handle = 2;
	CHECK_EQ(cgpu_reference_on_file(&scene.d->core, &named, 0, &hold), 0);
	CHECK_EQ(cgpu_reference_confirm(&scene.d->core, &hold), 0);
	take_over(&scene);
	external_take_up(scene.d);
	free_handle(&scene);
	CHECK_EQ(bench_rm_free(scene.bench, &scene.caller, CLIENT, 2), NV_OK);
	CHECK_EQ(used(&scene), SIZE);
	span.uuid = request.uuid;
	external_gone(scene.d, 0, &span);
	CHECK_EQ(used(&scene), 0);
	bench_invariants(scene.bench->core.state);
	end(&scene);
}

static void lose_hold(struct scene *scene)
{
	u32 at = mapped_at(scene);
	struct cgpu_reference hold = { .object = at, .serial = scene->bench->core.state->object[at].serial };

	cgpu_reference_drop(&scene->d->core, &hold);
}

static void a_lost_hold_is_made_again(void)
{
	struct scene scene = with_memory();

	CHECK_EQ(map(&scene), 0);
	lose_hold(&scene);
	take_over(&scene);
	external_take_up(scene.d);
	CHECK_EQ(unmapped, 0);
	free_handle(&scene);
	CHECK_EQ(used(&scene), SIZE);
	let_go(&scene);
	end(&scene);
}

/* Nobody is charged for it. */
static void a_mapping_that_cannot_be_held_is_unmapped(void)
{
	struct memory_ask ask = { .client = CLIENT, .parent = 0xd0, .object = HANDLE, .size = MIB, .attr = 2u << 23 };
	struct scene scene = with_memory();

	CHECK_EQ(map(&scene), 0);
	lose_hold(&scene);
	free_handle(&scene);
	/* Other memory under its handle is not what is mapped there. */
	CHECK_EQ(bench_vidmem(scene.bench, &scene.caller, 1, &ask), NV_OK);
	take_over(&scene);
	external_take_up(scene.d);
	CHECK_EQ(unmapped, 1);
	CHECK_EQ(atomic_load(&scene.d->external.files), 0);
	free_handle(&scene);
	CHECK_EQ(used(&scene), 0);
	end(&scene);
}

/* A record of the core that comes to lie in the place of a lost one must find no links there. */
static void places_are_used_again(void)
{
	struct scene scene = with_memory();
	u32 i;

	CHECK_EQ(map(&scene), 0);
	lose_hold(&scene);
	take_over(&scene);
	external_take_up(scene.d);
	for (i = 0; i < 3; i++) {
		CHECK_EQ(map(&scene), 0);
		lose_hold(&scene);
		scene.store->map[mapped_at(&scene)].of = 0;
		take_over(&scene);
		external_take_up(scene.d);
		CHECK_EQ(unmapped, i + 1);
	}
	end(&scene);
}

/* Who has moved it to another number while there was no engine has it still. */
static void a_living_process_keeps_what_cannot_be_found(void)
{
	struct scene scene = with_memory();
	int moved;

	CHECK_EQ(map(&scene), 0);
	free_handle(&scene);
	moved = fcntl(scene.file, F_DUPFD_CLOEXEC, 100);
	close(scene.file);
	scene.file = moved;
	is_uvm = 0;
	take_over(&scene);
	external_take_up(scene.d);
	external_look(scene.d, -1);
	CHECK_EQ(used(&scene), SIZE);
	let_go(&scene);
	end(&scene);
}

/* Whoever has got its number since has not got the file. */
static void a_number_in_use_again_keeps_no_file(void)
{
	struct scene scene;

	started = 5;
	scene = with_memory();
	CHECK_EQ(map(&scene), 0);
	free_handle(&scene);
	is_uvm = 0;
	take_over(&scene);
	external_take_up(scene.d);
	external_look(scene.d, -1);
	CHECK_EQ(used(&scene), SIZE);
	CHECK_EQ(external_left(scene.d), 0);
	started = 6;
	CHECK_EQ(external_left(scene.d), 1);
	external_look(scene.d, -1);
	CHECK_EQ(used(&scene), 0);
	CHECK_EQ(atomic_load(&scene.d->external.files), 0);
	end(&scene);
}

static void a_start_without_memory_forgets_nothing(void)
{
	struct scene scene = with_memory();
	struct cgpud *d = calloc(1, sizeof(*d));

	CHECK(d);
	CHECK_EQ(map(&scene), 0);
	lose_hold(&scene);
	d->core = scene.bench->core;
	no_memory = 1;
	CHECK_EQ(external_open(d, scene.store), -ENOMEM);
	no_memory = 0;
	free(d);
	take_over(&scene);
	external_take_up(scene.d);
	CHECK_EQ(unmapped, 0);
	free_handle(&scene);
	CHECK_EQ(used(&scene), SIZE);
	let_go(&scene);
	end(&scene);
}

static void files_are_left_when_all_users_have_ended(void)
{
	struct scene scene = with_memory();

	CHECK_EQ(map(&scene), 0);
	scene.store->file[0].user[1] = (struct external_user){ 7, 7, 3, 0 };
	alive[1] = 7;
	watched = scene.d;
	CHECK_EQ(external_left(scene.d), 0);
	alive[0] = 0;
	CHECK_EQ(external_left(scene.d), 0);
	alive[1] = 0;
	CHECK_EQ(external_left(scene.d), 1);
	alive[0] = getpid();
	CHECK_EQ(external_left(scene.d), 0);
	CHECK_EQ(asked_with_lock, 0);
	watched = NULL;
	end(&scene);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(a_mapping_that_was_not_confirmed_stays_charged),
		TEST(a_hold_of_no_mapping_goes),
		TEST(a_lost_hold_is_made_again),
		TEST(a_mapping_that_cannot_be_held_is_unmapped),
		TEST(places_are_used_again),
		TEST(a_living_process_keeps_what_cannot_be_found),
		TEST(a_number_in_use_again_keeps_no_file),
		TEST(a_start_without_memory_forgets_nothing),
		TEST(files_are_left_when_all_users_have_ended),
		{ NULL, NULL },
	};

	return bench_main(argc, argv, tests);
}
