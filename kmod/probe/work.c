// SPDX-License-Identifier: Apache-2.0
/* Channel groups with work in them. Only simulated cards take work so (kmod/sim/gpu/doorbell.h); on real ones it is EINVAL. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "../sim/gpu/doorbell.h"
#include "work.h"

#define MAX_PROCESSES 256u
/* Lead of "busy" over the card, and the shortest and longest time between two samples of the queues. */
#define AHEAD_NS 200000000ull
#define SAMPLE_NS 100000ull
#define SAMPLE_MOST_NS 10000000ull

static struct work_group groups[WORK_MAX_GROUPS];
static uint32_t group_count;

struct load {
	uint64_t length;
	uint64_t grain;
};

struct work_group *work_last(struct probe *probe)
{
	uint32_t i = group_count;

	while (i > 0 && groups[i - 1].gpu != probe->gpu)
		i--;
	return i ? &groups[i - 1] : NULL;
}

/* A number with ns, us, ms or s behind it, as nanoseconds; advances text. */
static bool parse_time(const char **text, uint64_t *ns)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = { { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 } };
	double value;
	char *end;
	size_t i;

	if (**text < '0' || **text > '9')
		return false;
	value = strtod(*text, &end);
	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t length = strlen(units[i].name);

		if (strncmp(end, units[i].name, length) == 0 && (end[length] == ':' || end[length] == '\0')) {
			value *= units[i].ns;
			end += length;
			break;
		}
	}
	if ((*end != ':' && *end != '\0') || value > 1e18)
		return false;
	*ns = (uint64_t)value;
	*text = end;
	return true;
}

/* LENGTH[:GRAIN]; text is then at the next colon, or at the end. */
static bool parse_load(const char **text, struct load *load)
{
	load->grain = 1;
	if (!parse_time(text, &load->length))
		return false;
	return **text != ':' || (++*text, parse_time(text, &load->grain));
}

static uint32_t make_group(struct session *session, uint32_t engine, uint32_t channels, struct work_group *group)
{
	const __auto_type at = &session->settings->abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS;
	uint8_t params[512] = { 0 };
	uint32_t status, handle;

	*group = (struct work_group){ .gpu = session->gpu };
	status = group_alloc(session, engine, &group->handle);
	put32(params, at->engineType, engine);
	put32(params, at->gpFifoEntries, DOORBELL_QUEUE);
	while (status == NV_OK && group->channels < channels) {
		handle = session_handle(session);
		status = session_alloc(session, group->handle, TURING_CHANNEL_GPFIFO_A, params, at->bytes, &handle);
		if (status == NV_OK)
			group->channel[group->channels++] = handle;
	}
	return status;
}

/* Puts a group on its runlist. */
static uint32_t schedule(struct session *session, const struct work_group *group)
{
	const __auto_type at = &session->settings->abi->NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS;
	uint8_t params[8] = { 0 };

	params[at->bEnable] = 1;
	return session_control(session, group->handle, NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, params, at->bytes);
}

/* [CHANNELS[:ENGINE]] */
uint32_t step_group(struct probe *probe, const char *value)
{
	uint64_t numbers[2] = { 1, NV2080_ENGINE_TYPE_GR0 };
	struct session *session = probe_session(probe);
	struct work_group group = { 0 };
	uint32_t status, i;

	if ((value && !parse_numbers(value, numbers, 2)) || numbers[0] > WORK_MAX_CHANNELS)
		return NOT_UNDERSTOOD;
	status = group_count < WORK_MAX_GROUPS ? session_open(session) : NV_ERR_INSUFFICIENT_RESOURCES;
	if (status == NV_OK)
		status = make_group(session, (uint32_t)numbers[1], (uint32_t)numbers[0], &group);
	if (status == NV_OK)
		status = schedule(session, &group);
	if (group.handle && group_count < WORK_MAX_GROUPS)
		groups[group_count++] = group;
	printf("%s client=0x%x handle=0x%x channels=", probe->step, session->client, group.handle);
	for (i = 0; i < group.channels; i++)
		printf("%s0x%x", i ? "," : "", group.channel[i]);
	return report(status, "%s", "");
}

static uint32_t launch(struct session *session, uint32_t channel, const struct load *load, uint32_t count)
{
	struct doorbell record = {
		.client = session->client,
		.channel = channel,
		.length = load->length,
		.grain = load->grain,
		.count = count,
	};

	return pwrite(session->card, &record, sizeof(record), 0) == sizeof(record) ? NV_OK : RM_ERRNO;
}

static uint32_t read_channel(struct session *session, uint32_t channel, struct doorbell_figures *figures)
{
	static const struct load none;
	uint32_t status = launch(session, channel, &none, 0);

	if (status == NV_OK && pread(session->card, figures, sizeof(*figures), 0) != sizeof(*figures))
		return RM_ERRNO;
	return status;
}

/* Adds up the figures of a group's channels. */
static uint32_t read_group(struct probe *probe, const struct work_group *group, struct doorbell_figures *sum)
{
	struct doorbell_figures one;
	uint32_t i, status = NV_OK;

	memset(sum, 0, sizeof(*sum));
	for (i = 0; i < group->channels && status == NV_OK; i++) {
		status = read_channel(&probe->sessions[group->gpu], group->channel[i], &one);
		if (status != NV_OK)
			break;
		sum->submitted += one.submitted;
		sum->completed += one.completed;
		sum->queued += one.queued;
		sum->busy += one.busy;
		sum->now = one.now;
	}
	return status;
}

