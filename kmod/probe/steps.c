// SPDX-License-Identifier: Apache-2.0
/* The words of the command line. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "probe.h"

#define LLU(value) ((unsigned long long)(value))

/* Was the answer what was asked for? */
static void judge(struct probe *probe, uint32_t status)
{
	uint32_t wanted = probe->expecting ? probe->expected : NV_OK;

	if (status == RM_ERRNO)
		status = RM_ERRNO | (uint32_t)errno;
	if (status != wanted)
		probe->refused = true;
	probe->expecting = false;
}

static struct session *current(struct probe *probe)
{
	return &probe->sessions[probe->gpu];
}

/* SIZE[:PAGE]; the page counts for this step only. */
static bool size_and_page(const char *value, uint64_t *size, struct settings *settings)
{
	if (!value || !parse_size(&value, size))
		return false;
	return *value == '\0' || (*value == ':' && parse_page(value + 1, settings));
}

static bool do_alloc(struct probe *probe, const char *name, const char *value,
	uint32_t (*get)(struct session *session, uint64_t size, struct grant *grant))
{
	struct session *session = current(probe);
	struct settings before = probe->settings;
	struct grant grant = { 0 };
	uint32_t status;
	uint64_t size;

	if (!size_and_page(value, &size, &probe->settings))
		return false;
	status = session_open(session);
	if (status == NV_OK)
		status = get(session, size, &grant);
	probe->settings = before;
	report(status, "%s %llu size=%llu offset=%llu limit=%llu handle=0x%x", name, LLU(size), LLU(grant.size),
		LLU(grant.offset), LLU(grant.limit), grant.handle);
	judge(probe, status);
	return true;
}

/* The refusal that ends it is what was asked for when it is "no memory". */
static bool do_fill(struct probe *probe, const char *value)
{
	struct session *session = current(probe);
	struct settings before = probe->settings;
	uint64_t size, bytes = 0, count = 0;
	uint32_t status;

	if (!size_and_page(value, &size, &probe->settings))
		return false;
	status = session_open(session);
	if (status == NV_OK)
		status = memory_fill(session, size, &bytes, &count);
	probe->settings = before;
	report(status, "fill %llu bytes=%llu count=%llu", LLU(size), LLU(bytes), LLU(count));
	judge(probe, status == NV_ERR_NO_MEMORY && !probe->expecting ? NV_OK : status);
	return true;
}

static bool do_free(struct probe *probe, const char *value)
{
	struct session *session = current(probe);
	size_t freed = 0, index = 0;
	uint64_t number = 0;
	bool all = value && strcmp(value, "all") == 0;
	uint32_t status = NV_ERR_INVALID_OBJECT_HANDLE;

	if (!value || strcmp(value, "last") == 0)
		index = session->count ? session->count - 1 : 0;
	else if (!all && strcmp(value, "first") != 0 && !parse_number(value, &number))
		return false;
	index += (size_t)number;
	while (index < session->count) {
		status = memory_free_at(session, all ? session->count - 1 : index);
		freed++;
		if (!all || status != NV_OK)
			break;
	}
	if (all && session->count == 0)
		status = freed ? status : NV_OK;
	report(status, "free %s count=%zu", value ? value : "last", freed);
	judge(probe, status);
	return true;
}

static bool do_context(struct probe *probe, const char *value)
{
	uint32_t status = session_open(current(probe));
	uint64_t number = 1, made;

	if (value && !parse_number(value, &number))
		return false;
	for (made = 0; status == NV_OK && made < number;) {
		status = memory_context(current(probe));
		made += status == NV_OK;
	}
	report(status, "context count=%llu", LLU(made));
	judge(probe, status);
	return true;
}

static void do_dup(struct probe *probe)
{
	struct grant grant = { 0 };
	uint32_t status = session_open(current(probe));

	if (status == NV_OK)
		status = memory_dup(current(probe), &grant);
	report(status, "dup size=%llu handle=0x%x", LLU(grant.size), grant.handle);
	judge(probe, status);
}

static void do_surface(struct probe *probe)
{
	uint32_t handle = 0, status = session_open(current(probe));

	if (status == NV_OK)
		status = memory_surface(current(probe), &handle);
	report(status, "surface handle=0x%x", handle);
	judge(probe, status);
}

