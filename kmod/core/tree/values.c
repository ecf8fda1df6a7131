// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Values that nodes take, and the log line about one that was refused: the writer gets an errno alone. */
#include "ledger/ledger.h"
#include "policies.h"
#include "registry/registry.h"
#include "tree/tree.h"

#define WINDOW_NS 10000000000ull
#define WINDOW_LINES 10u /* in each window */
#define SHOWN 64u /* characters of a value */
#define LINE_BYTES (CGPU_ID_BYTES + 512)

struct limits {
	u32 kind;
	u32 digits; /* longest accepted number */
	u64 low, high;
};

static const struct limits limits[] = {
	{ CGPU_NODE_KIND_DEFAULT_MEMSIZE, 15, 0, ~0ull },
	{ CGPU_NODE_KIND_MAX_INST, 3, CGPU_CONFIG_MAX_INST_MIN, CGPU_CONFIG_MAX_INST_MAX },
	{ CGPU_NODE_KIND_POLICY, 2, 0, CGPU_CONFIG_POLICY_MAX },
	{ CGPU_NODE_KIND_PRIO_RATIO, 3, CGPU_CONFIG_PRIO_RATIO_MIN, CGPU_CONFIG_PRIO_RATIO_MAX },
	{ CGPU_NODE_KIND_UPGRADE, 1, 1, 1 },
};

/* Find the values that an entry takes. -EACCES: it takes none. */
static int limits_of(u32 kind, struct limits *found)
{
	u32 attribute = core_kind_attribute(kind);
	size_t i;

	if (attribute < CGPU_SLICE_ATTRIBUTES) {
		*found = (struct limits){ kind, core_attributes[attribute].digits, 0, core_attributes[attribute].most };
		return 0;
	}
	for (i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		if (limits[i].kind == kind) {
			*found = limits[i];
			return 0;
		}
	}
	return -EACCES;
}

int core_value_parse(u32 kind, const char *text, size_t bytes, u64 *value)
{
	struct limits found;

	if (limits_of(kind, &found))
		return -EACCES;
	if (bytes > 0 && text[bytes - 1] == '\n')
		bytes--;
	if (core_parse_number(text, bytes, found.digits, value))
		return -EINVAL;
	return *value < found.low || *value > found.high ? -EINVAL : 0;
}

/* Takes one of the lines that may be logged now. Returns how many are left with it, 0: none. With the lock held. */
static u32 line_take(struct cgpu_core *core)
{
	struct cgpu_state *state = core->state;
	u32 window = core->ops->clock ? (u32)(core->ops->clock(core->ctx) / WINDOW_NS) & 0xffffff : 0;
	u32 lines = state->refused_writes >> 8 == window ? state->refused_writes & 0xff : 0;

	if (lines >= WINDOW_LINES)
		return 0;
	state->refused_writes = window << 8 | (lines + 1);
	return WINDOW_LINES - lines;
}

/* Write a value in quotes, so that an empty one and blanks are seen; a character that is not plain becomes `?`. */
static void say_value(struct core_text *out, const char *text, size_t bytes)
{
	size_t i;

	if (bytes > 0 && text[bytes - 1] == '\n')
		bytes--;
	core_text_string(out, "\"");
	for (i = 0; i < bytes && i < SHOWN; i++) {
		char plain = text[i] < ' ' || text[i] > '~' || text[i] == '"' ? '?' : text[i];

		core_text_bytes(out, &plain, 1);
	}
	core_text_string(out, bytes > SHOWN ? "...\" was refused: expected " : "\" was refused: expected ");
}

static void say_path(struct core_text *out, const struct core_place *place, const struct cgpu_node *node)
{
	if (place->gpu) {
		core_text_number(out, place->gpu->facts.index);
		core_text_string(out, "/");
	}
	if (place->container) {
		core_text_bytes(out, place->container->id, core_id_directory(place->container->id));
		core_text_string(out, "/");
	}
	core_text_string(out, core_tree_kind_name(node->kind));
	core_text_string(out, ": ");
}

static void say_number(struct core_text *out, const char *before, u64 number, const char *after)
{
	core_text_string(out, before);
	core_text_number(out, number);
	core_text_string(out, after);
}

static void say_policies(struct core_text *out)
{
	u32 i;

	for (i = 0; i < CGPU_SCHED_POLICIES; i++) {
		say_number(out, i ? ", " : "", i, " (");
		core_text_string(out, cgpu_policy_names[i]);
		core_text_string(out, ")");
	}
}

/* Name the bounds of a value that is no number, or out of bounds in any state. */
static void say_bounds(
	struct core_text *out, struct cgpu_state *state, const struct core_place *place, const struct limits *of)
{
	u64 low = of->low, high = of->high;
	u32 kind = of->kind;

