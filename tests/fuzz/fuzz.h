/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the fuzz targets: one core for all inputs, and bytes of an input as values. */
#ifndef CGPU_FUZZ_H
#define CGPU_FUZZ_H

#include "call/call.h"
#include "ledger/tables.h"
#include "must.h"
#include "state/state.h"

struct input {
	const u8 *data;
	size_t left;
};

static inline void take(struct input *input, void *to, size_t bytes)
{
	size_t found = bytes < input->left ? bytes : input->left;

	memset(to, 0, bytes);
	memcpy(to, input->data, found);
	input->data += found;
	input->left -= found;
}

static inline u8 take8(struct input *input)
{
	u8 value;

	take(input, &value, sizeof(value));
	return value;
}

static inline u32 take32(struct input *input)
{
	u32 value;

	take(input, &value, sizeof(value));
	return value;
}

static inline u64 take64(struct input *input)
{
	u64 value;

	take(input, &value, sizeof(value));
	return value;
}

/* Open files have the numbers from 1 to this. */
#define FUZZ_FILES 3u

/* Counters of pages on a card. The first has pages of nobody; the second those of the container that was removed last. */
#define FUZZ_COUNTERS (CGPU_MAX_INST + 2u)
#define FUZZ_FIRST_COUNTER 2u
#define FUZZ_LAST_COUNTER (FUZZ_COUNTERS - 1)

struct fuzz {
	struct cgpu_core core;
	struct cgpu_ops ops;
	int locked;
	int exhausted;
	int counts; /* pages are counted */
	u64 coming; /* pages that are given out while the next limit is on its way */
	struct cgpu_pages pages[2][FUZZ_COUNTERS];
	u64 limit[2][FUZZ_COUNTERS];
};

static void fuzz_lock(void *ctx)
{
	struct fuzz *fuzz = ctx;

	MUST(!fuzz->locked);
	fuzz->locked = 1;
}

static void fuzz_unlock(void *ctx)
{
	struct fuzz *fuzz = ctx;

	MUST(fuzz->locked);
	fuzz->locked = 0;
}

static void fuzz_log(void *ctx, int level, const char *line)
{
	(void)ctx;
	MUST(level == 3 || level == 4 || level == 6 || level == CGPU_LOG_EVENT);
	MUST(strlen(line) < (level == CGPU_LOG_EVENT ? 1000 : 512) && strchr(line, '\n') == NULL);
}

static int fuzz_cgroup(void *ctx, s32 pid, char *path, size_t bytes)
{
	struct fuzz *fuzz = ctx;

	MUST(!fuzz->locked);
	if (pid % 7 == 0)
		return -ESRCH;
	memset(path, 'g', bytes); /* no NUL: the core must not rely on one */
	if (pid % 8 == 7)
		path[bytes / 2] = 0; /* a reason that fits */
	return pid % 8 > 5 ? -EINVAL : 0;
}

static inline void fuzz_cards(struct fuzz *fuzz)
{
	struct cgpu_settings settings = { .engine = "cgpud", .version = "0.1.0" };
	struct cgpu_gpu_facts facts = { .memtotal = 1ull << 34, .name = "fuzz" };

	settings.enforce = 1;
	settings.policy = 1;
	settings.max_inst = 20;
	settings.prio_ratio = 80;
	MUST(cgpu_settings_apply(&fuzz->core, &settings) == 0);
	for (facts.index = 0; facts.index < 2; facts.index++) {
		facts.device_instance = facts.index;
		snprintf(facts.uuid, sizeof(facts.uuid), "GPU-%u", facts.index);
		MUST(cgpu_gpu_add(&fuzz->core, &facts) == 0);
	}
}

static inline void fuzz_orphans_gone(struct fuzz *fuzz)
{
	u32 cursor = 0, client;
	s32 tgid;

	while (cgpu_orphan_next(&fuzz->core, &cursor, &tgid, &client) == 0)
		MUST(cgpu_orphan_gone(&fuzz->core, tgid, client) == 0);
}

