// SPDX-License-Identifier: Apache-2.0
/* Controls of the last channel group, of single groups and channels, and of the card's scheduling. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "work.h"

struct scheduling {
	struct session *session;
	const struct nv_abi *abi;
	const struct work_group *group;
	uint32_t channel; /* its last one */
	uint64_t number; /* the word's value, or 0 */
};

/* The last channel's own slice, in microseconds. */
static uint32_t properties(const struct scheduling *call)
{
	const __auto_type at = &call->abi->NV0080_CTRL_FIFO_SET_CHANNEL_PROPERTIES_PARAMS;
	uint8_t params[16] = { 0 };

	put32(params, at->hChannel, call->channel);
	put64(params, at->value, call->number);
	return session_control(
		call->session, call->session->device, NV0080_CTRL_CMD_FIFO_SET_CHANNEL_PROPERTIES, params, at->bytes);
}

static uint32_t disable_channels(
	struct session *session, uint32_t client, const uint32_t *channels, uint32_t count, bool disable)
{
	const __auto_type at = &session->settings->abi->NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS;
	uint8_t params[1024] = { 0 };
	uint32_t i;

	params[at->bDisable] = disable;
	for (i = 0; i < count && i < NV2080_CTRL_FIFO_DISABLE_CHANNELS_MAX_ENTRIES; i++) {
		put32(params + 4 * i, at->hClientList, client);
		put32(params + 4 * i, at->hChannelList, channels[i]);
	}
	put32(params, at->numChannels, i);
	return session_control(session, session->subdevice, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, params, at->bytes);
}

static uint32_t disable(const struct scheduling *call)
{
	return disable_channels(
		call->session, call->session->client, call->group->channel, call->group->channels, true);
}

static uint32_t enable(const struct scheduling *call)
{
	return disable_channels(
		call->session, call->session->client, call->group->channel, call->group->channels, false);
}

static uint32_t read_timeslice(struct session *session, uint32_t group, uint64_t *microseconds)
{
	const struct nv_layout_NVA06C_CTRL_TIMESLICE_PARAMS *at = &session->settings->abi->NVA06C_CTRL_TIMESLICE_PARAMS;
	uint8_t params[8] = { 0 };
	uint32_t status = session_control(session, group, NVA06C_CTRL_CMD_GET_TIMESLICE, params, at->bytes);

	*microseconds = get64(params, at->timesliceUs);
	return status;
}

/* Prints the driver's timeslice of the last group, and the card's compute policy. */
static uint32_t read_back(const struct scheduling *call)
{
	const __auto_type at = &call->abi->NV2080_CTRL_GPU_GET_COMPUTE_POLICY_CONFIG_PARAMS;
	uint8_t policy[512] = { 0 };
	uint64_t microseconds;
	uint32_t status = read_timeslice(call->session, call->group->handle, &microseconds);

	if (status == NV_OK)
		status = session_control(call->session, call->session->subdevice,
			NV2080_CTRL_CMD_GPU_GET_COMPUTE_POLICY_CONFIG, policy, at->bytes);
	printf("slice=%llu compute-policy=%u ", LLU(microseconds),
		get32(policy + at->configList, call->abi->NV2080_CTRL_GPU_COMPUTE_POLICY_CONFIG.data_timeslice));
	return status;
}

static void print_samples(const struct nv_abi *abi, const uint8_t *params)
{
	const __auto_type at = &abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS;
	const __auto_type part = &abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE;
	uint32_t count = get32(params, at->count), tracker = get32(params, at->tracker), i;

	for (i = 0; i < count; i++) {
		const uint8_t *entry = params + at->samples + (size_t)((tracker + i) % count) * part->bytes;
		const uint8_t *gr = entry + part->gr;

		if (get64(entry, part->base_timeStamp) != 0)
			printf("sample time=%llu pid=%d util=%u\n", LLU(get64(entry, part->base_timeStamp)),
				(int)get32(gr, abi->NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE.procId),
				get32(gr, abi->NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE.util));
	}
}

/* Prints the samples, the oldest first. */
static uint32_t samples(const struct scheduling *call)
{
	const __auto_type at = &call->abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS;
	uint8_t *params = calloc(1, at->bytes ? at->bytes : 8);
	uint32_t status;

	if (!params)
		return RM_ERRNO;
	if (at->bytes)
		put32(params, at->bufSize, (uint32_t)(at->bytes - at->samples));
	status = session_control(call->session, call->session->subdevice,
		NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2, params, at->bytes ? at->bytes : 8);
	if (status == NV_OK)
		print_samples(call->abi, params);
	free(params);
	return status;
}

enum target { GROUP, CHANNEL, CARD };

