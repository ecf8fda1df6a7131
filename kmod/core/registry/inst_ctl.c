// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* The grammar of inst_ctl. docs/tree.md has it in full. */
#include "ledger/ledger.h"
#include "registry/registry.h"
#include "lib/text.h"
#include "tree/tree.h"

struct words {
	const char *text;
	size_t bytes;
	size_t at;
};

/* The next word up to a single space or the end. -ENOENT past the last one. */
static int word_next(struct words *words, const char **word, size_t *length)
{
	size_t from = words->at;

	if (from > words->bytes)
		return -ENOENT;
	while (words->at < words->bytes && words->text[words->at] != ' ')
		words->at++;
	*word = words->text + from;
	*length = words->at - from;
	words->at++;
	return *length ? 0 : -EINVAL;
}

/* "gpu=1:1073741824:2:0": the part after the equals sign. */
static int parse_gpu(const char *text, size_t length, struct core_create *create)
{
	struct core_want *want;
	size_t colon = 0;
	u64 gpu;
	u32 i;

	while (colon < length && text[colon] != ':')
		colon++;
	if (colon == length || core_parse_number(text, colon, CORE_SLICE_DIGITS, &gpu))
		return -EINVAL;
	/* More than fit cannot all be different and exist. */
	if (create->count == CGPU_MAX_GPUS)
		return -EINVAL;
	want = &create->want[create->count];
	if (core_slice_parse(text + colon + 1, length - colon - 1, &want->slice))
		return -EINVAL;
	want->gpu = gpu < CGPU_MAX_GPUS ? (u32)gpu : CORE_NONE;
	for (i = 0; i < create->count; i++) {
		if (create->want[i].gpu == want->gpu && want->gpu != CORE_NONE)
			return -EINVAL;
	}
	create->count++;
	return 0;
}

/* "native=1" */
static int parse_passthrough(const char *text, size_t length, struct core_create *create)
{
	u64 gpu;

	if (core_parse_number(text, length, 15, &gpu))
		return -EINVAL;
	if (gpu >= CGPU_MAX_GPUS) {
		create->passthrough_missing = 1;
		return 0;
	}
	if (create->passthrough >> gpu & 1)
		return -EINVAL;
	create->passthrough |= 1u << gpu;
	return 0;
}

/* "share=6f1c-…": the name is read from the line, its only copy. */
static int parse_share(const struct words *words, const char *text, size_t length, struct core_create *create)
{
	u32 i;

	if (create->shares == CORE_SHARES_MAX || core_id_check(text, length))
		return -EINVAL;
	create->line = words->text;
	for (i = 0; i < create->shares; i++) {
		const struct core_share_name *other = &create->share[i];

		if (other->length == length && memcmp(create->line + other->at, text, length) == 0)
			return -EINVAL;
	}
	create->share[create->shares].at = (u16)(text - words->text);
	create->share[create->shares].length = (u16)length;
	create->shares++;
	return 0;
}

/* A GPU is sliced or whole. */
static int is_both(const struct core_create *create)
{
	u32 i;

	for (i = 0; i < create->count; i++) {
		if (create->want[i].gpu != CORE_NONE && (create->passthrough >> create->want[i].gpu & 1))
			return 1;
	}
	return 0;
}

static int parse_id(const char *text, size_t length, struct core_create *create)
{
	if (create->id[0] || core_id_check(text, length))
		return -EINVAL;
	core_string_copy(create->id, sizeof(create->id), text, length);
	return 0;
}

static int parse_pid(const char *text, size_t length, struct core_create *create)
{
	u64 pid;

	if (create->pid || core_parse_number(text, length, 10, &pid) || pid == 0 || pid > 0x7fffffff)
		return -EINVAL;
	create->pid = (s32)pid;
	return 0;
}

static int has_key(const char *word, size_t length, const char *key, size_t key_length)
{
	return length >= key_length && memcmp(word, key, key_length) == 0;
}

/* Parse all words after the verb. */
static int parse_keys(struct words *words, struct core_create *create)
{
	const char *word;
	size_t length;
	int err;

	for (;;) {
		err = word_next(words, &word, &length);
		if (err)
			return err == -ENOENT ? 0 : err;
		if (has_key(word, length, "id=", 3))
			err = parse_id(word + 3, length - 3, create);
		else if (has_key(word, length, "pid=", 4))
			err = parse_pid(word + 4, length - 4, create);
		else if (has_key(word, length, "gpu=", 4))
			err = parse_gpu(word + 4, length - 4, create);
		else if (has_key(word, length, "native=", 7))
			err = parse_passthrough(word + 7, length - 7, create);
		else if (has_key(word, length, "share=", 6))
			err = parse_share(words, word + 6, length - 6, create);
		else
			err = -EINVAL;
		if (err)
			return err;
	}
}

/* Slices that a log line names at most; each has an event besides. */
#define SAID_SLICES 4u

static void say_slices(struct core_text *out, const struct core_create *create)
{
	u32 i;

	for (i = 0; i < create->count && i < SAID_SLICES; i++)
		core_text_format(out, "%s%llu MiB of GPU %u", i == 0 ? ": " : ", ",
			create->want[i].slice.memsize / CORE_MIB, create->want[i].gpu);
	if (create->count > SAID_SLICES)
		core_text_format(out, " and of %u more", create->count - SAID_SLICES);
}

static void say_registered(struct cgpu_core *core, const struct core_create *create)
{
	struct core_text out;
	char line[CGPU_ID_BYTES + 256];

	core_text_start(&out, line, sizeof(line) - 1);
	core_text_format(&out, "container %s registered on %u GPU%s, pid %u", create->id, create->count,
		create->count == 1 ? "" : "s", (u32)create->pid);
	say_slices(&out, create);
	if (create->passthrough)
		core_text_string(&out, ", others whole");
	if (create->shares)
		core_text_string(&out, ", as reserved");
	line[out.length] = 0;
	core->ops->log(core->ctx, 6, line);
}

