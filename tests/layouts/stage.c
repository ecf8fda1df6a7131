// SPDX-License-Identifier: Apache-2.0
#include "registry/registry.h"
#include "stage.h"
#include "status_at.h"

#include <stdio.h>
#include <stdlib.h>

static void no_lock(void *ctx)
{
	(void)ctx;
}

static void no_log(void *ctx, int level, const char *line)
{
	(void)ctx;
	(void)level;
	(void)line;
}

static int any_cgroup(void *ctx, s32 pid, char *path, size_t bytes)
{
	(void)ctx;
	snprintf(path, bytes, "/box/%d", (int)pid);
	return 0;
}

static const struct cgpu_ops ops = { .lock = no_lock, .unlock = no_lock, .log = no_log, .cgroup_of = any_cgroup };

static int start_core(struct stage *stage, void *state, const char *driver, uint32_t enforce)
{
	struct cgpu_settings settings = {
		.engine = "stage", .version = "1", .enforce = enforce, .policy = 1, .max_inst = 20, .prio_ratio = 80
	};
	struct cgpu_core *core = &stage->transport.core;
	int result;

	core->state = state;
	core->ops = &ops;
	core->ctx = stage;
	core->abi = cgpu_abi_nearest(driver);
	if (!core->abi)
		return -ENOENT;
	cgpu_state_init(state, 0x1f2e3d4c5b6a7988ull);
	result = cgpu_settings_apply(core, &settings);
	return result ? result : transport_add_cards(&stage->transport);
}

struct stage *stage_new(void *state, const char *driver, const char *cards, uint32_t enforce, uint32_t in_kernel)
{
	struct stage *stage = calloc(1, sizeof(*stage));
	char error[CARDS_ERROR_BYTES];

	if (!stage)
		return NULL;
	stage->transport.finds_files = in_kernel != 0;
	stage->transport.sim = cards_new(driver, cards, error);
	stage->holdings = stage->transport.sim ? holdings_new(stage->transport.sim) : NULL;
	if (stage->holdings && start_core(stage, state, driver, enforce) == 0)
		return stage;
	free(stage);
	return NULL;
}

void stage_free(struct stage *stage)
{
	holdings_free(stage->holdings);
	transport_forget_files(&stage->transport);
	cards_free(stage->transport.sim);
	free(stage);
}

int stage_create(struct stage *stage, const char *id, const char *line)
{
	struct cgpu_core *core = &stage->transport.core;
	uint32_t number = stage->containers;
	int result;

	if (number == STAGE_CONTAINERS)
		return -ENOSPC;
	result = cgpu_inst_ctl(core, line, strlen(line), NULL);
	if (result == 0)
		result = cgpu_container_find(core, id, &stage->container[number]);
	if (result)
		return result;
	stage->live[number] = true;
	stage->containers++;
	return (int)number;
}

void stage_destroy(struct stage *stage, uint32_t container)
{
	const struct cgpu_container_info *info = &stage->container[container];

	stage->live[container] = false;
	cgpu_container_remove(&stage->transport.core, info->slot, info->generation);
}

int stage_recover(struct stage *stage)
{
	return cgpu_state_recover(stage->transport.core.state);
}

uint64_t stage_open(struct stage *stage, uint32_t container, uint32_t node, uint32_t card)
{
	const struct cgpu_container_info *info = &stage->container[container % STAGE_CONTAINERS];
	const struct file *file;

	if (container != STAGE_OUTSIDE && node == NODE_CARD &&
		!cgpu_minor_granted(&stage->transport.core, info->slot, info->generation, card))
		return 0;
	file = transport_open(&stage->transport, (enum device_node)node, card);
	return file ? file->id : 0;
}

