// SPDX-License-Identifier: Apache-2.0
/*
 * Which processes use a card, and how much of its memory and of its time. For the time, that is
 * NV2080_CTRL_CMD_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2 (kern_perf_ctrl.c, ctrl2080perf.h), there is one sample for each
 * process that had the engine in the time before it, or one of none.
 */
#include <stdlib.h>

#include "control.h"
#include "engines.h"

/* ctrl2080gpu.h NV2080_CTRL_GPU_GET_PIDS_MAX_COUNT */
#define MAX_PIDS 950u
#define NO_PARTITION UINT32_MAX

struct usage {
	uint64_t private;
	uint64_t shared_owned;
	uint64_t shared_duped;
};

static bool uses_card(const struct client *client, uint32_t card, uint32_t class_id)
{
	struct object *at = client->root;

	while ((at = object_next(client->root, at))) {
		if (at->card == card && at->class_id == class_id)
			return true;
	}
	return false;
}

/* Process numbers in our own namespace, each once, and none of the kernel's; takes the lock. */
static uint32_t collect(struct control *control, uint32_t class_id, pid_t found[MAX_PIDS])
{
	struct sim *sim = control->sim;
	const struct client *client;
	uint32_t count = 0, i;

	pthread_mutex_lock(&sim->lock);
	for (client = sim->clients; client && count < MAX_PIDS; client = client->next) {
		for (i = 0; i < count && found[i] != client->process; i++)
			;
		if (i == count && client->owner && client->process != 0 &&
			uses_card(client, control->card_index, class_id))
			found[count++] = client->process;
	}
	pthread_mutex_unlock(&sim->lock);
	return count;
}

static uint32_t control_pids(struct control *control)
{
	const __auto_type at = &control->abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS;
	struct pid_view view;
	uint32_t count, seen = 0, i, pid;
	pid_t *found;

	if (get32(control->params, at->idType) != NV2080_CTRL_GPU_GET_PIDS_ID_TYPE_CLASS)
		return NV_ERR_INVALID_ARGUMENT;
	found = malloc(MAX_PIDS * sizeof(*found));
	if (!found)
		return NV_ERR_INSUFFICIENT_RESOURCES;
	count = collect(control, get32(control->params, at->id), found);
	pid_view_open(&view, control->sim, &control->call->caller);
	for (i = 0; i < count; i++) {
		pid = pid_view_of(&view, found[i]);
		if (pid != 0)
			put32(control->params + 4 * seen++, at->pidTbl, pid);
	}
	free(found);
	put32(control->params, at->pidTblCount, seen);
	return NV_OK;
}

/* Memory of class 0x40 only, as the driver counts it (gpu_rmapi.c:871); the lock is held. */
static void add_usage(const struct client *client, uint32_t card, struct usage *usage)
{
	struct object *at = client->root;

	while ((at = object_next(client->root, at))) {
		if (!at->memory || at->card != card || at->class_id != NV01_MEMORY_LOCAL_USER)
			continue;
		if (at->memory->refs == 1)
			usage->private += at->memory->size;
		else if (at->memory_owner)
			usage->shared_owned += at->memory->size;
		else
			usage->shared_duped += at->memory->size;
	}
}

/*
 * Number in our namespace of a process that the caller names; 0 when it has no client here. The list has numbers of the
 * caller's since 535.113.01, this question since 565.57.01 (gpu_rmapi.c:981 there).
 */
static pid_t find_process(struct control *control, const struct pid_view *view, uint32_t pid)
{
	uint32_t count, i;
	pid_t *found, process = 0;

	if (!version_at_least(control->sim, 565, 57, 1))
		return (pid_t)pid;
	found = malloc(MAX_PIDS * sizeof(*found));
	if (!found)
		return 0;
	count = collect(control, NV01_DEVICE_0, found);
	for (i = 0; i < count && process == 0; i++) {
		if (pid_view_of(view, found[i]) == pid)
			process = found[i];
	}
	free(found);
	return process;
}

static uint32_t usage_of(struct control *control, const struct pid_view *view, uint32_t pid, struct usage *usage)
{
	struct sim *sim = control->sim;
	const struct client *client;
	pid_t process;

	if (pid == 0)
		return NV_ERR_INVALID_ARGUMENT;
	process = find_process(control, view, pid);
	if (process == 0)
		return NV_OK;
	pthread_mutex_lock(&sim->lock);
	for (client = sim->clients; client; client = client->next) {
		if (client->owner && client->process == process)
			add_usage(client, control->card_index, usage);
	}
	pthread_mutex_unlock(&sim->lock);
	return NV_OK;
}

