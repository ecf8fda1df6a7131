// SPDX-License-Identifier: Apache-2.0
/* What the driver can be told of the last channel group, and of the card's channels. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "work.h"

#define LLU(value) ((unsigned long long)(value))

struct scheduling {
	struct session *session;
	const struct work_group *group;
	uint32_t channel; /* its last one */
	const struct nv_abi *abi;
	uint64_t number; /* the word's value */
	uint64_t second; /* behind a colon, or 0 */
};

uint32_t scheduling_set(struct session *session, const struct work_group *group, bool on)
{
	const struct nv_layout_NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS *at =
		&session->settings->abi->NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS;
	uint8_t params[8] = { 0 };

	params[at->bEnable] = on;
	return session_control(session, group->handle, NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, params, at->bytes);
}

static uint32_t schedule(const struct scheduling *call)
{
	return scheduling_set(call->session, call->group, call->number != 0);
}

static uint32_t schedule_channel(const struct scheduling *call)
{
	const struct nv_layout_NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS *at = &call->abi->NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS;
	uint8_t params[8] = { 0 };

	params[at->bEnable] = call->number != 0;
	return session_control(call->session, call->channel, NVA06F_CTRL_CMD_GPFIFO_SCHEDULE, params, at->bytes);
}

static uint32_t bind(const struct scheduling *call)
{
	uint8_t params[8] = { 0 };

	put32(params, call->abi->NVA06F_CTRL_BIND_PARAMS.engineType, (uint32_t)call->number);
	return session_control(call->session, call->group->handle, NVA06C_CTRL_CMD_BIND, params,
		call->abi->NVA06F_CTRL_BIND_PARAMS.bytes);
}

static uint32_t slice(const struct scheduling *call)
{
	const struct nv_layout_NVA06C_CTRL_TIMESLICE_PARAMS *at = &call->abi->NVA06C_CTRL_TIMESLICE_PARAMS;
	uint8_t params[8] = { 0 };

	put64(params, at->timesliceUs, call->number);
	return session_control(call->session, call->group->handle, NVA06C_CTRL_CMD_SET_TIMESLICE, params, at->bytes);
}

static uint32_t preempt(const struct scheduling *call)
{
	const struct nv_layout_NVA06C_CTRL_PREEMPT_PARAMS *at = &call->abi->NVA06C_CTRL_PREEMPT_PARAMS;
	uint8_t params[8] = { 0 };

	params[at->bWait] = 1;
	params[at->bManualTimeout] = call->number != 0;
	put32(params, at->timeoutUs, (uint32_t)call->number);
	return session_control(call->session, call->group->handle, NVA06C_CTRL_CMD_PREEMPT, params, at->bytes);
}

static uint32_t interleave(const struct scheduling *call)
{
	const struct nv_layout_NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS *at =
		&call->abi->NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS;
	uint8_t params[8] = { 0 };

	put32(params, at->tsgInterleaveLevel, (uint32_t)call->number);
	return session_control(
		call->session, call->group->handle, NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL, params, at->bytes);
}

static uint32_t interleave_channel(const struct scheduling *call)
{
	const struct nv_layout_NVA06F_CTRL_INTERLEAVE_LEVEL_PARAMS *at =
		&call->abi->NVA06F_CTRL_INTERLEAVE_LEVEL_PARAMS;
	uint8_t params[8] = { 0 };

	put32(params, at->channelInterleaveLevel, (uint32_t)call->number);
	return session_control(call->session, call->channel, NVA06F_CTRL_CMD_SET_INTERLEAVE_LEVEL, params, at->bytes);
}

static uint32_t realtime(const struct scheduling *call)
{
	uint8_t params[8] = { 0 };

	params[call->abi->NVA06C_CTRL_MAKE_REALTIME_PARAMS.bRealtime] = call->number != 0;
	return session_control(call->session, call->group->handle, NVA06C_CTRL_CMD_MAKE_REALTIME, params,
		call->abi->NVA06C_CTRL_MAKE_REALTIME_PARAMS.bytes);
}