/* A word for a control: either a function, or the one field of its parameters that the word's value sets. */
static const struct word {
	const char *name;
	enum value value;
	enum target target;
	uint32_t (*run)(const struct scheduling *call);
	uint32_t command;
	/* Offsets in struct nv_abi: of the parameters' size, and of the field's place in them. */
	size_t bytes, at;
	/* The field's width: 1, then it is a flag, 4 or 8. */
	uint32_t width;
} words[] = {
#define SETS(command, params, field, width) \
	NULL, command, offsetof(struct nv_abi, params.bytes), offsetof(struct nv_abi, params.field), width
	{ "schedule", VALUE, GROUP,
		SETS(NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS, bEnable, 1) },
	{ "schedule-channel", VALUE, CHANNEL,
		SETS(NVA06F_CTRL_CMD_GPFIFO_SCHEDULE, NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS, bEnable, 1) },
	{ "bind", VALUE, GROUP, SETS(NVA06C_CTRL_CMD_BIND, NVA06F_CTRL_BIND_PARAMS, engineType, 4) },
	{ "slice", VALUE, GROUP, SETS(NVA06C_CTRL_CMD_SET_TIMESLICE, NVA06C_CTRL_TIMESLICE_PARAMS, timesliceUs, 8) },
	{ "interleave", VALUE, GROUP,
		SETS(NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL, NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS, tsgInterleaveLevel,
			4) },
	{ "interleave-channel", VALUE, CHANNEL,
		SETS(NVA06F_CTRL_CMD_SET_INTERLEAVE_LEVEL, NVA06F_CTRL_INTERLEAVE_LEVEL_PARAMS, channelInterleaveLevel,
			4) },
	{ "realtime", VALUE, GROUP,
		SETS(NVA06C_CTRL_CMD_MAKE_REALTIME, NVA06C_CTRL_MAKE_REALTIME_PARAMS, bRealtime, 1) },
	{ "restart", MAYBE_VALUE, CHANNEL,
		SETS(NVA06F_CTRL_CMD_RESTART_RUNLIST, NVA06F_CTRL_RESTART_RUNLIST_PARAMS, bForceRestart, 1) },
	{ "preempt", VALUE, GROUP, SETS(NVA06C_CTRL_CMD_PREEMPT, NVA06C_CTRL_PREEMPT_PARAMS, bWait, 1) },
	{ "runlist-policy", VALUE, CARD,
		SETS(NV2080_CTRL_CMD_FIFO_RUNLIST_SET_SCHED_POLICY, NV2080_CTRL_FIFO_RUNLIST_SET_SCHED_POLICY_PARAMS,
			schedPolicy, 4) },
	/* The type of the policy is 0, NV2080_CTRL_GPU_COMPUTE_POLICY_TIMESLICE. */
	{ "compute-policy", VALUE, CARD,
		SETS(NV2080_CTRL_CMD_GPU_SET_COMPUTE_POLICY_CONFIG, NV2080_CTRL_GPU_SET_COMPUTE_POLICY_CONFIG_PARAMS,
			config_data_timeslice, 4) },
#undef SETS
	{ "properties", VALUE, CHANNEL, .run = properties },
	{ "disable", NO_VALUE, GROUP, .run = disable },
	{ "enable", NO_VALUE, GROUP, .run = enable },
	{ "scheduling", NO_VALUE, GROUP, .run = read_back },
	{ "samples", NO_VALUE, CARD, .run = samples },
};

static uint16_t offset_in(const struct nv_abi *abi, size_t member)
{
	uint16_t offset;

	memcpy(&offset, (const char *)abi + member, sizeof(offset));
	return offset;
}

static uint32_t set_field(const struct scheduling *call, const struct word *word)
{
	const uint32_t objects[] = { [GROUP] = call->group ? call->group->handle : 0,
		[CHANNEL] = call->channel,
		[CARD] = call->session->subdevice };
	uint16_t at = offset_in(call->abi, word->at);
	uint8_t params[8] = { 0 };

	if (word->width == 1)
		params[at] = call->number != 0;
	else if (word->width == 4)
		put32(params, at, (uint32_t)call->number);
	else
		put64(params, at, call->number);
	return session_control(
		call->session, objects[word->target], word->command, params, offset_in(call->abi, word->bytes));
}

static const struct word *find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i].name, name) == 0)
			return &words[i];
	}
	return NULL;
}

uint32_t scheduling_run(struct probe *probe, const char *value)
{
	const struct word *word = find(probe->step);
	struct scheduling call = { .session = probe_session(probe), .group = work_last(probe) };
	uint32_t status;

	if (!word || !value_fits(word->value, value) || (value && !parse_number(value, &call.number)))
		return NOT_UNDERSTOOD;
	call.abi = probe->settings.abi;
	if (call.group && call.group->channels)
		call.channel = call.group->channel[call.group->channels - 1];
	status = session_open(call.session);
	if (status == NV_OK && !call.group && word->target != CARD)
		status = NV_ERR_INVALID_OBJECT_HANDLE;
	else if (status == NV_OK)
		status = word->run ? word->run(&call) : set_field(&call, word);
	return report(status, "%s%s%s", probe->step, value ? " " : "", value ? value : "");
}

/* CLIENT:CHANNEL, which need not be the session's own, is taken off its runlist. */
uint32_t step_channel_off(struct probe *probe, const char *value)
{
	struct session *session = probe_session(probe);
	uint64_t numbers[2];
	uint32_t channel, status;

	if (parse_numbers(value, numbers, 2) != 2)
		return NOT_UNDERSTOOD;
	status = session_open(session);
	if (status != NV_OK)
		return status;
	channel = (uint32_t)numbers[1];
	status = disable_channels(session, (uint32_t)numbers[0], &channel, 1, true);
	return report(status, "channel-off 0x%llx:0x%llx", LLU(numbers[0]), LLU(numbers[1]));
}