static uint32_t control_pid_info(struct control *control)
{
	const struct nv_abi *abi = control->abi;
	const struct nv_layout_NV2080_CTRL_GPU_PID_INFO *at = &abi->NV2080_CTRL_GPU_PID_INFO;
	uint32_t count = get32(control->params, abi->NV2080_CTRL_GPU_GET_PID_INFO_PARAMS.pidInfoListCount), i;
	uint8_t *entry = control->params + abi->NV2080_CTRL_GPU_GET_PID_INFO_PARAMS.pidInfoList;
	struct pid_view view;

	if (count == 0 || count > NV2080_CTRL_GPU_GET_PID_INFO_MAX_COUNT)
		return NV_ERR_INVALID_ARGUMENT;
	pid_view_open(&view, control->sim, &control->call->caller);
	for (i = 0; i < count; i++, entry += at->bytes) {
		struct usage usage = { 0 };
		uint32_t result = NV_ERR_INVALID_ARGUMENT;

		if (get32(entry, at->index) == NV2080_CTRL_GPU_PID_INFO_INDEX_VIDEO_MEMORY_USAGE)
			result = usage_of(control, &view, get32(entry, at->pid), &usage);
		put32(entry, at->result, result);
		put64(entry, at->data_vidMemUsage_memPrivate, usage.private);
		put64(entry, at->data_vidMemUsage_memSharedOwned, usage.shared_owned);
		put64(entry, at->data_vidMemUsage_memSharedDuped, usage.shared_duped);
		put32(entry, at->smcSubscription_computeInstanceId, NO_PARTITION);
		put32(entry, at->smcSubscription_gpuInstanceId, NO_PARTITION);
	}
	return NV_OK;
}

/* Hundredths of a percent. */
#define WHOLE 10000u

/* The ring as it is now; the rest of it is zero. */
static void copy_ring(struct control *control, struct engines *out)
{
	struct sim *sim = control->sim;

	pthread_mutex_lock(&sim->lock);
	engines_advance(sim, control->card_index);
	if (sim->cards[control->card_index].engines)
		*out = *sim->cards[control->card_index].engines;
	pthread_mutex_unlock(&sim->lock);
}

/* The process's number in the caller's namespace, else the host's: osFindNsPid() fails for an invisible process. */
static uint32_t process_of(const struct pid_view *view, const struct engine_sample *sample, bool translates)
{
	uint32_t seen = translates && sample->process ? pid_view_of(view, sample->process) : 0;

	if (!sample->process)
		return NV2080_GPUMON_PID_INVALID;
	return seen ? seen : (uint32_t)sample->process;
}

static void put_sample(
	const struct control *control, const struct pid_view *view, const struct engine_sample *sample, uint8_t *entry)
{
	const struct nv_abi *abi = control->abi;
	const __auto_type at = &abi->NV2080_CTRL_PERF_GPUMON_ENGINE_UTIL_SAMPLE;
	const __auto_type parts = &abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE;
	bool translates = at->pOsPidInfo != NV_ABI_ABSENT;

	put64(entry, parts->base_timeStamp, sample->ended);
	put32(entry + parts->gr, at->util, (uint32_t)(sample->busy * WHOLE / ENGINES_SAMPLE_NS));
	put32(entry + parts->gr, at->procId, process_of(view, sample, translates));
	put32(entry + parts->fb, at->procId, NV2080_GPUMON_PID_INVALID);
}

static uint32_t control_samples(struct control *control)
{
	const struct nv_abi *abi = control->abi;
	const __auto_type at = &abi->NV2080_CTRL_PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2_PARAMS;
	uint32_t bytes = at->bytes - at->samples, each = abi->NV2080_CTRL_PERF_GPUMON_PERFMON_UTIL_SAMPLE.bytes, i;
	struct engines *ring;
	struct pid_view view;

	if (control->card.mig)
		return NV_ERR_NOT_SUPPORTED;
	if (get32(control->params, at->bufSize) != bytes)
		return NV_ERR_INVALID_ARGUMENT;
	ring = calloc(1, sizeof(*ring));
	if (!ring)
		return NV_ERR_NO_MEMORY;
	copy_ring(control, ring);
	pid_view_open(&view, control->sim, &control->call->caller);
	memset(control->params + at->samples, 0, bytes);
	for (i = 0; i < ring->samples && i < bytes / each; i++)
		put_sample(control, &view, &ring->sample[i], control->params + at->samples + (size_t)i * each);
	put32(control->params, at->count, bytes / each);
	put32(control->params, at->tracker, ring->tail);
	free(ring);
	return NV_OK;
}

static const struct control_entry entries[] = {
	{ NV_CONTROL(NV2080, GPU_GET_PIDS), .answer = control_pids },
	{ NV_CONTROL(NV2080, GPU_GET_PID_INFO), .answer = control_pid_info },
	{ NV_CONTROL(NV2080, PERF_GET_GPUMON_PERFMON_UTIL_SAMPLES_V2), .answer = control_samples },
};

const struct control_set controls_process = CONTROL_SET(entries);
