// SPDX-License-Identifier: Apache-2.0
/* Containers that come, go and change, and their figures. */
#include <stdlib.h>

#include "inside.h"

struct shares *shares_open(const struct shares_setup *setup)
{
	struct shares *shares = calloc(1, sizeof(*shares));

	if (!shares)
		return NULL;
	shares->setup = *setup;
	shares->wake = WORK_NEVER;
	shares->work = work_create(&setup->card);
	if (shares->work && !cgpu_sched_init(&shares->sched, &setup->settings, 0)) {
		work_on_done(shares->work, play_kernel_ended, shares);
		return shares;
	}
	shares_close(shares);
	return NULL;
}

void shares_close(struct shares *shares)
{
	work_destroy(shares->work);
	free(shares);
}

static int add_groups(struct shares *shares, struct member *member)
{
	const struct shares_program *program = &member->of.program;
	uint32_t index;

	for (index = 0; index < member->of.groups; index++) {
		member->group[index] = work_group_add(shares->work, 0, true);
		member->channel[index] = work_channel_add(shares->work, member->group[index], program->depth, true);
		if (member->channel[index] == WORK_NONE)
			return -1;
		if (program->steps)
			play_begin(shares, &member->player[index], program, member->channel[index]);
	}
	return 0;
}

int shares_join(struct shares *shares, uint32_t slot, const struct shares_container *container)
{
	struct member *member;

	if (slot >= SHARES_CONTAINERS || container->groups > SHARES_GROUPS || !play_can_run(&container->program))
		return -1;
	if (cgpu_sched_join(&shares->sched, slot, container->weight, container->highprio, work_now(shares->work)))
		return -1;
	member = &shares->member[slot];
	memset(member, 0, sizeof(*member));
	member->of = *container;
	memset(member->group, 0xff, sizeof(member->group)); /* WORK_NONE */
	member->here = member->open = true;
	member->closes = WORK_NEVER;
	shares->changed = true;
	if (add_groups(shares, member)) {
		shares_leave(shares, slot);
		return -1;
	}
	return 0;
}

int shares_leave(struct shares *shares, uint32_t slot)
{
	struct member *member;
	uint32_t index;

	if (slot >= SHARES_CONTAINERS || !shares->member[slot].here)
		return -1;
	member = &shares->member[slot];
	shares_figures(shares, slot, &member->figures);
	member->figures.cancelled += member->figures.queued;
	member->figures.queued = 0;
	member->here = member->has_work = member->waits = false;
	for (index = 0; index < member->of.groups; index++)
		work_group_remove(shares->work, member->group[index]);
	shares->changed = true;
	return cgpu_sched_leave(&shares->sched, slot, work_now(shares->work));
}

int shares_change(struct shares *shares, uint32_t slot, uint32_t weight, uint32_t highprio)
{
	/* Work until now ran with the old priority. */
	shares_report(shares);
	if (cgpu_sched_change(&shares->sched, slot, weight, highprio, work_now(shares->work)))
		return -1;
	shares->changed = true;
	return 0;
}

int shares_set(struct shares *shares, const struct cgpu_sched_settings *settings)
{
	shares_report(shares);
	if (cgpu_sched_set(&shares->sched, settings, work_now(shares->work)))
		return -1;
	shares->changed = true;
	return 0;
}

int shares_submit(struct shares *shares, uint32_t slot, const struct work_kernel *kernel, uint32_t count)
{
	uint32_t index;

	if (slot >= SHARES_CONTAINERS || !shares->member[slot].here || !shares->member[slot].of.groups)
		return -1;
	for (index = 0; index < count; index++) {
		if (work_submit(shares->work, shares->member[slot].channel[0], kernel))
			return -1;
	}
	return 0;
}

void shares_figures(const struct shares *shares, uint32_t slot, struct shares_figures *sum)
{
	const struct member *member = &shares->member[slot];
	struct work_group_figures figures;
	uint32_t index;

	*sum = member->figures;
	for (index = 0; member->here && index < member->of.groups; index++) {
		work_group_figures(shares->work, member->group[index], &figures);
		sum->busy += figures.busy;
		sum->switching += figures.switching;
		sum->submitted += figures.submitted;
		sum->completed += figures.completed;
		sum->queued += figures.queued;
		sum->cancelled += figures.cancelled;
	}
}

uint64_t shares_idle(const struct shares *shares)
{
	return shares->idle_with_work;
}
