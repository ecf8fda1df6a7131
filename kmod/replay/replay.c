// SPDX-License-Identifier: Apache-2.0
/* A recorded trace's calls, in one slice over all cards. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "transport.h"

#define CONTAINER "replay"

struct replay {
	struct transport transport;
	struct cgpu_container_info slice;
};

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
	(void)pid;
	snprintf(path, bytes, "/" CONTAINER);
	return 0;
}

static const struct cgpu_ops ops = { .lock = no_lock, .unlock = no_lock, .log = no_log, .cgroup_of = any_cgroup };

static int make_slice(struct replay *replay, uint64_t memory)
{
	char line[CGPU_INST_CTL_MAX];
	size_t used = (size_t)snprintf(line, sizeof(line), "create id=" CONTAINER " pid=1");
	uint32_t i;
	int result;

	for (i = 0; i < cards_count(replay->transport.sim) && used < sizeof(line); i++) {
		uint64_t bytes = memory ? memory : cards_facts(replay->transport.sim, i).bytes;

		used += (size_t)snprintf(
			line + used, sizeof(line) - used, " gpu=%u:%llu", i, (unsigned long long)bytes);
	}
	if (used >= sizeof(line))
		return -E2BIG;
	result = cgpu_inst_ctl(&replay->transport.core, line, used);
	return result ? result : cgpu_container_find(&replay->transport.core, CONTAINER, &replay->slice);
}

static int start_core(struct replay *replay, const char *driver, uint64_t memory)
{
	struct cgpu_settings settings = { .engine = "replay",
		.version = "1",
		.memory_backend = "core",
		.enforce = 1,
		.policy = CGPU_CONFIG_POLICY_DEFAULT,
		.max_inst = CGPU_CONFIG_MAX_INST_DEFAULT,
		.prio_ratio = CGPU_CONFIG_PRIO_RATIO_DEFAULT };
	int result;

	replay->transport.core.state = calloc(1, cgpu_state_bytes());
	replay->transport.core.ops = &ops;
	replay->transport.core.ctx = replay;
	replay->transport.core.abi = cgpu_abi_find(driver);
	if (!replay->transport.core.state || !replay->transport.core.abi)
		return -ENOMEM;
	cgpu_state_init(replay->transport.core.state, 1);
	result = cgpu_settings_apply(&replay->transport.core, &settings);
	if (result == 0)
		result = transport_add_cards(&replay->transport);
	return result ? result : make_slice(replay, memory);
}

struct replay *cgpu_replay_new(const char *driver, const char *cards, uint64_t memory, char error[REPLAY_ERROR_BYTES])
{
	struct replay *replay = calloc(1, sizeof(*replay));
	int result;

	if (!replay) {
		snprintf(error, REPLAY_ERROR_BYTES, "out of memory");
		return NULL;
	}
	replay->transport.sim = cards_new(driver, cards, error);
	if (!replay->transport.sim) {
		free(replay);
		return NULL;
	}
	result = start_core(replay, driver, memory);
	if (result == 0)
		return replay;
	snprintf(error, REPLAY_ERROR_BYTES, "the slice cannot be made: %s", strerror(-result));
	cgpu_replay_free(replay);
	return NULL;
}

void cgpu_replay_free(struct replay *replay)
{
	transport_forget_files(&replay->transport);
	cards_free(replay->transport.sim);
	free(replay->transport.core.state);
	free(replay);
}

uint64_t cgpu_replay_open(struct replay *replay, uint32_t node, uint32_t card)
{
	const struct cgpu_container_info *slice = &replay->slice;
	struct cgpu_core *core = &replay->transport.core;
	const struct file *file;

	if (node > REPLAY_OTHER)
		return 0;
	if (node == REPLAY_CARD && !cgpu_minor_granted(core, slice->slot, slice->generation, card))
		return 0;
	file = transport_open(&replay->transport, (enum replay_node)node, card);
	return file ? file->id : 0;
}

void cgpu_replay_close(struct replay *replay, uint64_t id)
{
	transport_close(&replay->transport, id);
}

static int run(struct replay *replay, const struct file *file, struct replay_call *given, struct cgpu_call *call)
{
	int result = given->ask_only || !file->open ? 0 : cards_call(replay->transport.sim, file->open, given);
	/* The core gives up what it reserved for a call that does not run. */
	int told = given->ask_only && given->verdict == CGPU_EXECUTE ? -EIO : result;

	if (!given->ask_only || given->verdict != CGPU_CONTINUE)
		transport_settle(&replay->transport, file, call, told);
	return result;
}

int cgpu_replay_call(struct replay *replay, struct replay_call *given)
{
	const struct file *file = transport_find(&replay->transport, given->file);
	struct cgpu_call call;

	if (!file)
		return -1;
	call = transport_call(&replay->transport, file, &replay->slice, given);
	given->verdict = transport_judge(&replay->transport, given, &call);
	given->result = 0;
	if (given->verdict == CGPU_REFUSE)
		given->result = -call.error;
	else if (given->verdict == CGPU_EXECUTE || given->verdict == CGPU_CONTINUE)
		given->result = run(replay, file, given, &call);
	return 0;
}

void cgpu_replay_set_time(struct replay *replay, uint64_t now)
{
	cards_set_time(replay->transport.sim, now);
}

static struct open_file *card_file(struct replay *replay, uint64_t id)
{
	const struct file *file = transport_find(&replay->transport, id);

	return file && file->node == REPLAY_CARD ? file->open : NULL;
}

int cgpu_replay_write(struct replay *replay, uint64_t file, const void *records, size_t bytes)
{
	struct open_file *open = card_file(replay, file);

	return open ? cards_ring(replay->transport.sim, open, records, bytes) : -EBADF;
}

int cgpu_replay_read(struct replay *replay, uint64_t file, void *figures, size_t bytes)
{
	struct open_file *open = card_file(replay, file);

	return open ? cards_figures(replay->transport.sim, open, figures, bytes) : -EBADF;
}

uint32_t cgpu_replay_cards(const struct replay *replay)
{
	return cards_count(replay->transport.sim);
}

uint64_t cgpu_replay_taken(struct replay *replay, uint32_t card)
{
	return card < cards_count(replay->transport.sim) ? cards_facts(replay->transport.sim, card).used : 0;
}

uint64_t cgpu_replay_charged(struct replay *replay, uint32_t card)
{
	struct cgpu_process_charge charge;
	uint64_t bytes = 0;
	u32 cursor = 0;

	while (cgpu_process_next(&replay->transport.core, replay->slice.slot, &cursor, &charge) == 0) {
		if (charge.gpu == card)
			bytes += charge.bytes;
	}
	return bytes;
}
