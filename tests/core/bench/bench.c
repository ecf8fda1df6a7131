// SPDX-License-Identifier: Apache-2.0
#include "bench.h"

static u32 locks_held; /* of all benches */
static struct bench *benches;

#ifdef CORE_ASSERT_LOCKED
void core_assert_locked(void)
{
	CHECK(locks_held > 0);
}
#endif

static void on_lock(void *ctx)
{
	struct bench *bench = ctx;

	CHECK_EQ(bench->locked, 0);
	bench->locked = 1;
	locks_held++;
}

static void on_unlock(void *ctx)
{
	struct bench *bench = ctx;

	CHECK_EQ(bench->locked, 1);
	bench->locked = 0;
	locks_held--;
}

static void on_log(void *ctx, int level, const char *line)
{
	struct bench *bench = ctx;

	CHECK(strchr(line, '\n') == NULL);
	if (level == CGPU_LOG_EVENT) {
		CHECK_EQ(bench->locked, 0);
		snprintf(bench->event, sizeof(bench->event), "%s", line);
		bench->events++;
		return;
	}
	CHECK(level == 3 || level == 4 || level == 6);
	snprintf(bench->log, sizeof(bench->log), "%s", line);
	bench->logged++;
}

static int on_cgroup(void *ctx, s32 pid, char *path, size_t bytes)
{
	struct bench *bench = ctx;

	CHECK_EQ(bench->locked, 0);
	if (bench->at_cgroup)
		bench->at_cgroup(bench);
	if (bench->process_missing)
		return -ESRCH;
	if (bench->unknown) {
		snprintf(path, bytes, "%s", bench->unknown);
		return -EINVAL;
	}
	snprintf(path, bytes, "/box/%d", pid);
	return 0;
}

static u64 on_clock(void *ctx)
{
	return ((struct bench *)ctx)->now;
}

static void on_turn(void *ctx, u32 gpu)
{
	struct bench *bench = ctx;

	CHECK_EQ(bench->locked, 1);
	bench->turned |= 1u << gpu;
}

static void on_orphans(void *ctx)
{
	struct bench *bench = ctx;

	CHECK_EQ(bench->locked, 0);
	if (bench->at_orphans)
		bench->at_orphans(bench);
}

static void add_card(struct bench *bench, u32 index)
{
	struct cgpu_gpu_facts facts = { .index = index, .minor = index, .gpu_id = 0x100 + index };

	facts.device_instance = index;
	facts.memtotal = CARD_BYTES;
	snprintf(facts.uuid, sizeof(facts.uuid), "GPU-%u", index);
	snprintf(facts.name, sizeof(facts.name), "Test T4");
	CHECK_EQ(cgpu_gpu_add(&bench->core, &facts), 0);
}

void bench_settings(struct bench *bench, u32 enforce, u32 allow_zero_weight)
{
	struct cgpu_settings settings = { .engine = "cgpud", .version = "0.1.0" };

	settings.major = 195;
	settings.enforce = enforce;
	settings.allow_zero_weight = allow_zero_weight;
	settings.policy = 1;
	settings.max_inst = 20;
	settings.prio_ratio = 80;
	CHECK_EQ(cgpu_settings_apply(&bench->core, &settings), 0);
}

struct bench *bench_new(const char *driver)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	CHECK(bench);
	bench->next = benches;
	benches = bench;
	bench->ops.lock = on_lock;
	bench->ops.unlock = on_unlock;
	bench->ops.log = on_log;
	bench->ops.cgroup_of = on_cgroup;
	bench->ops.orphans = on_orphans;
	bench->ops.clock = on_clock;
	bench->ops.round = on_turn;
	bench->core.ops = &bench->ops;
	bench->core.ctx = bench;
	bench->core.abi = cgpu_abi_nearest(driver);
	CHECK(bench->core.abi);
	bench->core.state = malloc(cgpu_state_bytes());
	CHECK(bench->core.state);
	cgpu_state_init(bench->core.state, 0x1f2e3d4c5b6a7988ull);
	bench->driver_page = 65536;
	bench_settings(bench, 1, 0);
	add_card(bench, 0);
	add_card(bench, 1);
	return bench;
}

u32 bench_chance(u64 *seed, u32 below)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return (u32)((*seed >> 20) % below);
}

void bench_free(struct bench *bench)
{
	struct bench **at = &benches;

	while (*at != bench)
		at = &(*at)->next;
	*at = bench->next;
	bench_invariants(bench->core.state);
	free(bench->core.state);
	free(bench);
}

int bench_ctl(struct bench *bench, const char *text)
{
	int err = cgpu_inst_ctl(&bench->core, text, strlen(text), &bench->why);
	size_t length = strnlen(bench->why.text, sizeof(bench->why.text));

	CHECK(err ? length > 1 && strchr(bench->why.text, '\n') == bench->why.text + length - 1 : length == 0);
	return err;
}

struct caller bench_caller(struct bench *bench, const char *id, s32 tgid)
{
	struct cgpu_container_info info;
	struct caller caller = { .tgid = tgid, .device = CGPU_DEVICE_CTL };

	CHECK_EQ(cgpu_container_find(&bench->core, id, &info), 0);
	caller.slot = info.slot;
	caller.generation = info.generation;
	return caller;
}

long bench_read(struct bench *bench, const char *path, char *text, size_t bytes)
{
	struct cgpu_node node;
	int err = cgpu_tree_lookup(&bench->core, path, &node);
	long length = err ? err : cgpu_tree_read(&bench->core, &node, text, bytes - 1);

	text[length < 0 ? 0 : length] = 0;
	return length;
}

int bench_write(struct bench *bench, const char *path, const char *value)
{
	struct cgpu_node node;
	int err = cgpu_tree_lookup(&bench->core, path, &node);

	return err ? err : cgpu_tree_write(&bench->core, &node, value, strlen(value), NULL);
}

int bench_is(struct bench *bench, const char *path, const char *text)
{
	char found[CGPU_TREE_TEXT_MAX];
	long length = bench_read(bench, path, found, sizeof(found));

	if (length >= 0 && strcmp(found, text) == 0)
		return 1;
	fprintf(stderr, "%s is \"%s\" (%ld), not \"%s\"\n", path, found, length, text);
	return 0;
}

void bench_orphans_gone(struct bench *bench)
{
	u32 cursor = 0, client;
	s32 tgid;

	while (cgpu_orphan_next(&bench->core, &cursor, &tgid, &client) == 0)
		CHECK_EQ(cgpu_orphan_gone(&bench->core, tgid, client), 0);
}

u64 bench_used(struct bench *bench, u32 gpu, u32 slot)
{
	const struct core_instance *instance = core_instance_of(bench->core.state, gpu, slot, NULL);

	CHECK(instance);
	return instance->used;
}

static struct test *tests, **last_test = &tests; /* in the order of the file */

void bench_add(struct test *test)
{
	*last_test = test;
	last_test = &test->next;
}

/* "--list", or the name of one test. */
int main(int argc, char **argv)
{
	const struct test *test;

	for (test = tests; test; test = test->next) {
		if (argc == 2 && strcmp(argv[1], "--list") == 0)
			puts(test->name);
		else if (argc == 2 && strcmp(argv[1], test->name) == 0)
			test->run();
	}
	while (benches)
		bench_free(benches);
	return argc == 2 ? 0 : 2;
}
