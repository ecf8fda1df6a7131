// SPDX-License-Identifier: Apache-2.0
/* A state whose owner died anywhere, or that something has written into: it is taken up or refused, and does no harm. */
#include "objects.h"

#define RECORDS 12u /* of each kind that are written into */
#define FILE_NUMBER 7u /* of one that memory is held by */

/* A record that the input names, and how long it is. */
static u8 *record(struct cgpu_state *state, u8 kind, u32 which, size_t *bytes)
{
	if (kind >= 252) {
		*bytes = sizeof(state->stat);
		return (u8 *)&state->stat;
	}
	if (kind >= 248) {
		*bytes = sizeof(state->reservation[0][0]);
		return (u8 *)&state->reservation[which % 2][which % 3];
	}
	switch (kind % 8) {
	case 0:
		*bytes = sizeof(state->client[0]);
		return (u8 *)&state->client[which];
	case 1:
	case 2:
		*bytes = sizeof(state->object[0]);
		return (u8 *)&state->object[which];
	case 3:
		*bytes = sizeof(state->memory[0]);
		return (u8 *)&state->memory[which];
	case 4:
		*bytes = sizeof(state->container[0]);
		return (u8 *)&state->container[which % 3];
	case 5:
		*bytes = sizeof(state->gpu[0]);
		return (u8 *)&state->gpu[which % 2];
	case 6:
		*bytes = sizeof(state->gpu[0].instance[0]);
		return (u8 *)&state->gpu[which % 2].instance[which % 3];
	default:
		*bytes = offsetof(struct cgpu_state, containers);
		return (u8 *)state;
	}
}

static void write_into(struct cgpu_state *state, struct input *input)
{
	static const u32 values[] = { 0, 1, 2, 3, CORE_LIVE, CORE_PENDING, CORE_NONE, 0xf0000001u };
	u8 kind = take8(input), which = take8(input), how = take8(input);
	size_t bytes, at;
	u8 *to = record(state, kind, which % RECORDS, &bytes);
	u32 value = how < 128 ? values[how % 8] : take32(input);

	at = (take8(input) | (size_t)(take8(input) & 3) << 8) * sizeof(value) % bytes;
	if (kind < 192 && how & 64)
		at %= 40; /* the marks and numbers come first */
	memcpy(to + at, &value, bytes - at < sizeof(value) ? bytes - at : sizeof(value));
}

/* Leave a record that is marked as under way, as a process does that dies in a call. */
static void die_in_a_call(struct cgpu_state *state, u8 which)
{
	struct core_object *object = &state->object[which % RECORDS];

	if (object->live == CORE_LIVE)
		object->live = CORE_PENDING;
	if (which & 64)
		object->handle = 0;
}

/* Make some reservations; whichever are left, a card's memory is promised once. */
static void reserve_some(struct fuzz *fuzz)
{
	static const char *const lines[] = { "create id=user pid=3 share=one", "release id=two",
		"reserve id=three gpu=0:1048576", "create id=more pid=3 share=two share=three",
		"create id=whole pid=3 gpu=1:1048576" };
	char text[CGPU_TREE_TEXT_MAX];
	struct cgpu_node node;
	u32 gpu, i;

	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		cgpu_inst_ctl(&fuzz->core, lines[i], strlen(lines[i]), NULL);
	for (gpu = 0; gpu < 2; gpu++) {
		struct cgpu_state *state = fuzz->core.state;

		if (core_gpu(state, gpu) == NULL)
			continue;
		MUST(core_totals(state, gpu).promised <= state->gpu[gpu].facts.memtotal);
		MUST(core_totals(state, gpu).places == 0 || core_passthroughs(state, gpu) == 0);
		MUST(cgpu_tree_lookup(&fuzz->core, gpu ? "1/reserved" : "0/reserved", &node) == 0);
		MUST(cgpu_tree_read(&fuzz->core, &node, text, sizeof(text)) >= 0);
		MUST(cgpu_tree_lookup(&fuzz->core, gpu ? "1/stat" : "0/stat", &node) == 0);
		MUST(cgpu_tree_read(&fuzz->core, &node, text, sizeof(text)) > 0);
	}
}