static int create_check(struct cgpu_core *core, struct core_create *create)
{
	int err;

	core_lock(core);
	core_pages_look_all(core);
	err = core_create_check(core->state, create);
	core_unlock(core);
	return err;
}

/* GPUs of the line that exist, as bits. */
static u32 sliced_cards(struct cgpu_core *core, const struct core_create *create)
{
	u32 gpus = 0, i;

	core_lock(core);
	for (i = 0; i < create->count; i++) {
		if (core_gpu(core->state, create->want[i].gpu))
			gpus |= 1u << create->want[i].gpu;
	}
	core_unlock(core);
	return gpus;
}

/* Describe the registration that was just committed. */
static void event_of(
	const struct cgpu_state *state, const struct core_create *create, u32 slot, struct core_event *event)
{
	u32 i;

	memcpy(event->id, create->id, sizeof(event->id));
	event->slot = slot;
	event->generation = state->container[slot].generation;
	event->gpus = 0;
	for (i = 0; i < create->count; i++)
		event->gpus |= 1u << create->want[i].gpu;
}

static int find_cgroup(struct cgpu_core *core, struct core_create *create)
{
	int err = core->ops->cgroup_of(core->ctx, create->pid, create->cgroup, CGPU_CGROUP_BYTES);

	create->cgroup[CGPU_CGROUP_BYTES - 1] = 0;
	if (err == -ESRCH)
		return core_refuse_line(create->why, err,
			"there is no process %u: it ended before it could be registered", (u32)create->pid);
	return err ? core_refuse_line(create->why, err, "%s", create->cgroup) : 0;
}

/* Kernels limit the frame of a function: this one is kept out of its caller's. */
__attribute__((__noinline__)) static int create_run(struct cgpu_core *core, struct core_create *create)
{
	struct core_event event;
	char cgroup[CGPU_CGROUP_BYTES] = "";
	int err = 0;

	create->cgroup = cgroup;
	/* Only here: removing what could never be registered is no error. */
	if (core_tree_is_node(create->id, strlen(create->id)))
		return core_refuse_line(
			create->why, -EINVAL, "id %s is the name of an entry of the tree; choose another", create->id);
	if (create->shares) {
		core_lock(core);
		err = core_shares_resolve(core->state, create);
		core_unlock(core);
	}
	if (err)
		return err;
	if (core->ops->cards)
		core->ops->cards(core->ctx, sliced_cards(core, create));
	err = create_check(core, create);
	if (core_orphans_settle(core, err))
		err = create_check(core, create);
	if (err == 0)
		err = find_cgroup(core, create);
	if (err)
		return err;
	/* Others may have come in between. */
	core_lock(core);
	core_pages_look_all(core);
	err = core_create_check(core->state, create);
	if (err == 0)
		event_of(core->state, create, core_create_commit(core->state, create), &event);
	core_unlock(core);
	if (err)
		return err;
	say_registered(core, create);
	core_event_started(core, &event);
	return 0;
}

/* As create_run(). */
__attribute__((__noinline__)) static int destroy_run(struct cgpu_core *core, const char *id)
{
	u64 generation = 0;
	u32 slot;

	core_lock(core);
	slot = core_slot_by_id(core->state, id);
	if (slot != CORE_NONE)
		generation = core->state->container[slot].generation;
	core_unlock(core);
	return slot == CORE_NONE ? 0 : cgpu_container_remove(core, slot, generation);
}

static int refuse(struct cgpu_core *core, const char *text, size_t bytes, struct cgpu_refusal *why)
{
	core_inst_ctl_refused(core, text, bytes);
	return core_refuse_line(why, -EINVAL, "the engine does not accept this line: expected " CORE_INST_CTL_FORMS);
}

/* A container gets what its line says, or what is reserved for its shares. */
static int names_one_kind(const struct core_create *create)
{
	if (create->shares)
		return create->count == 0 && !create->passthrough && !create->passthrough_missing;
	return create->count != 0;
}

static int run_line(struct cgpu_core *core, const char *text, size_t bytes, struct cgpu_refusal *why)
{
	struct words words = { text, bytes, 0 };
	struct core_create create;
	const char *verb;
	size_t length;

	memset(&create, 0, sizeof(create));
	create.why = why;
	if (word_next(&words, &verb, &length) || parse_keys(&words, &create))
		return refuse(core, text, bytes, why);
	if (is_both(&create) || !create.id[0])
		return refuse(core, text, bytes, why);
	if (core_same(verb, length, "create") && create.pid && names_one_kind(&create))
		return create_run(core, &create);
	if (create.pid || create.shares || create.passthrough || create.passthrough_missing)
		return refuse(core, text, bytes, why);
	if (core_same(verb, length, "reserve") && create.count == 1)
		return core_share_reserve(core, &create);
	if (create.count)
		return refuse(core, text, bytes, why);
	if (core_same(verb, length, "destroy"))
		return destroy_run(core, create.id);
	if (core_same(verb, length, "release"))
		return core_share_release(core, &create);
	return refuse(core, text, bytes, why);
}

int cgpu_inst_ctl(struct cgpu_core *core, const char *text, size_t bytes, struct cgpu_refusal *why)
{
	int err;

	if (bytes == 0 || bytes > CGPU_INST_CTL_MAX)
		return refuse(core, text, bytes, why);
	if (text[bytes - 1] == '\n')
		bytes--;
	err = run_line(core, text, bytes, why);
	/* A second attempt, after orphans had gone, may succeed: then the first one's reason goes. */
	if (err == 0 && why)
		why->text[0] = 0;
	return err;
}
