// SPDX-License-Identifier: Apache-2.0
/* Looking up, listing, reading and writing nodes. */
#include "fuzz.h"

static void use_node(struct fuzz *fuzz, const struct cgpu_node *node, struct input *input)
{
	char name[64], text[128], value[24];
	size_t bytes = take8(input) % sizeof(value);
	u32 at;

	MUST(cgpu_tree_read(&fuzz->core, node, text, sizeof(text)) <= (long)sizeof(text));
	for (at = 0; node->directory && at < 40; at++) {
		if (cgpu_tree_name(&fuzz->core, node, at, name, 1 + take8(input) % sizeof(name)))
			break;
		MUST(strlen(name) < sizeof(name));
	}
	take(input, value, bytes);
	fuzz_write(fuzz, node, value, bytes);
	fuzz_check(fuzz);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	static const char *const known[] = { "0", "1/box/weight", "0/box/memsize", "0/box/highprio", "0/policy",
		"0/max_inst", "0/prio_ratio", "default_memsize", "upgrade", "inst_ctl", "0/box", "0/box/meminfo",
		"gpus", "0/stat" };
	struct input input = { data, bytes };
	struct fuzz *fuzz = fuzz_core();
	struct cgpu_node node;
	char path[64];

	MUST(cgpu_inst_ctl(&fuzz->core, "create id=box pid=1 gpu=0:1048576 gpu=1:65536:2", 47, NULL) == 0);
	while (input.left) {
		u8 which = take8(&input);
		u32 length = which < 128 ? which % (sizeof(path) - 1) : 0;

		take(&input, path, length);
		path[length] = 0;
		if (which >= 128)
			snprintf(path, sizeof(path), "%s", known[which % (sizeof(known) / sizeof(known[0]))]);
		if (cgpu_tree_lookup(&fuzz->core, path, &node) == 0)
			use_node(fuzz, &node, &input);
	}
	return 0;
}
