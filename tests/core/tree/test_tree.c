// SPDX-License-Identifier: Apache-2.0
/* The nodes and their formats, cards, driver versions. */
#include "bench.h"

TEST_ON(numbers_in_writes_are_strict, bench_new("580.142"))
{
	static const char *const bad[] = { "", "\n", " 1", "1 ", "1\n\n", "+1", "-1", "0x1", "1.0", "one", "1\t",
		"1\r\n" };
	static const char *const nodes[] = { "0/policy", "0/max_inst", "0/prio_ratio", "0/a/weight", "0/a/highprio",
		"0/a/memsize", "default_memsize", "upgrade" };
	size_t i, j;

	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1048576"), 0);
	for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		for (j = 0; j < sizeof(bad) / sizeof(bad[0]); j++)
			CHECK_EQ(bench_write(bench, nodes[i], bad[j]), -EINVAL);
		CHECK_EQ(bench_write(bench, nodes[i], "1234567890123456"), -EINVAL);
	}
	CHECK_EQ(bench_write(bench, "0/policy", "6"), -EINVAL);
	CHECK_EQ(bench_write(bench, "0/policy", "005"), -EINVAL);
	CHECK_EQ(bench_write(bench, "0/max_inst", "26"), -EINVAL);
	CHECK_EQ(bench_write(bench, "0/max_inst", "0"), -EINVAL);
	CHECK_EQ(bench_write(bench, "0/prio_ratio", "19"), -EINVAL);
	CHECK_EQ(bench_write(bench, "0/prio_ratio", "100"), -EINVAL);
	CHECK_EQ(bench_write(bench, "0/a/highprio", "2"), -EINVAL);
	CHECK_EQ(bench_write(bench, "0/a/weight", "0"), -EINVAL);
	CHECK_EQ(bench_write(bench, "0/a/weight", "21"), -EINVAL);
	CHECK_EQ(bench_write(bench, "upgrade", "1\n"), -EBUSY);
	CHECK_EQ(bench_write(bench, "0/uuid", "1"), -EACCES);
	CHECK_EQ(bench_write(bench, "0", "1"), -EISDIR);
}

TEST_ON(nodes_change_what_they_say, bench_new("580.142"))
{
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1048576"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=1 gpu=0:1048576"), 0);
	CHECK_EQ(bench_write(bench, "0/policy", "5\n"), 0);
	CHECK(bench_is(bench, "0/policy", "5\n"));
	CHECK_EQ(bench_write(bench, "0/policy", "1"), 0);
	CHECK_EQ(bench_write(bench, "0/a/weight", "4"), 0);
	CHECK(bench_is(bench, "0/policy", "2\n"));
	CHECK_EQ(bench_write(bench, "0/a/weight", "20"), -EDQUOT);
	CHECK_EQ(bench_write(bench, "0/max_inst", "4"), -EBUSY);
	CHECK_EQ(bench_write(bench, "0/max_inst", "5"), 0);
	CHECK(bench_is(bench, "0/free_weight", "0\n"));
	CHECK_EQ(bench_write(bench, "0/max_inst", "1"), -EBUSY);
	CHECK_EQ(bench_write(bench, "0/prio_ratio", "20"), 0);
	CHECK(bench_is(bench, "0/prio_ratio", "20\n"));
	CHECK_EQ(bench_write(bench, "0/a/highprio", "1"), 0);
	CHECK(bench_is(bench, "0/a/highprio", "1\n"));
	CHECK_EQ(bench_write(bench, "0/a/memsize", "15841886208"), 0);
	CHECK_EQ(bench_write(bench, "0/a/memsize", "15841886209"), -ENOMEM);
	CHECK_EQ(bench_write(bench, "0/a/memsize", "0"), 0);
	CHECK_EQ(bench_write(bench, "inst_ctl", "destroy id=b\n"), 0);
	CHECK_EQ(bench_write(bench, "0/b/weight", "1"), -ENOENT);
}

TEST_ON(root_and_card_facts, bench_new("580.142"))
{
	char text[64];

	CHECK(bench_is(bench, "version", "0.1.0\n"));
	CHECK(bench_is(bench, "engine", "cgpud 0.1.0 core\n"));
	CHECK(bench_is(bench, "major", "195\n"));
	CHECK(bench_is(bench, "0/major", "195\n"));
	CHECK(bench_is(bench, "default_memsize", "0\n"));
	CHECK(bench_is(bench, "upgrade", "0\n"));
	CHECK(bench_is(bench, "1/uuid", "GPU-1\n"));
	CHECK(bench_is(bench, "1/name", "Test T4\n"));
	CHECK(bench_is(bench, "1/minor", "1\n"));
	CHECK(bench_is(bench, "1/memtotal", "15842934784\n"));
	CHECK_EQ(cgpu_gpu_set_memfree(&bench->core, 1, 42), 0);
	CHECK(bench_is(bench, "1/memfree", "42\n"));
	CHECK_EQ(bench_read(bench, "inst_ctl", text, sizeof(text)), -EBADF);
	CHECK_EQ(bench_read(bench, "0", text, sizeof(text)), -EISDIR);
	CHECK_EQ(bench_read(bench, "2", text, sizeof(text)), -ENOENT);
	CHECK_EQ(bench_read(bench, "00/policy", text, sizeof(text)), -ENOENT);
	CHECK_EQ(bench_read(bench, "version/x", text, sizeof(text)), -ENOTDIR);
	bench_settings(bench, 0, 0);
	CHECK(bench_is(bench, "engine", "cgpud 0.1.0 core enforce=off\n"));
}

TEST_ON(every_name_can_be_looked_up, bench_new("580.142"))
{
	static const char *const dirs[] = { "", "/", "0", "0/a", "1" };
	char name[300], path[400];
	struct cgpu_node node, child;
	size_t i;
	u32 at;

	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1048576"), 0);
	for (i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		CHECK_EQ(cgpu_tree_lookup(&bench->core, dirs[i], &node), 0);
		CHECK(node.directory);
		for (at = 0; cgpu_tree_name(&bench->core, &node, at, name, sizeof(name)) == 0; at++) {
			snprintf(path, sizeof(path), "%s/%s", dirs[i], name);
			CHECK_EQ(cgpu_tree_lookup(&bench->core, path, &child), 0);
		}
		CHECK(at >= 7);
		CHECK_EQ(cgpu_tree_name(&bench->core, &node, at, name, sizeof(name)), -ENOENT);
	}
}

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
	CHECK_EQ(bench_ctl(bench, "0abcdefabcdef"), 0);
	CHECK(names_changed(bench, &last));
	CHECK_EQ(bench_ctl(bench, "1abcdefabcdef"), 0);
	CHECK(names_changed(bench, &last));
	CHECK_EQ(cgpu_gpu_add(&bench->core, &facts), 0);
	CHECK(names_changed(bench, &last));
}

TEST_ON(a_kept_node_dies_with_its_container, bench_new("580.142"))
{
	struct cgpu_node node;
	char text[64];

	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1048576"), 0);
	CHECK_EQ(cgpu_tree_lookup(&bench->core, "0/a/weight", &node), 0);
	CHECK_EQ(node.mode, 0644);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1048576"), 0);
	CHECK_EQ(cgpu_tree_read(&bench->core, &node, text, sizeof(text)), -ENOENT);
	CHECK_EQ(cgpu_tree_write(&bench->core, &node, "1", 1), -ENOENT);
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