/* An engine outside of the kernel is told of no close: it asks the driver which clients there still are. */
static void ask_for_clients(struct stage *stage)
{
	struct cgpu_core *core = &stage->transport.core;
	u32 container, known, cursor, client;
	s32 tgid;

	for (container = 0; container < stage->containers; container++) {
		known = 0;
		while (cgpu_process_known(core, stage->container[container].slot, &known, &tgid) == 0) {
			for (cursor = 0; cgpu_client_next(core, tgid, &cursor, &client) == 0;) {
				if (!holdings_has_client(stage->holdings, client))
					cgpu_client_gone(core, tgid, client);
			}
		}
	}
	for (cursor = 0; cgpu_orphan_next(core, &cursor, &tgid, &client) == 0;) {
		if (!holdings_has_client(stage->holdings, client))
			cgpu_orphan_gone(core, tgid, client);
	}
}

void stage_close(struct stage *stage, uint64_t file)
{
	transport_close(&stage->transport, file);
	if (!stage->transport.finds_files)
		ask_for_clients(stage);
	holdings_look(stage->holdings, STAGE_OUTSIDE);
}

static int ask_cards(struct stage *stage, const struct file *file, struct stage_call *step)
{
	struct driver_call *call = &step->call;
	int result = 0;

	if (step->fault == STAGE_INTERRUPTED)
		return -EINTR;
	if (step->fault == STAGE_STATUS)
		memcpy(call->top + status_at(stage->transport.core.abi, call->nr, call->bytes), &step->status,
			sizeof(step->status));
	else
		result = cards_call(stage->transport.sim, file->open, call);
	if (!holdings_look(stage->holdings, step->container))
		stage_problem(stage, "the cards' sums", step->container, 0, 0, 0);
	return result;
}

static void judged_call(struct stage *stage, const struct file *file, struct stage_call *step)
{
	struct cgpu_call call =
		transport_call(&stage->transport, file, &stage->container[step->container], &step->call);

	step->call.verdict = transport_judge(&stage->transport, &step->call, &call);
	step->call.result = step->call.verdict == CGPU_REFUSE ? -call.error : 0;
	if (step->call.verdict != CGPU_EXECUTE && step->call.verdict != CGPU_CONTINUE)
		return;
	step->call.result = ask_cards(stage, file, step);
	if (step->between)
		step->between();
	transport_settle(&stage->transport, file, &call, step->call.result);
	/* An export or import stays, as the driver leaves it too. */
	if (step->fault == STAGE_UNHEARD && step->call.verdict == CGPU_EXECUTE && call.target == 0) {
		transport_take_back(&stage->transport, file, &call);
		step->call.result = -EFAULT;
	}
}

/* Take a transfer wrapper apart, as the kernel or the daemon does. 0 or negative errno. */
static int unwrap(const struct stage *stage, struct driver_call *call)
{
	uint64_t address;
	int result =
		cgpu_call_unwrap(&stage->transport.core, call->top, call->bytes, &call->nr, &call->bytes, &address);

	if (result == 0 && !call_reaches(call, address, call->bytes))
		result = -EFAULT;
	if (result == 0)
		call->top = (uint8_t *)(uintptr_t)address;
	return result;
}

void stage_call(struct stage *stage, struct stage_call *step)
{
	const struct file *file = transport_find(&stage->transport, step->call.file);

	step->call.verdict = CGPU_REFUSE;
	step->call.result = file ? 0 : -EBADF;
	if (step->call.result == 0 && step->call.nr == NV_ESC_IOCTL_XFER_CMD)
		step->call.result = unwrap(stage, &step->call);
	if (step->call.result)
		return;
	if (step->container == STAGE_OUTSIDE)
		step->call.result = ask_cards(stage, file, step);
	else
		judged_call(stage, file, step);
	holdings_look(stage->holdings, step->container);
}

/* Compare the core's figures with the cards'. */

void stage_problem(
	struct stage *stage, const char *what, uint32_t container, uint32_t card, uint64_t core, uint64_t cards)
{
	if (stage->problem[0] == 0)
		snprintf(stage->problem, sizeof(stage->problem), "%s: container %u, card %u: core %llu, cards %llu",
			what, container, card, (unsigned long long)core, (unsigned long long)cards);
}