static inline void fuzz_orphans(void *ctx)
{
	struct fuzz *fuzz = ctx;

	MUST(!fuzz->locked);
	fuzz_orphans_gone(fuzz);
}

static inline void fuzz_look(void *ctx, u32 gpus)
{
	struct fuzz *fuzz = ctx;

	MUST(!fuzz->locked && gpus < 1u << 2);
}

static inline s32 fuzz_process_of(void *ctx, s32 number)
{
	(void)ctx;
	return number % 8;
}

/* The counter of a container; 0: it has none. Of generation 0: one that is free. */
static inline u32 fuzz_counter(const struct fuzz *fuzz, u32 gpu, u64 generation)
{
	u32 at = FUZZ_LAST_COUNTER;

	while (at && fuzz->pages[gpu][at].generation != generation)
		at--;
	return at;
}

static inline int fuzz_pages(void *ctx, u32 gpu, u64 generation, u64 *bytes)
{
	const struct fuzz *fuzz = ctx;
	u32 at = fuzz_counter(fuzz, gpu, generation);

	MUST(fuzz->locked && gpu < 2);
	*bytes = at ? fuzz->pages[gpu][at].bytes : 0;
	return fuzz->counts;
}

static inline int fuzz_pages_next(void *ctx, u32 gpu, u32 *cursor, struct cgpu_pages *pages)
{
	struct fuzz *fuzz = ctx;

	MUST(fuzz->locked && gpu < 2);
	if (*cursor == FUZZ_COUNTERS)
		return -ENOENT;
	*pages = fuzz->pages[gpu][(*cursor)++];
	return 0;
}

/* Pages come, or go: no more come than the last limit allows, and none where the container was removed. */
static inline void fuzz_give_pages(struct fuzz *fuzz, u32 gpu, u32 at, u64 bytes)
{
	struct cgpu_pages *pages = &fuzz->pages[gpu][at % FUZZ_COUNTERS];

	if (bytes < pages->bytes || (pages->generation && bytes <= fuzz->limit[gpu][at % FUZZ_COUNTERS]))
		pages->bytes = bytes;
}

static inline void fuzz_pages_limit(void *ctx, u32 gpu, u64 generation, u64 bytes, const char *id)
{
	struct fuzz *fuzz = ctx;
	struct cgpu_pages *pages = fuzz->pages[gpu];
	u32 at = generation ? fuzz_counter(fuzz, gpu, generation) : 0;

	MUST(fuzz->locked && gpu < 2);
	if (generation && at == 0) {
		at = fuzz_counter(fuzz, gpu, 0);
		MUST(at && id);
		pages[at].generation = generation;
		snprintf(pages[at].id, sizeof(pages[at].id), "%s", id);
	} else if (at >= FUZZ_FIRST_COUNTER && id) {
		fuzz_give_pages(fuzz, gpu, at, pages[at].bytes + fuzz->coming);
		fuzz->coming = 0;
	} else if (at >= FUZZ_FIRST_COUNTER) {
		pages[0].bytes += pages[1].bytes;
		pages[1] = pages[at];
		fuzz->limit[gpu][1] = bytes;
		memset(&pages[at], 0, sizeof(pages[at]));
	}
	fuzz->limit[gpu][at] = bytes;
}

static inline int fuzz_process_in(void *ctx, s32 tgid, u32 slot, u64 generation)
{
	MUST(!((struct fuzz *)ctx)->locked && slot < CGPU_MAX_CONTAINERS && generation);
	return tgid % 2;
}

/* As if all records of some kinds were in use: none is to be had until fuzz_plenty(). */
static inline void fuzz_exhaust(struct fuzz *fuzz, u32 kinds)
{
	struct cgpu_state *state = fuzz->core.state;

	fuzz->exhausted = 1;
	if (kinds & 1)
		state->client_free = CORE_NONE;
	if (kinds & 2)
		state->object_free = CORE_NONE;
	if (kinds & 4)
		state->memory_free = CORE_NONE;
}

