// SPDX-License-Identifier: Apache-2.0
/* The steps of the command line, and the table of all steps. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "probe.h"

/* SIZE[:PAGE]; the page counts for this step only. */
static bool size_and_page(const char *value, uint64_t *size, struct settings *settings)
{
	if (!parse_size(&value, size))
		return false;
	return *value == '\0' || (*value == ':' && parse_page(value + 1, settings));
}

/* alloc, host, pin */
static uint32_t step_alloc(struct probe *probe, const char *value)
{
	struct session *session = probe_session(probe);
	struct settings before = probe->settings;
	struct grant grant = { 0 };
	uint32_t status;
	uint64_t size;

	if (!size_and_page(value, &size, &probe->settings))
		return NOT_UNDERSTOOD;
	status = session_open(session);
	if (status == NV_OK && strcmp(probe->step, "host") == 0)
		status = memory_alloc_host(session, size, &grant);
	else if (status == NV_OK && strcmp(probe->step, "pin") == 0)
		status = memory_pin(session, size, &grant);
	else if (status == NV_OK)
		status = memory_alloc(session, size, &grant);
	probe->settings = before;
	return report(status, "%s %llu size=%llu offset=%llu limit=%llu handle=0x%x", probe->step, LLU(size),
		LLU(grant.size), LLU(grant.offset), LLU(grant.limit), grant.handle);
}

/* "No memory" is the end that is expected. */
static uint32_t step_fill(struct probe *probe, const char *value)
{
	struct session *session = probe_session(probe);
	struct settings before = probe->settings;
	uint64_t size, bytes = 0, count = 0;
	uint32_t status;

	if (!size_and_page(value, &size, &probe->settings))
		return NOT_UNDERSTOOD;
	status = session_open(session);
	if (status == NV_OK)
		status = memory_fill(session, size, &bytes, &count);
	probe->settings = before;
	report(status, "fill %llu bytes=%llu count=%llu", LLU(size), LLU(bytes), LLU(count));
	return status == NV_ERR_NO_MEMORY && !probe->expecting ? NV_OK : status;
}

static uint32_t step_free(struct probe *probe, const char *value)
{
	struct session *session = probe_session(probe);
	size_t freed = 0, index = 0;
	uint64_t number = 0;
	bool all = value && strcmp(value, "all") == 0;
	uint32_t status = NV_ERR_INVALID_OBJECT_HANDLE;

	if (!value || strcmp(value, "last") == 0)
		index = session->count ? session->count - 1 : 0;
	else if (!all && strcmp(value, "first") != 0 && !parse_number(value, &number))
		return NOT_UNDERSTOOD;
	index += (size_t)number;
	while (index < session->count) {
		status = memory_free_at(session, all ? session->count - 1 : index);
		freed++;
		if (!all || status != NV_OK)
			break;
	}
	if (all && session->count == 0)
		status = freed ? status : NV_OK;
	return report(status, "free %s count=%zu", value ? value : "last", freed);
}

static uint32_t step_context(struct probe *probe, const char *value)
{
	uint32_t status = session_open(probe_session(probe)), handle;
	uint64_t number = 1, made;

	if (value && !parse_number(value, &number))
		return NOT_UNDERSTOOD;
	for (made = 0; status == NV_OK && made < number;) {
		status = group_alloc(probe_session(probe), NV2080_ENGINE_TYPE_GR0, &handle);
		made += status == NV_OK;
	}
	return report(status, "context count=%llu", LLU(made));
}

static uint32_t step_dup(struct probe *probe, const char *value)
{
	struct grant grant = { 0 };
	uint32_t status = session_open(probe_session(probe));

	(void)value;
	if (status == NV_OK)
		status = memory_dup(probe_session(probe), &grant);
	return report(status, "dup size=%llu handle=0x%x", LLU(grant.size), grant.handle);
}

static uint32_t step_surface(struct probe *probe, const char *value)
{
	uint32_t handle = 0, status = session_open(probe_session(probe));

	(void)value;
	if (status == NV_OK)
		status = memory_surface(probe_session(probe), &handle);
	return report(status, "surface handle=0x%x", handle);
}

static uint32_t info_one(struct probe *probe, uint32_t gpu)
{
	struct session *session = &probe->sessions[gpu];
	struct card_info info = { 0 };
	uint32_t status = session_open(session);

	if (status == NV_OK)
		status = info_read(session, &info);
	return report(status,
		"info gpu=%u total=%llu free=%llu used=%llu v1_total=%llu v1_free=%llu v2_total=%llu v2_free=%llu "
		"heap_total=%llu heap_free=%llu region_total=%llu uuid=%s name=\"%s\"",
		gpu, LLU(info.v2.total), LLU(info.v2.free), LLU(info.v2.total - info.v2.free), LLU(info.v1.total),
		LLU(info.v1.free), LLU(info.v2.total), LLU(info.v2.free), LLU(info.heap.total), LLU(info.heap.free),
		LLU(info.region), info.uuid, info.name);
}

/* Prints facts of the current card or, with "all", of every card whose node is there. */
static uint32_t step_info(struct probe *probe, const char *value)
{
	uint32_t gpu, status = NV_OK, one;

	if (!value)
		return info_one(probe, probe->gpu);
	if (strcmp(value, "all") != 0)
		return NOT_UNDERSTOOD;
	for (gpu = 0; gpu < RM_MAX_GPUS; gpu++) {
		char path[4200];

		snprintf(path, sizeof(path), "%s/nvidia%u", probe->settings.dev, gpu);
		if (access(path, F_OK) != 0)
			continue;
		one = info_one(probe, gpu);
		status = one != NV_OK ? one : status;
	}
	return status;
}