static const struct core_instance *instance_of(struct stage *stage, uint32_t container, uint32_t card)
{
	const struct cgpu_container_info *info = &stage->container[container];
	struct cgpu_state *state = stage->transport.core.state;

	if (!stage->live[container] || core_container(state, info->slot, info->generation) == NULL)
		return NULL;
	return core_instance_of(state, card, info->slot, NULL);
}

uint64_t stage_charged(struct stage *stage, uint32_t container, uint32_t card)
{
	const struct core_instance *instance = instance_of(stage, container, card);

	return instance ? instance->used : 0;
}

uint64_t stage_limit(struct stage *stage, uint32_t container, uint32_t card)
{
	const struct core_instance *instance = instance_of(stage, container, card);

	return instance ? instance->slice.memsize : 0;
}

uint64_t stage_card_free(struct stage *stage, uint32_t card)
{
	struct card_facts facts = cards_facts(stage->transport.sim, card);

	return facts.bytes - facts.used;
}

/* Figures of processes are those that are charged. */
static void check_processes(struct stage *stage, uint32_t container)
{
	u64 shown[HOLDINGS_CARDS] = { 0 };
	struct cgpu_process_charge charge;
	u32 cursor = 0, card;

	while (cgpu_process_next(&stage->transport.core, stage->container[container].slot, &cursor, &charge) == 0)
		shown[charge.gpu] += charge.bytes;
	for (card = 0; card < HOLDINGS_CARDS; card++) {
		if (shown[card] != stage_charged(stage, container, card))
			stage_problem(stage, "sum of processes", container, card, shown[card],
				stage_charged(stage, container, card));
	}
}

static void check_container(struct stage *stage, uint32_t container, uint32_t limited)
{
	uint64_t core, cards;
	uint32_t card;

	for (card = 0; card < HOLDINGS_CARDS; card++) {
		core = stage_charged(stage, container, card);
		cards = holdings_of(stage->holdings, container, card);
		if (core != cards)
			stage_problem(stage, "charge", container, card, core, cards);
		if (limited && cards > stage_limit(stage, container, card))
			stage_problem(stage, "limit", container, card, stage_limit(stage, container, card), cards);
	}
	check_processes(stage, container);
}

bool stage_agree(struct stage *stage, uint32_t limited, uint32_t exact)
{
	uint64_t left[HOLDINGS_CARDS] = { 0 }, orphaned;
	uint32_t container, card;

	for (container = 0; container < stage->containers; container++) {
		if (stage->live[container])
			check_container(stage, container, limited);
		for (card = 0; card < HOLDINGS_CARDS && !stage->live[container]; card++)
			left[card] += holdings_of(stage->holdings, container, card);
	}
	for (card = 0; card < HOLDINGS_CARDS; card++) {
		orphaned = cgpu_gpu_orphaned(&stage->transport.core, card);
		if (exact ? orphaned != left[card] : orphaned < left[card])
			stage_problem(stage, "left behind", STAGE_CONTAINERS, card, orphaned, left[card]);
	}
	return stage->problem[0] == 0;
}

bool stage_empty(struct stage *stage)
{
	const struct cgpu_state *state = stage->transport.core.state;
	uint32_t card;

	if (state->objects || state->clients)
		stage_problem(stage, "records at the end", STAGE_CONTAINERS, 0, state->objects, state->clients);
	for (card = 0; card < HOLDINGS_CARDS; card++) {
		struct card_facts facts = cards_facts(stage->transport.sim, card);

		if (facts.used)
			stage_problem(stage, "bytes at the end", STAGE_CONTAINERS, card, 0, facts.used);
	}
	return stage->problem[0] == 0;
}

const char *stage_said(const struct stage *stage)
{
	return stage->problem;
}
