// SPDX-License-Identifier: Apache-2.0
/*
 * A processor that goes offline takes its breakpoints along, and comes back without. Another user of the registers (gdb,
 * perf) may be first on one of them: the others are watched meanwhile.
 */
#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "breakpoints.h"

/* read() of an event gives these. */
struct reading {
	uint64_t hits, enabled; /* enabled: in nanoseconds */
};

struct processor {
	bool watched;
	int event[BREAKPOINTS_MAX];
	uint64_t enabled;
};

static struct breakpoint breakpoints[BREAKPOINTS_MAX];
static unsigned int breakpoint_count;
static struct processor *processors;
static unsigned int processor_count;
static uint64_t hits_before[WITNESS_PLACES]; /* of events that are closed */

int breakpoints_init(const struct breakpoint *wanted, unsigned int count)
{
	long configured = sysconf(_SC_NPROCESSORS_CONF);

	if (count > BREAKPOINTS_MAX)
		return -ENOSPC;
	processors = calloc((size_t)configured, sizeof(*processors));
	if (!processors)
		return -ENOMEM;
	processor_count = (unsigned int)configured;
	memcpy(breakpoints, wanted, count * sizeof(*wanted));
	breakpoint_count = count;
	return 0;
}

static int event_open(const struct breakpoint *breakpoint, unsigned int processor)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.sample_period = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED,
		.pinned = 1,
		.disabled = 1,
		.bp_type = HW_BREAKPOINT_X,
		.bp_addr = breakpoint->address,
		.bp_len = sizeof(long) };
	int event = (int)syscall(SYS_perf_event_open, &attr, -1, (int)processor, -1, PERF_FLAG_FD_CLOEXEC), err;

	if (event < 0)
		return -errno;
	if (ioctl(event, PERF_EVENT_IOC_SET_BPF, breakpoint->program) == 0 &&
		ioctl(event, PERF_EVENT_IOC_ENABLE, 0) == 0)
		return event;
	err = -errno;
	close(event);
	return err;
}

static struct reading event_read(int event)
{
	struct reading reading = { 0 };

	if (read(event, &reading, sizeof(reading)) != sizeof(reading))
		reading = (struct reading){ 0 };
	return reading;
}

static void events_close(struct processor *processor, unsigned int count)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		hits_before[breakpoints[i].place] += event_read(processor->event[i]).hits;
		close(processor->event[i]);
	}
	processor->watched = false;
}

/* The entry of the one is placed last: no call may be seen without its end. */
static int processor_watch(unsigned int number)
{
	struct processor *processor = &processors[number];
	unsigned int i;
	int event;

	for (i = 0; i < breakpoint_count; i++) {
		event = event_open(&breakpoints[i], number);
		if (event < 0) {
			events_close(processor, i);
			return event;
		}
		processor->event[i] = event;
	}
	processor->watched = true;
	processor->enabled = 0;
	return 0;
}

/* Whether the events are on the processor: it may have been offline meanwhile. */
static bool processor_counts(struct processor *processor)
{
	uint64_t before = processor->enabled;

	processor->enabled = event_read(processor->event[0]).enabled;
	return processor->enabled > before;
}

static bool processor_online(unsigned int number)
{
	char path[64], on = '1'; /* one that cannot go offline has no such file */
	FILE *file;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/online", number);
	file = fopen(path, "re");
	if (file && fread(&on, 1, 1, file) != 1)
		on = '0';
	if (file)
		fclose(file);
	return on == '1';
}

void breakpoints_place(struct breakpoints_state *state)
{
	unsigned int i;
	int err;

	*state = (struct breakpoints_state){ 0 };
	for (i = 0; i < processor_count; i++) {
		bool online = processor_online(i);

		if (processors[i].watched && (!online || !processor_counts(&processors[i])))
			events_close(&processors[i], breakpoint_count);
		if (!online)
			continue;
		state->online++;
		err = processors[i].watched ? 0 : processor_watch(i);
		state->again += err == 0 && processors[i].enabled == 0;
		state->watched += processors[i].watched;
		if (err < 0) {
			state->processor = i;
			state->error = err;
		}
	}
}

uint64_t breakpoints_hits(enum witness_place place)
{
	uint64_t hits = hits_before[place];
	unsigned int i, j;

	for (i = 0; i < processor_count; i++) {
		for (j = 0; processors[i].watched && j < breakpoint_count; j++)
			hits += breakpoints[j].place == place ? event_read(processors[i].event[j]).hits : 0;
	}
	return hits;
}