	if (kind == CGPU_NODE_KIND_POLICY) {
		say_policies(out);
		return;
	}
	if (kind == CGPU_NODE_KIND_MEMSIZE || kind == CGPU_NODE_KIND_DEFAULT_MEMSIZE) {
		say_number(out, "a whole number of bytes, of at most ", of->digits, " digits");
		return;
	}
	if (kind == CGPU_NODE_KIND_WEIGHT && place->gpu) {
		low = state->settings.allow_zero_weight ? 0 : 1;
		high = place->gpu->max_inst;
	}
	if (low == high) {
		core_text_number(out, low);
		return;
	}
	say_number(out, "a whole number from ", low, " to ");
	core_text_number(out, high);
}

/* With fewer places, or more memory, a slice has more numbers. */
static void say_orphaned_ids(struct core_text *out, const struct core_gpu *gpu)
{
	if (core_tsg_ids_orphaned(gpu))
		say_number(out, ", as far as removed containers leave numbers of channels, of which they have ",
			core_tsg_ids_orphaned(gpu), "");
}

/* Say what a value does not fit. Returns 0: its errno does not come from the value, or the cause is gone. */
static int say_room(struct core_text *out, struct cgpu_core *core, const struct core_place *place, u32 kind, int err)
{
	struct core_totals totals;
	u32 gpu, others;

	if (place->gpu == NULL)
		return 0;
	gpu = place->gpu->facts.index;
	totals = core_totals(core->state, gpu);
	if (kind == CGPU_NODE_KIND_MAX_INST && err == -EBUSY) {
		say_number(out, "", totals.places > totals.weights ? totals.places : totals.weights,
			" or more, which containers and reservations of this GPU have");
		return 1;
	}
	if (kind == CGPU_NODE_KIND_MAX_INST && err == -ENOMEM) {
		core_text_string(out, "more");
		say_orphaned_ids(out, place->gpu);
		return 1;
	}
	if (place->instance == NULL)
		return 0;
	if (kind == CGPU_NODE_KIND_MEMSIZE && err == -EBUSY)
		say_number(out, "", core_instance_has(place->instance), " bytes or more, which the container has");
	else if (kind == CGPU_NODE_KIND_MEMSIZE && err == -ENOMEM) {
		say_number(out, "at most ", core_unpromised(core->state, gpu, place->instance),
			" bytes, which the others leave");
		say_orphaned_ids(out, place->gpu);
	} else if (kind == CGPU_NODE_KIND_WEIGHT && err == -EDQUOT) {
		others = core_weights_of_others(core->state, gpu, place->instance);
		say_number(out, "at most ", place->gpu->max_inst > others ? place->gpu->max_inst - others : 0,
			", which the others leave of max_inst");
	} else
		return 0;
	return 1;
}

static void say_left_out(struct core_text *out, u32 lines)
{
	if (lines == 1)
		core_text_string(out, "; others that are refused in these ten seconds are not logged");
}

static void log_line(struct cgpu_core *core, struct core_text *out)
{
	out->text[out->length] = 0;
	core->ops->log(core->ctx, 4, out->text);
}

void core_value_refused(struct cgpu_core *core, const struct cgpu_node *node, const char *text, size_t bytes, int err)
{
	struct core_place place;
	struct limits found;
	struct core_text out;
	char line[LINE_BYTES];
	u32 lines = 0;

	core_text_start(&out, line, sizeof(line) - 1);
	core_lock(core);
	if (limits_of(node->kind, &found) == 0 && core_tree_place(core->state, node, &place) == 0) {
		say_path(&out, &place, node);
		say_value(&out, text, bytes);
		if (err == -EINVAL)
			say_bounds(&out, core->state, &place, &found);
		if (err == -EINVAL || say_room(&out, core, &place, node->kind, err))
			lines = line_take(core);
		say_left_out(&out, lines);
	}
	core_unlock(core);
	if (lines)
		log_line(core, &out);
}

void core_inst_ctl_refused(struct cgpu_core *core, const char *text, size_t bytes)
{
	struct core_text out;
	char line[LINE_BYTES];
	u32 lines;

	core_lock(core);
	lines = line_take(core);
	core_unlock(core);
	if (lines == 0)
		return;
	core_text_start(&out, line, sizeof(line) - 1);
	core_text_string(&out, "inst_ctl: ");
	say_value(&out, text, bytes);
	core_text_string(&out, CORE_INST_CTL_FORMS);
	say_left_out(&out, lines);
	log_line(core, &out);
}
