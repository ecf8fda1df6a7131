// SPDX-License-Identifier: Apache-2.0
/* Samples of the graphics engine's busy time by process. */
#include "engines.h"

/* A kernel that catches up with a long time has to let others run. */
#ifdef __KERNEL__
#include <linux/sched.h>
#define give_way() cond_resched()
#else
#define give_way() ((void)0)
#endif

static struct engine_sample *open_sample(struct engines *engines, pid_t process)
{
	uint32_t i = 0;

	while (i < engines->opened && engines->open[i].process != process)
		i++;
	/* More processes than there are samples: those behind are in none. */
	if (i == ENGINES_SAMPLES)
		return NULL;
	if (i == engines->opened)
		engines->open[engines->opened++] = (struct engine_sample){ .process = process };
	return &engines->open[i];
}

void samples_keep(struct engines *engines, struct engine_group *group)
{
	struct work_group_figures figures;
	struct engine_sample *sample;
	uint64_t busy;

	/* Engine 0 is that of graphics and compute. */
	if (group->engine != 0 || work_group_figures(engines->work, group->id, &figures) != 0)
		return;
	busy = figures.busy - group->sampled;
	group->sampled = figures.busy;
	sample = busy ? open_sample(engines, group->process) : NULL;
	if (sample)
		sample->busy += busy;
}

static void append(struct engines *engines, uint64_t ended, const struct engine_sample *sample)
{
	engines->sample[engines->tail] = *sample;
	engines->sample[engines->tail].ended = ended;
	engines->tail = (engines->tail + 1) % ENGINES_SAMPLES;
	if (engines->samples < ENGINES_SAMPLES)
		engines->samples++;
}

static void take(struct engines *engines)
{
	static const struct engine_sample idle;
	struct engine_group *group;
	uint32_t i;

	for (group = engines->groups; group; group = group->next)
		samples_keep(engines, group);
	for (i = 0; i < engines->opened; i++)
		append(engines, engines->next_sample, &engines->open[i]);
	if (!engines->opened)
		append(engines, engines->next_sample, &idle);
	engines->opened = 0;
	engines->next_sample += ENGINES_SAMPLE_NS;
}

void samples_advance(struct engines *engines, uint64_t until)
{
	uint64_t due;

	while (engines->next_sample <= until) {
		work_advance(engines->work, engines->next_sample);
		take(engines);
		give_way();
		/* A long time without any work gets as many samples as there are places. */
		due = engines->next_sample <= until ? (until - engines->next_sample) / ENGINES_SAMPLE_NS : 0;
		if (due > ENGINES_SAMPLES && work_next(engines->work) == WORK_NEVER)
			engines->next_sample += (due - ENGINES_SAMPLES) * ENGINES_SAMPLE_NS;
	}
	work_advance(engines->work, until);
}