static uint32_t restart(const struct scheduling *call)
{
	const struct nv_layout_NVA06F_CTRL_RESTART_RUNLIST_PARAMS *at = &call->abi->NVA06F_CTRL_RESTART_RUNLIST_PARAMS;
	uint8_t params[8] = { 0 };

	params[at->bForceRestart] = call->number != 0;
	return session_control(call->session, call->channel, NVA06F_CTRL_CMD_RESTART_RUNLIST, params, at->bytes);
}

/* MICROSECONDS[:PROPERTY] of the last channel */
static uint32_t properties(const struct scheduling *call)
{
	const struct nv_layout_NV0080_CTRL_FIFO_SET_CHANNEL_PROPERTIES_PARAMS *at =
		&call->abi->NV0080_CTRL_FIFO_SET_CHANNEL_PROPERTIES_PARAMS;
	uint8_t params[16] = { 0 };

	put32(params, at->hChannel, call->channel);
	put32(params, at->property, (uint32_t)call->second);
	put64(params, at->value, call->number);
	return session_control(
		call->session, call->session->device, NV0080_CTRL_CMD_FIFO_SET_CHANNEL_PROPERTIES, params, at->bytes);
}

static uint32_t disable_channels(const struct scheduling *call, bool disable, bool only, bool rewind)
{
	const struct nv_layout_NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS *at =
		&call->abi->NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS;
	uint8_t params[1024] = { 0 };
	uint32_t i;

	params[at->bDisable] = disable;
	params[at->bOnlyDisableScheduling] = only;
	params[at->bRewindGpPut] = rewind;
	for (i = 0; i < call->group->channels && i < NV2080_CTRL_FIFO_DISABLE_CHANNELS_MAX_ENTRIES; i++) {
		put32(params + 4 * i, at->hClientList, call->session->client);
		put32(params + 4 * i, at->hChannelList, call->group->channel[i]);
	}
	put32(params, at->numChannels, i);
	return session_control(
		call->session, call->session->subdevice, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, params, at->bytes);
}

/* 0: with all that they run; 1: for scheduling only; 2: and what waits in them is thrown away */
static uint32_t disable(const struct scheduling *call)
{
	return disable_channels(call, true, call->number == 1, call->number == 2);
}

static uint32_t enable(const struct scheduling *call)
{
	return disable_channels(call, false, false, false);
}

/* POLICY[:1 to restore it] */
static uint32_t runlist_policy(const struct scheduling *call)
{
	const struct nv_layout_NV2080_CTRL_FIFO_RUNLIST_SET_SCHED_POLICY_PARAMS *at =
		&call->abi->NV2080_CTRL_FIFO_RUNLIST_SET_SCHED_POLICY_PARAMS;
	uint8_t params[8] = { 0 };

	put32(params, at->flags, (uint32_t)call->second);
	put32(params, at->schedPolicy, (uint32_t)call->number);
	return session_control(call->session, call->session->subdevice, NV2080_CTRL_CMD_FIFO_RUNLIST_SET_SCHED_POLICY,
		params, at->bytes);
}

static uint32_t compute_policy(const struct scheduling *call)
{
	const struct nv_layout_NV2080_CTRL_GPU_SET_COMPUTE_POLICY_CONFIG_PARAMS *at =
		&call->abi->NV2080_CTRL_GPU_SET_COMPUTE_POLICY_CONFIG_PARAMS;
	uint8_t params[8] = { 0 };

	put32(params, at->config_type, NV2080_CTRL_GPU_COMPUTE_POLICY_TIMESLICE);
	put32(params, at->config_data_timeslice, (uint32_t)call->number);
	return session_control(call->session, call->session->subdevice, NV2080_CTRL_CMD_GPU_SET_COMPUTE_POLICY_CONFIG,
		params, at->bytes);
}