static inline void fuzz_plenty(struct fuzz *fuzz)
{
	if (fuzz->exhausted)
		core_free_lists(fuzz->core.state, CGPU_MAX_OBJECTS);
	fuzz->exhausted = 0;
}

static inline void fuzz_start(struct fuzz *fuzz)
{
	fuzz->ops = (struct cgpu_ops){ .lock = fuzz_lock,
		.unlock = fuzz_unlock,
		.log = fuzz_log,
		.cgroup_of = fuzz_cgroup,
		.orphans = fuzz_orphans,
		.process_of = fuzz_process_of,
		.process_in = fuzz_process_in,
		.cards = fuzz_look,
		.pages = fuzz_pages,
		.pages_next = fuzz_pages_next,
		.pages_limit = fuzz_pages_limit };
	fuzz->core.ops = &fuzz->ops;
	fuzz->core.ctx = fuzz;
	fuzz->core.abi = cgpu_abi_find("580.142");
	if (fuzz->core.state == NULL)
		fuzz->core.state = malloc(cgpu_state_bytes());
	MUST(fuzz->core.abi && fuzz->core.state);
	cgpu_state_init(fuzz->core.state, 0x1f2e3d4c5b6a7988ull);
	fuzz_cards(fuzz);
}

static inline void fuzz_enforce(struct fuzz *fuzz, u32 enforce)
{
	struct cgpu_settings settings = fuzz->core.state->settings;

	settings.enforce = enforce;
	MUST(cgpu_settings_apply(&fuzz->core, &settings) == 0);
}

/* A core on a state that was made anew, which takes its time. */
static inline struct fuzz *fuzz_fresh(void)
{
	static struct fuzz fuzz;

	fuzz_start(&fuzz);
	return &fuzz;
}

/* The core of all inputs, as empty as at the start. */
static inline struct fuzz *fuzz_core(void)
{
	static struct fuzz fuzz;
	struct cgpu_container_info info;
	struct cgpu_state *state;
	u32 i;

	if (fuzz.core.state == NULL)
		fuzz_start(&fuzz);
	fuzz.core.abi = cgpu_abi_find("580.142");
	state = fuzz.core.state;
	fuzz_plenty(&fuzz);
	while (cgpu_container_next(&fuzz.core, 0, &info) == 0)
		MUST(cgpu_container_remove(&fuzz.core, info.slot, info.generation) == 0);
	fuzz_orphans_gone(&fuzz);
	for (i = 1; i <= FUZZ_FILES; i++)
		cgpu_file_closed(&fuzz.core, i);
	memset(fuzz.pages, 0, sizeof(fuzz.pages));
	memset(state->reservation, 0, sizeof(state->reservation));
	state->default_memsize = 0;
	for (i = 0; i < 2; i++) {
		state->gpu[i].lost = 0;
		state->gpu[i].policy = 1;
		state->gpu[i].max_inst = 20;
		state->gpu[i].prio_ratio = 80;
	}
	fuzz_enforce(&fuzz, 1);
	MUST(state->objects == 0 && state->clients == 0 && state->containers == 0);
	return &fuzz;
}

/* The free lists give the lowest records first, so an input of one page stays below this. */
#define FUZZ_RECORDS 1024u