static uint32_t info_one(struct probe *probe, uint32_t gpu)
{
	struct session *session = &probe->sessions[gpu];
	struct card_info info = { 0 };
	uint32_t status = session_open(session);

	if (status == NV_OK)
		status = info_read(session, &info);
	report(status,
		"info gpu=%u total=%llu free=%llu used=%llu v1_total=%llu v1_free=%llu v2_total=%llu v2_free=%llu "
		"heap_total=%llu heap_free=%llu region_total=%llu uuid=%s name=\"%s\"",
		gpu, LLU(info.v2.total), LLU(info.v2.free), LLU(info.v2.total - info.v2.free), LLU(info.v1.total),
		LLU(info.v1.free), LLU(info.v2.total), LLU(info.v2.free), LLU(info.heap.total), LLU(info.heap.free),
		LLU(info.region), info.uuid, info.name);
	return status;
}

/* Without a value: the current card; with all: every card whose node can be opened. */
static bool do_info(struct probe *probe, const char *value)
{
	uint32_t gpu, status = NV_OK, one;

	if (!value) {
		judge(probe, info_one(probe, probe->gpu));
		return true;
	}
	if (strcmp(value, "all") != 0)
		return false;
	for (gpu = 0; gpu < RM_MAX_GPUS; gpu++) {
		char path[4200];

		snprintf(path, sizeof(path), "%s/nvidia%u", probe->settings.dev, gpu);
		if (access(path, F_OK) != 0)
			continue;
		one = info_one(probe, gpu);
		status = one != NV_OK ? one : status;
	}
	judge(probe, status);
	return true;
}

static void do_count(struct probe *probe)
{
	struct session *session = current(probe);
	uint32_t ids[RM_MAX_GPUS], cards = 0, status = session_open(session);
	uint64_t bytes = 0;
	size_t i;

	if (status == NV_OK)
		status = driver_cards(&probe->settings, session->ctl, ids, &cards);
	for (i = 0; i < session->count; i++)
		bytes += session->held[i].size;
	report(status, "count cards=%u held=%zu bytes=%llu driver=%s", cards, session->count, LLU(bytes),
		probe->settings.version);
	judge(probe, status);
}

static void do_pids(struct probe *probe)
{
	uint32_t pids[950], count = 0, i, status = session_open(current(probe));
	uint64_t bytes;

	if (status == NV_OK)
		status = info_pids(current(probe), pids, 950, &count);
	for (i = 0; i < count && status == NV_OK; i++) {
		status = info_pid_memory(current(probe), pids[i], &bytes);
		printf("pid %u bytes=%llu\n", pids[i], LLU(bytes));
	}
	report(status, "pids count=%u self=%d", count, getpid());
	judge(probe, status);
}

/* Any class by number, under the device. Most want parameters: zeros, where a size of 0 stands for that of the class. */
static bool do_class(struct probe *probe, const char *value)
{
	struct session *session = current(probe);
	uint8_t params[1024] = { 0 };
	uint32_t handle = 0, status;
	uint64_t number;

	if (!value || !parse_number(value, &number) || number > UINT32_MAX)
		return false;
	status = session_open(session);
	if (status == NV_OK)
		status = session_alloc(session, session->device, (uint32_t)number, params, 0, &handle);
	report(status, "class 0x%llx handle=0x%x", LLU(number), handle);
	judge(probe, status);
	return true;
}

/* The driver's own limit on this process's cgroup. */
static bool do_limit(struct probe *probe, const char *value)
{
	struct session *session = current(probe);
	uint32_t status = session_open(session);
	uint64_t bytes;

	if (!value || !parse_size(&value, &bytes) || *value)
		return false;
	if (status == NV_OK)
		status = info_set_limit(session, bytes);
	report(status, "limit bytes=%llu", LLU(bytes));
	judge(probe, status);
	return true;
}

/* The first instance of a card in MIG mode, as CUDA subscribes to it. */
static void do_instance(struct probe *probe)
{
	struct session *session = current(probe);
	/* NVC637_ALLOCATION_PARAMETERS: a capability's descriptor, and the instance's number. */
	uint8_t params[16] = { 0 };
	uint32_t handle = 0, status = session_open(session);

	if (status == NV_OK)
		status = session_alloc(
			session, session->subdevice, AMPERE_SMC_PARTITION_REF, params, sizeof(params), &handle);
	report(status, "instance handle=0x%x", handle);
	judge(probe, status);
}

