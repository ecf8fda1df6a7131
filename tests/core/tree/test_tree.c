// SPDX-License-Identifier: Apache-2.0
/* The nodes and their formats, cards, driver versions. */
#include "slices.h"

/* Whether the count has moved since the last time. */
static int names_changed(struct bench *bench, u32 *last)
{
	u32 now = cgpu_tree_changes(&bench->core);
	int changed = now != *last;

	*last = now;
	return changed;
}

TEST_ON(changes_of_names_are_counted, bench_new("580.142"))
{
	struct cgpu_gpu_facts facts = { .index = 2, .minor = 2, .memtotal = 1 << 30, .uuid = "GPU-new", .name = "new" };
	u32 last = cgpu_tree_changes(&bench->core);

	CHECK_EQ(bench_write(bench, "default_memsize", "1048576"), 0);
	CHECK_EQ(bench_write(bench, "0/policy", "5"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=9:1"), -ENOENT);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK(!names_changed(bench, &last));
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1048576"), 0);
	CHECK(names_changed(bench, &last));
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK(names_changed(bench, &last));
	CHECK_EQ(cgpu_gpu_add(&bench->core, &facts), 0);
	CHECK(names_changed(bench, &last));
}

TEST_ON(cards_keep_their_place, bench_new("580.142"))
{
	struct cgpu_gpu_facts facts;

	CHECK_EQ(cgpu_gpu_facts(&bench->core, 0, &facts), 0);
	facts.minor = 5;
	CHECK_EQ(cgpu_gpu_add(&bench->core, &facts), 0);
	CHECK(bench_is(bench, "0/minor", "5\n"));
	facts.index = 1;
	CHECK_EQ(cgpu_gpu_add(&bench->core, &facts), -EEXIST);
	facts.index = CGPU_MAX_GPUS;
	CHECK_EQ(cgpu_gpu_add(&bench->core, &facts), -ENOSPC);
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1048576"), 0);
	facts.index = 0;
	facts.memtotal = 1048575;
	CHECK_EQ(cgpu_gpu_add(&bench->core, &facts), -EINVAL);
	facts.memtotal = 0;
	CHECK_EQ(cgpu_gpu_add(&bench->core, &facts), -EINVAL);
	CHECK_EQ(cgpu_gpu_facts(&bench->core, 9, &facts), -ENOENT);
}

TEST(versions_select_layouts)
{
	static const char *const bad[] = { "", "580", "580.", ".580", "580.142.", "580.142\n", " 580.142", "580.1.2.3",
		"a.b", "580.-1", "999999.1", "580.142x", "580..1" };
	size_t i;

	CHECK(cgpu_abi_find("580.142") != NULL);
	CHECK(cgpu_abi_find("515.43.04") != cgpu_abi_find("580.142"));
	CHECK(cgpu_abi_find("535.54.03") == cgpu_abi_find("535.54.3"));
	CHECK(cgpu_abi_find("580.143") == NULL);
	CHECK(cgpu_abi_find("615.71.09") == NULL);
	CHECK(cgpu_abi_nearest("615.71.09") != cgpu_abi_nearest("595.45.04"));
	CHECK(cgpu_abi_nearest("580.143") == cgpu_abi_find("580.142"));
	CHECK(cgpu_abi_nearest("999.1") != NULL);
	CHECK(cgpu_abi_nearest_version("580.143")->minor == 142);
	CHECK(cgpu_abi_nearest_version("515.43.03") == NULL);
	CHECK(cgpu_abi_nearest("515.43.03") == NULL);
	CHECK(cgpu_abi_nearest("470.82") == NULL);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK(cgpu_abi_find(bad[i]) == NULL);
		CHECK(cgpu_abi_nearest(bad[i]) == NULL);
	}
}

static void check_refused(struct bench *bench, const char *node, const char *value, const char *line)
{
	u32 logged = bench->logged;

	bench->now += 10000000000ull;
	CHECK(bench_write(bench, node, value) < 0);
	CHECK_EQ(bench->logged, logged + 1);
	if (strcmp(bench->log, line) != 0)
		fprintf(stderr, "logged: %s\n", bench->log);
	CHECK(strcmp(bench->log, line) == 0);
}

TEST_ON(the_log_says_what_a_file_takes, bench_new("580.142"))
{
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1048576:3"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=1 gpu=0:1048576:4"), 0);
	check_refused(bench, "0/policy", "9\n",
		"0/policy: \"9\" was refused: expected 0 (fair share), 1 (preemptive), 2 (weight preemptive), "
		"3 (fixed percentage), 4 (soft), 5 (native)");
	check_refused(
		bench, "0/max_inst", "26", "0/max_inst: \"26\" was refused: expected a whole number from 1 to 25");
	check_refused(bench, "0/max_inst", "5",
		"0/max_inst: \"5\" was refused: expected 7 or more, which containers and "
		"reservations of this GPU have");
	CHECK_EQ(bench_ctl(bench, "reserve id=6f1c2a34-0b5d-4e6f-8a9b-0c1d2e3f4a5b gpu=0:1048576:5"), 0);
	check_refused(bench, "0/max_inst", "5",
		"0/max_inst: \"5\" was refused: expected 12 or more, which containers and "
		"reservations of this GPU have");
	CHECK_EQ(bench_ctl(bench, "release id=6f1c2a34-0b5d-4e6f-8a9b-0c1d2e3f4a5b"), 0);
	check_refused(
		bench, "1/prio_ratio", "\n", "1/prio_ratio: \"\" was refused: expected a whole number from 20 to 99");
	check_refused(bench, "0/a/weight", "0", "0/a/weight: \"0\" was refused: expected a whole number from 1 to 20");
	check_refused(bench, "0/a/weight", "17",
		"0/a/weight: \"17\" was refused: expected at most 16, which the others leave of max_inst");
	check_refused(bench, "0/a/highprio", "high",
		"0/a/highprio: \"high\" was refused: expected a whole number from 0 to 1");
	check_refused(bench, "0/b/memsize", "6G",
		"0/b/memsize: \"6G\" was refused: expected a whole number of bytes, of at most 15 digits");
	check_refused(bench, "0/b/memsize", "15842934784",
		"0/b/memsize: \"15842934784\" was refused: expected at most 15841886208 bytes, which the others leave");
	check_refused(bench, "upgrade", "2", "upgrade: \"2\" was refused: expected 1");
	check_refused(bench, "inst_ctl", "create id=c gpu=0",
		"inst_ctl: \"create id=c gpu=0\" was refused: expected create id=ID pid=PID, and "
		"gpu=" CGPU_SLICE_FORM " or share=ID; destroy id=ID; reserve id=ID gpu=...; or release id=ID");
}