/* Every sum again, from the records alone. */
static inline void fuzz_sums(const struct cgpu_state *state)
{
	static u32 references[FUZZ_RECORDS], tables[FUZZ_RECORDS];
	u64 used[2][CGPU_MAX_INST] = { 0 }, orphaned[2] = { 0 }, native[2] = { 0 };
	u32 objects = 0, space, i;

	memset(references, 0, sizeof(references));
	memset(tables, 0, sizeof(tables));
	for (i = 0; i < FUZZ_RECORDS && objects < state->objects; i++) {
		const struct core_object *object = &state->object[i];

		if (object->live != CORE_LIVE && object->live != CORE_PENDING)
			continue;
		objects++;
		if (object->memory != CORE_NONE)
			references[object->memory]++;
		space = object->tables ? core_tables_space(state, i) : CORE_NONE;
		if (space != CORE_NONE)
			tables[state->object[space].memory] += object->tables;
		if (object->kind == CORE_OBJECT_MAPPING && object->live == CORE_LIVE)
			MUST(core_mapping_find(state, object->parent, object->address) == i);
	}
	MUST(objects == state->objects);
	for (i = 0; i < FUZZ_RECORDS; i++) {
		const struct core_memory *memory = &state->memory[i];

		MUST((memory->live == CORE_LIVE) == (references[i] > 0));
		MUST(references[i] == 0 || memory->tables == tables[i]);
		if (references[i] && memory->instance == CORE_NONE)
			orphaned[memory->gpu] += memory->bytes;
		else if (references[i] && memory->instance == CORE_PASSTHROUGH)
			native[memory->gpu] += memory->bytes;
		else if (references[i])
			used[memory->gpu][memory->instance] += memory->bytes;
	}
	MUST(state->gpu[0].orphaned == orphaned[0] && state->gpu[1].orphaned == orphaned[1]);
	MUST(state->gpu[0].passthrough == native[0] && state->gpu[1].passthrough == native[1]);
	for (i = 0; i < CGPU_MAX_INST; i++)
		MUST(state->gpu[0].instance[i].used == used[0][i] && state->gpu[1].instance[i].used == used[1][i]);
}

/* One write, after which there is at most one line, of plain characters, and none where it was accepted. */
static inline void fuzz_write(struct fuzz *fuzz, const struct cgpu_node *node, const char *text, size_t bytes)
{
	struct cgpu_refusal why = { "" };
	const char *at;

	if (cgpu_tree_write(&fuzz->core, node, text, bytes, &why) == 0)
		MUST(why.text[0] == 0);
	MUST(memchr(why.text, 0, sizeof(why.text)));
	for (at = why.text; *at; at++)
		MUST(at[1] ? *at >= ' ' && *at <= '~' : *at == '\n');
}

/* How a target fills the buffers that a call needs, and which file a descriptor leads to. */
struct fuzz_transport {
	void *world;
	void (*fill)(void *world, u32 index, u8 *data, u32 bytes);
	u64 (*find_file)(void *world);
};

/* Each buffer is as long as it is planned, so that touching more is seen. */
static inline void fuzz_fetch_buffer(struct cgpu_call *call, u32 index, const struct fuzz_transport *transport)
{
	struct cgpu_segment *segment = &call->segment[index];

	MUST(index < CGPU_MAX_SEGMENTS && segment->bytes <= CGPU_SEGMENT_MAX);
	MUST(segment->address && segment->parent <= index && segment->data == NULL);
	segment->data = malloc(segment->bytes);
	MUST(segment->data);
	transport->fill(transport->world, index, segment->data, segment->bytes);
}

static inline u32 fuzz_fetch(struct fuzz *fuzz, struct cgpu_call *call, const struct fuzz_transport *transport)
{
	u32 plans, needs = 0, fetched = 0;

	for (plans = 0; plans < CGPU_PLANS; plans++) {
		needs = cgpu_call_plan(&fuzz->core, call);
		MUST(!(needs & CGPU_NEEDS_BUFFERS) == (call->segments == fetched));
		for (; fetched < call->segments; fetched++)
			fuzz_fetch_buffer(call, fetched, transport);
		if (needs & CGPU_NEEDS_FILE) {
			MUST(call->finds_files && !call->found);
			call->found = 1;
			call->target = transport->find_file(transport->world);
		}
	}
	/* What has been fetched by then is all. */
	MUST(cgpu_call_plan(&fuzz->core, call) == (needs & CGPU_NEEDS_OWN_FILE));
	return needs;
}

static inline enum cgpu_verdict fuzz_judge(
	struct fuzz *fuzz, struct cgpu_call *call, const struct fuzz_transport *transport)
{
	u32 needs = fuzz_fetch(fuzz, call, transport);
	enum cgpu_verdict verdict = cgpu_call_begin(&fuzz->core, call);

	MUST(verdict != CGPU_EXECUTE || (needs & CGPU_NEEDS_OWN_FILE));
	return verdict;
}