static void use(struct fuzz *fuzz)
{
	struct cgpu_container_info info;

	fuzz_sums(fuzz->core.state);
	cgpu_recover_finish(&fuzz->core);
	fuzz_sums(fuzz->core.state);
	if (cgpu_container_find(&fuzz->core, "box", &info) == 0)
		fuzz_make_some(fuzz, &info);
	reserve_some(fuzz);
	while (cgpu_container_next(&fuzz->core, 0, &info) == 0)
		MUST(cgpu_container_remove(&fuzz->core, info.slot, info.generation) == 0);
	fuzz_orphans_gone(fuzz);
	cgpu_file_closed(&fuzz->core, 1);
	fuzz_sums(fuzz->core.state);
}

/* Take up holds by files as a transport does: it believes some, and drops the others. */
static void take_up_holds(struct fuzz *fuzz)
{
	struct cgpu_reference hold;
	u32 cursor = 0;

	while (cgpu_reference_file_next(&fuzz->core, &cursor, &hold) == 0) {
		MUST(hold.object < cursor);
		if (hold.object % 2 || cgpu_reference_recover(&fuzz->core, &hold, FILE_NUMBER) < 0)
			cgpu_reference_drop(&fuzz->core, &hold);
	}
}

/* Only entries in use come over, and a successor believes as much of them. */
static void take_over(const struct cgpu_state *state)
{
	static struct cgpu_state *taken;

	if (!taken)
		taken = malloc(cgpu_state_bytes());
	MUST(taken);
	cgpu_state_init(taken, 0);
	if (cgpu_state_take_over(taken, state) == 0)
		fuzz_sums(taken);
}

static void take_up(struct fuzz *fuzz)
{
	static struct cgpu_state *other;
	struct cgpu_state *state = fuzz->core.state;

	if (!other)
		other = malloc(cgpu_state_bytes());
	MUST(other && cgpu_state_version() == CORE_VERSION);
	take_over(state);
	if (cgpu_state_convert(other, state) == 0) {
		fuzz->core.state = other;
		other = state;
	}
	if (cgpu_state_recover(fuzz->core.state) == 0) {
		take_up_holds(fuzz);
		use(fuzz);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	struct input input = { data, bytes };
	struct fuzz *fuzz = fuzz_fresh();
	struct cgpu_container_info info;
	struct cgpu_reference_request request;
	struct cgpu_reference hold;

	fuzz_box(fuzz, &info);
	fuzz_make_some(fuzz, &info);
	MUST(cgpu_inst_ctl(&fuzz->core, "reserve id=one gpu=0:1048576", 28, NULL) == 0);
	MUST(cgpu_inst_ctl(&fuzz->core, "reserve id=two gpu=0:1048576:2:1", 32, NULL) == 0);
	MUST(cgpu_inst_ctl(&fuzz->core, "create id=of pid=2 share=two", 28, NULL) == 0);
	request = (struct cgpu_reference_request){
		.slot = info.slot, .generation = info.generation, .tgid = 1, .client = 0xc1, .handle = 3, .bytes = 65536
	};
	MUST(cgpu_reference_begin(&fuzz->core, &request, &hold) == 0);
	MUST(cgpu_reference_on_file(&fuzz->core, &request, FILE_NUMBER, &hold) == 0);
	if (bytes && data[0] & 1)
		cgpu_inst_ctl(&fuzz->core, "destroy id=box", 14, NULL);
	take8(&input);
	while (input.left) {
		if (take8(&input) & 3)
			write_into(fuzz->core.state, &input);
		else
			die_in_a_call(fuzz->core.state, take8(&input));
	}
	take_up(fuzz);
	return 0;
}