/* COUNT:LENGTH[:GRAIN], in each channel of the last group */
uint32_t step_submit(struct probe *probe, const char *value)
{
	const struct work_group *group = work_last(probe);
	uint32_t i, status = group ? NV_OK : NV_ERR_INVALID_OBJECT_HANDLE;
	struct load load;
	uint64_t count;

	if (!parse_size(&value, &count) || *value++ != ':' || !parse_load(&value, &load) || *value ||
		count > UINT32_MAX)
		return NOT_UNDERSTOOD;
	for (i = 0; group && i < group->channels && status == NV_OK; i++)
		status = launch(probe_session(probe), group->channel[i], &load, (uint32_t)count);
	return report(status, "submit count=%llu length=%llu grain=%llu channels=%u", LLU(count), LLU(load.length),
		LLU(load.grain), i);
}

uint32_t step_figures(struct probe *probe, const char *value)
{
	struct doorbell_figures sum;
	uint32_t i, status = NV_OK, one;

	(void)value;
	for (i = 0; i < group_count; i++) {
		one = read_group(probe, &groups[i], &sum);
		report(one, "figures group=0x%x submitted=%llu completed=%llu queued=%llu busy=%llu now=%llu",
			groups[i].handle, LLU(sum.submitted), LLU(sum.completed), LLU(sum.queued), LLU(sum.busy),
			LLU(sum.now));
		status = one != NV_OK ? one : status;
	}
	return status;
}

static void pause_ns(uint64_t ns)
{
	struct timespec time = { .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };

	nanosleep(&time, NULL);
}

/* Number of kernels that make AHEAD_NS of work; at most a whole queue. */
static uint64_t depth_of(const struct load *load)
{
	uint64_t depth = AHEAD_NS / load->length;

	return depth < 2 ? 2 : depth > DOORBELL_QUEUE ? DOORBELL_QUEUE : depth;
}

/* Fills the queues of a group up to that depth. */
static uint32_t refill(struct probe *probe, const struct work_group *group, const struct load *load)
{
	struct session *session = &probe->sessions[group->gpu];
	uint64_t depth = depth_of(load);
	struct doorbell_figures figures;
	uint32_t i, status = NV_OK;

	for (i = 0; i < group->channels && status == NV_OK; i++) {
		status = read_channel(session, group->channel[i], &figures);
		if (status == NV_OK && figures.queued < depth)
			status = launch(session, group->channel[i], load, (uint32_t)(depth - figures.queued));
	}
	return status;
}

/* Keeps the queues of all groups filled for so long. */
static uint32_t keep_busy(struct probe *probe, uint64_t time, const struct load *load)
{
	struct doorbell_figures before[WORK_MAX_GROUPS], after;
	uint64_t start = clock_now(), interval = depth_of(load) * load->length / 4;
	uint32_t i, status = NV_OK;

	interval = interval < SAMPLE_NS ? SAMPLE_NS : interval > SAMPLE_MOST_NS ? SAMPLE_MOST_NS : interval;
	for (i = 0; i < group_count && status == NV_OK; i++)
		status = read_group(probe, &groups[i], &before[i]);
	while (status == NV_OK && clock_now() - start < time) {
		for (i = 0; i < group_count && status == NV_OK; i++)
			status = refill(probe, &groups[i], load);
		pause_ns(interval);
	}
	for (i = 0; i < group_count && status == NV_OK; i++) {
		status = read_group(probe, &groups[i], &after);
		report(status, "busy pid=%d group=0x%x completed=%llu busy=%llu elapsed=%llu", getpid(),
			groups[i].handle, LLU(after.completed - before[i].completed), LLU(after.busy - before[i].busy),
			LLU(after.now - before[i].now));
	}
	if (status != NV_OK || !group_count)
		report(status, "busy pid=%d groups=%u", getpid(), group_count);
	return status;
}

/* A process with a client of its own, and one group. */
static void child(const struct probe *parent, uint64_t time, const struct load *load)
{
	struct probe own = { .settings = parent->settings, .gpu = parent->gpu };
	struct session *session = probe_session(&own);
	uint32_t status;

	session_init(session, &own.settings, own.gpu);
	group_count = 0;
	status = session_open(session);
	if (status == NV_OK)
		status = make_group(session, NV2080_ENGINE_TYPE_GR0, 1, &groups[0]);
	if (status == NV_OK)
		status = schedule(session, &groups[0]);
	group_count = status == NV_OK;
	if (status == NV_OK)
		status = keep_busy(&own, time, load);
	else
		report(status, "busy pid=%d", getpid());
	session_close(session);
	_exit(status != NV_OK);
}

static uint32_t in_processes(struct probe *probe, uint64_t time, const struct load *load, uint32_t count)
{
	uint32_t i, started, failed = 0;
	int result;

	fflush(stdout);
	for (started = 0; started < count; started++) {
		pid_t pid = fork();

		if (pid == 0)
			child(probe, time, load);
		if (pid < 0)
			break;
	}
	for (i = 0; i < started; i++)
		failed += wait(&result) < 0 || result != 0;
	return failed || started < count ? NV_ERR_GENERIC : NV_OK;
}

/* SECONDS:LENGTH[:GRAIN[:PROCESSES]] */
uint32_t step_busy(struct probe *probe, const char *value)
{
	uint64_t time, processes = 0;
	struct load load;

	if (!parse_time(&value, &time) || *value++ != ':' || !parse_load(&value, &load) ||
		(*value && !parse_number(value + 1, &processes)) || !load.length || processes > MAX_PROCESSES)
		return NOT_UNDERSTOOD;
	return processes ? in_processes(probe, time, &load, (uint32_t)processes) : keep_busy(probe, time, &load);
}