/* Ask what the driver is asked before a call runs, with the input's answers. 0: the call does not run. */
static inline int fuzz_ask(struct fuzz *fuzz, struct cgpu_call *call, struct input *input)
{
	static const u32 of_parent[] = { NV_ERR_INVALID_ARGUMENT, NV_ERR_INSERT_DUPLICATE_NAME, NV_OK };
	static const u32 classes[] = { NV01_MEMORY_LOCAL_USER, NV01_MEMORY_SYSTEM, NV01_DEVICE_0 };
	const struct nv_abi *abi = fuzz->core.abi;
	_Alignas(u64) u8 top[64];
	struct cgpu_call question = { .top = top };
	u32 number = 0, further;

	for (; cgpu_call_question(&fuzz->core, call, number, &question); number += further) {
		u8 answer = take8(input);

		MUST(question.bytes <= sizeof(top) && number < 4);
		if (question.nr == NV_ESC_RM_DUP_OBJECT)
			put32(top, abi->NVOS55_PARAMETERS.status, of_parent[answer < 240 ? answer % 2 : 2]);
		else
			put64(top + abi->NVOS54_PARAMETERS.bytes, abi->NV0000_CTRL_CLIENT_GET_HANDLE_INFO_PARAMS.data,
				classes[answer % 3]);
		further = cgpu_call_answered(&fuzz->core, call, number, &question);
		if (!further)
			return 0;
	}
	return 1;
}

static inline void fuzz_free_buffers(struct cgpu_call *call)
{
	for (; call->segments; call->segments--)
		free(call->segment[call->segments - 1].data);
}

/* Take back all that a call has made. */
static inline void fuzz_undo(struct fuzz *fuzz, struct cgpu_call *call)
{
	u8 top[64] = { 0 };
	struct cgpu_call undo = { .top = top };
	u32 count = 0;

	while (cgpu_call_undo(&fuzz->core, call, &undo)) {
		MUST(++count <= 512);
		MUST(cgpu_call_begin(&fuzz->core, &undo) == CGPU_EXECUTE);
		put32(top, fuzz->core.abi->NVOS00_PARAMETERS.status, NV_OK);
		MUST(cgpu_call_end(&fuzz->core, &undo, 0) == 0);
	}
}

/* A container has the limit of pages that its slice and its managed memory leave. */
static inline void fuzz_check_instance(const struct fuzz *fuzz, u32 gpu, const struct core_instance *instance)
{
	const struct cgpu_settings *settings = &fuzz->core.state->settings;
	u32 at = fuzz_counter(fuzz, gpu, instance->generation);
	u64 most = settings->enforce ? instance->slice.memsize + settings->page_margin - instance->managed : ~0ull;

	MUST(at >= FUZZ_FIRST_COUNTER && fuzz->limit[gpu][at] == most);
	/* Counted pages are what a slice has, in place of the charges. */
	MUST(!fuzz->counts || fuzz->pages[gpu][at].bytes <= most || !settings->enforce);
	MUST(fuzz->counts || instance->used <= instance->slice.memsize || !settings->enforce);
}

/* Check the invariants that hold after any input. */
static inline void fuzz_check(struct fuzz *fuzz)
{
	struct cgpu_state *state = fuzz->core.state;
	u32 gpu, i;

	MUST(!fuzz->locked);
	fuzz_sums(state);
	for (gpu = 0; gpu < 2; gpu++) {
		MUST(core_totals(state, gpu).promised <= state->gpu[gpu].facts.memtotal);
		MUST(core_totals(state, gpu).weights <= state->gpu[gpu].max_inst);
		MUST(core_totals(state, gpu).places <= state->gpu[gpu].max_inst);
		MUST(core_totals(state, gpu).places == 0 || core_passthroughs(state, gpu) == 0);
		for (i = 0; i < CGPU_MAX_INST; i++) {
			if (core_instance(state, gpu, i))
				fuzz_check_instance(fuzz, gpu, &state->gpu[gpu].instance[i]);
		}
	}
}

#endif