static void do_reopen(struct probe *probe)
{
	uint32_t status;

	session_drop(current(probe));
	status = session_open(current(probe));
	report(status, "reopen gpu=%u", probe->gpu);
	judge(probe, status);
}

/* Those of dup_fd.c. */
static bool is_for_channels(const char *name)
{
	return strcmp(name, "dup-fd") == 0 || strcmp(name, "timeslice") == 0 || strcmp(name, "context-bytes") == 0 ||
		strcmp(name, "channel-on") == 0 || strcmp(name, "channel-off") == 0;
}

/* A word that takes no value. */
static bool plain_action(struct probe *probe, const char *name)
{
	if (strcmp(name, "dup") == 0)
		return do_dup(probe), true;
	if (strcmp(name, "surface") == 0)
		return do_surface(probe), true;
	if (strcmp(name, "count") == 0)
		return do_count(probe), true;
	if (strcmp(name, "pids") == 0)
		return do_pids(probe), true;
	if (strcmp(name, "unmanaged") == 0)
		return judge(probe, managed_drop(probe)), true;
	if (strcmp(name, "instance") == 0)
		return do_instance(probe), true;
	if (strcmp(name, "reopen") == 0)
		return do_reopen(probe), true;
	if (strcmp(name, "close") == 0)
		return session_drop(current(probe)), printf("close gpu=%u\n", probe->gpu), true;
	if (strcmp(name, "exit-dirty") == 0)
		fflush(stdout), _exit(probe->refused ? 3 : 0);
	return false;
}

static bool action(struct probe *probe, const char *name, const char *value)
{
	bool understood = true;
	uint32_t status = NV_OK;

	if (strcmp(name, "info") == 0)
		return do_info(probe, value);
	if (strcmp(name, "alloc") == 0)
		return do_alloc(probe, name, value, memory_alloc);
	if (strcmp(name, "host") == 0)
		return do_alloc(probe, name, value, memory_alloc_host);
	if (strcmp(name, "pin") == 0)
		return do_alloc(probe, name, value, memory_pin);
	if (strcmp(name, "fill") == 0)
		return do_fill(probe, value);
	if (strcmp(name, "context") == 0)
		return do_context(probe, value);
	if (strcmp(name, "free") == 0)
		return do_free(probe, value);
	if (strcmp(name, "class") == 0)
		return do_class(probe, value);
	if (strcmp(name, "limit") == 0)
		return do_limit(probe, value);
	if (strcmp(name, "hold") == 0)
		return hold_run(value, &understood), understood;
	if (value && (strcmp(name, "fork") == 0 || strcmp(name, "threads") == 0))
		return judge(probe, parallel_run(probe, value, name[0] == 't', &understood)), understood;
	if (value && strcmp(name, "managed") == 0)
		return judge(probe, managed_run(probe, value, &understood)), understood;
	if (value && strcmp(name, "churn") == 0)
		return judge(probe, churn_run(probe, value, &understood)), understood;
	if (value && strcmp(name, "unshare") == 0)
		return judge(probe, unshare_run(probe, value, &understood)), understood;
	if (value && strcmp(name, "bench") == 0)
		return judge(probe, bench_run(probe, value, &understood)), understood;
	if (strcmp(name, "export") == 0 || strcmp(name, "import") == 0 || strcmp(name, "take") == 0 ||
		strcmp(name, "close-export") == 0)
		return judge(probe, export_run(probe, name, value, &understood)), understood;
	if (value && (strcmp(name, "share") == 0 || strcmp(name, "dup-of") == 0))
		return judge(probe, share_run(probe, name, value, &understood)), understood;
	if (work_run(probe, name, value, &status, &understood))
		return understood && (judge(probe, status), true);
	if (value && is_for_channels(name))
		return judge(probe, dup_fd_run(probe, name, value, &understood)), understood;
	return !value && plain_action(probe, name);
}

bool step_run(struct probe *probe, const char *word)
{
	const char *equals = strchr(word, '=');
	size_t length = equals ? (size_t)(equals - word) : strlen(word);
	char name[32];
	bool known, good;

	if (length >= sizeof(name))
		return false;
	memcpy(name, word, length);
	name[length] = '\0';
	good = setting_run(probe, name, equals ? equals + 1 : NULL, &known);
	return known ? good : action(probe, name, equals ? equals + 1 : NULL);
}