static uint32_t step_count(struct probe *probe, const char *value)
{
	struct session *session = probe_session(probe);
	uint32_t ids[RM_MAX_GPUS], cards = 0, status = session_open(session);
	uint64_t bytes = 0;
	size_t i;

	(void)value;
	if (status == NV_OK)
		status = driver_cards(&probe->settings, session->ctl, ids, &cards);
	for (i = 0; i < session->count; i++)
		bytes += session->held[i].size;
	return report(status, "count cards=%u held=%zu bytes=%llu driver=%s", cards, session->count, LLU(bytes),
		probe->settings.version);
}

static uint32_t step_pids(struct probe *probe, const char *value)
{
	uint32_t pids[950], count = 0, i, status = session_open(probe_session(probe));
	uint64_t bytes;

	(void)value;
	if (status == NV_OK)
		status = info_pids(probe_session(probe), pids, 950, &count);
	for (i = 0; i < count && status == NV_OK; i++) {
		status = info_pid_memory(probe_session(probe), pids[i], &bytes);
		printf("pid %u bytes=%llu\n", pids[i], LLU(bytes));
	}
	return report(status, "pids count=%u self=%d", count, getpid());
}

/* Any class by number, under the device. Most want parameters: zeros, where a size of 0 stands for that of the class. */
static uint32_t step_class(struct probe *probe, const char *value)
{
	struct session *session = probe_session(probe);
	uint8_t params[1024] = { 0 };
	uint32_t handle = 0, status;
	uint64_t number;

	if (!parse_number(value, &number) || number > UINT32_MAX)
		return NOT_UNDERSTOOD;
	status = session_open(session);
	if (status == NV_OK)
		status = session_alloc(session, session->device, (uint32_t)number, params, 0, &handle);
	return report(status, "class 0x%llx handle=0x%x", LLU(number), handle);
}

/* The first instance of a card in MIG mode, as CUDA subscribes to it. */
static uint32_t step_instance(struct probe *probe, const char *value)
{
	struct session *session = probe_session(probe);
	/* NVC637_ALLOCATION_PARAMETERS: a capability's descriptor, and the instance's number. */
	uint8_t params[16] = { 0 };
	uint32_t handle = 0, status = session_open(session);

	(void)value;
	if (status == NV_OK)
		status = session_alloc(
			session, session->subdevice, AMPERE_SMC_PARTITION_REF, params, sizeof(params), &handle);
	return report(status, "instance handle=0x%x", handle);
}

static uint32_t step_close(struct probe *probe, const char *value)
{
	(void)value;
	session_drop(probe_session(probe));
	printf("close gpu=%u\n", probe->gpu);
	return NO_ANSWER;
}

static uint32_t step_exit_dirty(struct probe *probe, const char *value)
{
	(void)value;
	fflush(stdout);
	_exit(probe->refused ? 3 : 0);
}

static const struct step {
	const char *name;
	enum value value;
	step_fn *run;
} steps[] = {
	{ "info", MAYBE_VALUE, step_info },
	{ "count", NO_VALUE, step_count },
	{ "pids", NO_VALUE, step_pids },
	{ "alloc", VALUE, step_alloc },
	{ "host", VALUE, step_alloc },
	{ "pin", VALUE, step_alloc },
	{ "class", VALUE, step_class },
	{ "context", MAYBE_VALUE, step_context },
	{ "fill", VALUE, step_fill },
	{ "free", MAYBE_VALUE, step_free },
	{ "managed", VALUE, step_managed },
	{ "unmanaged", NO_VALUE, step_unmanaged },
	{ "dup", NO_VALUE, step_dup },
	{ "surface", NO_VALUE, step_surface },
	{ "instance", NO_VALUE, step_instance },
	{ "share", VALUE, step_share },
	{ "dup-of", VALUE, step_dup_of },
	{ "export", MAYBE_VALUE, step_export },
	{ "import", MAYBE_VALUE, step_import },
	{ "take", VALUE, step_take },
	{ "close-export", NO_VALUE, step_close_export },
	{ "channel-off", VALUE, step_channel_off },
	{ "group", MAYBE_VALUE, step_group },
	{ "submit", VALUE, step_submit },
	{ "busy", VALUE, step_busy },
	{ "figures", NO_VALUE, step_figures },
	{ "fork", VALUE, step_parallel },
	{ "threads", VALUE, step_parallel },
	{ "unshare", VALUE, step_unshare },
	{ "churn", VALUE, step_churn },
	{ "close", NO_VALUE, step_close },
	{ "hold", MAYBE_VALUE, step_hold },
	{ "exit-dirty", NO_VALUE, step_exit_dirty },
};

static uint32_t run(struct probe *probe, const char *value)
{
	size_t i;

	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (strcmp(steps[i].name, probe->step) == 0)
			return value_fits(steps[i].value, value) ? steps[i].run(probe, value) : NOT_UNDERSTOOD;
	}
	return scheduling_run(probe, value);
}

bool probe_run(struct probe *probe, const char *word)
{
	const char *equals = strchr(word, '='), *value = equals ? equals + 1 : NULL;
	size_t length = equals ? (size_t)(equals - word) : strlen(word);
	uint32_t status;
	char name[32];

	if (length >= sizeof(name))
		return false;
	memcpy(name, word, length);
	name[length] = '\0';
	if (setting_run(probe, name, value))
		return true;
	probe->step = name;
	status = run(probe, value);
	probe->step = NULL;
	if (status == NOT_UNDERSTOOD || status == NO_ANSWER)
		return status == NO_ANSWER;
	if (status == RM_ERRNO)
		status = RM_ERRNO | (uint32_t)errno;
	if (status != (probe->expecting ? probe->expected : NV_OK))
		probe->refused = true;
	probe->expecting = false;
	return true;
}