/* What the driver has as the last group's time slice, and as the card's compute policy. */
static uint32_t read_back(const struct scheduling *call)
{
	const struct nv_layout_NV2080_CTRL_GPU_GET_COMPUTE_POLICY_CONFIG_PARAMS *at =
		&call->abi->NV2080_CTRL_GPU_GET_COMPUTE_POLICY_CONFIG_PARAMS;
	const struct nv_layout_NVA06C_CTRL_TIMESLICE_PARAMS *time = &call->abi->NVA06C_CTRL_TIMESLICE_PARAMS;
	uint8_t slices[8] = { 0 }, policy[512] = { 0 };
	uint32_t status =
		session_control(call->session, call->group->handle, NVA06C_CTRL_CMD_GET_TIMESLICE, slices, time->bytes);

	if (status == NV_OK)
		status = session_control(call->session, call->session->subdevice,
			NV2080_CTRL_CMD_GPU_GET_COMPUTE_POLICY_CONFIG, policy, at->bytes);
	printf("slice=%llu compute-policy=%u ", LLU(get64(slices, time->timesliceUs)),
		get32(policy + at->configList, call->abi->NV2080_CTRL_GPU_COMPUTE_POLICY_CONFIG.data_timeslice));
	return status;
}

static void print_samples(const struct nv_abi *abi, const uint8_t *params)
{
	const struct nv_layout_NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS *at =
		&abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS;
	const struct nv_layout_NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE *part =
		&abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE;
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

/* From the oldest call. */
static uint32_t samples(const struct scheduling *call)
{
	const struct nv_layout_NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS *at =
		&call->abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS;
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

/* How the word is written, and whether it is about a group. */
enum form { NUMBER, MAYBE, PLAIN };

static const struct word {
	const char *name;
	enum form form;
	bool of_card;
	uint32_t (*run)(const struct scheduling *call);
} words[] = {
	{ "schedule", NUMBER, false, schedule },
	{ "schedule-channel", NUMBER, false, schedule_channel },
	{ "bind", NUMBER, false, bind },
	{ "slice", NUMBER, false, slice },
	{ "preempt", MAYBE, false, preempt },
	{ "interleave", NUMBER, false, interleave },
	{ "interleave-channel", NUMBER, false, interleave_channel },
	{ "realtime", NUMBER, false, realtime },
	{ "restart", MAYBE, false, restart },
	{ "properties", NUMBER, false, properties },
	{ "disable", MAYBE, false, disable },
	{ "enable", PLAIN, false, enable },
	{ "scheduling", PLAIN, false, read_back },
	{ "runlist-policy", NUMBER, true, runlist_policy },
	{ "compute-policy", NUMBER, true, compute_policy },
	{ "samples", PLAIN, true, samples },
};

static const struct word *find(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i].name, name) == 0)
			return &words[i];
	}
	return NULL;
}

bool scheduling_run(struct probe *probe, const char *name, const char *value, uint32_t *status, bool *understood)
{
	const struct word *word = find(name);
	struct scheduling call = { .session = &probe->sessions[probe->gpu], .group = work_last(probe) };
	uint64_t numbers[2] = { 0 };

	if (!word)
		return false;
	*understood = value ? word->form != PLAIN && parse_numbers(value, numbers, 2) : word->form != NUMBER;
	if (!*understood)
		return true;
	call.abi = probe->settings.abi;
	call.number = numbers[0];
	call.second = numbers[1];
	if (call.group && call.group->channels)
		call.channel = call.group->channel[call.group->channels - 1];
	*status = session_open(call.session);
	if (*status == NV_OK)
		*status = word->of_card || call.group ? word->run(&call) : NV_ERR_INVALID_OBJECT_HANDLE;
	report(*status, "%s%s%s", name, value ? " " : "", value ? value : "");
	return true;
}