TEST_ON(what_is_in_use_is_said, started("580.142", &caller))
{
	CHECK_EQ(bench_take(bench, &caller, FIRST, 0x10, 2 * MIB), 0);
	check_refused(bench, "0/a/memsize", "0",
		"0/a/memsize: \"0\" was refused: expected 2097152 bytes or more, which the container has");
}

TEST_ON(a_refused_value_is_shown_as_plain_text, bench_new("580.142"))
{
	char lines[200];

	memset(lines, 'x', sizeof(lines) - 1);
	lines[sizeof(lines) - 1] = 0;
	check_refused(bench, "default_memsize", "1\n\"\x1b[2J\xc3\xa4",
		"default_memsize: \"1???[2J??\" was refused: expected a whole number of bytes, of at most 15 digits");
	bench->now += 10000000000ull;
	CHECK_EQ(bench_write(bench, "0/policy", lines), -EINVAL);
	CHECK(strstr(bench->log, "xxx...\" was refused: expected 0 (fair share)"));
	CHECK(strlen(bench->log) < 256);
}

TEST_ON(refused_writes_do_not_fill_the_log, bench_new("580.142"))
{
	u32 logged = bench->logged, i;

	for (i = 0; i < 1000; i++)
		CHECK_EQ(bench_write(bench, i % 2 ? "0/policy" : "inst_ctl", "9"), -EINVAL);
	CHECK_EQ(bench->logged, logged + 10);
	CHECK(strstr(bench->log, "; others that are refused in these ten seconds are not logged"));
	bench->now += 10000000000ull;
	CHECK_EQ(bench_write(bench, "0/policy", "9"), -EINVAL);
	CHECK_EQ(bench->logged, logged + 11);
	CHECK(strstr(bench->log, "are not logged") == NULL);
	/* A refusal that is not about the value says nothing. */
	CHECK_EQ(bench_write(bench, "0/uuid", "1"), -EACCES);
	CHECK_EQ(bench_write(bench, "upgrade", "1"), -EBUSY);
	CHECK_EQ(bench_write(bench, "0/policy", "1"), 0);
	CHECK_EQ(bench->logged, logged + 11);
}
