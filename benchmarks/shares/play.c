// SPDX-License-Identifier: Apache-2.0
/* The programs of containers: launches of a process on the simulated card, with their times. */
#include "inside.h"

static void next_step(struct player *player)
{
	player->launched = 0;
	player->step++;
	if (player->step == player->program->steps)
		player->step = 0;
}

/* Launches what can be launched now. */
static void go_on(struct shares *shares, struct player *player)
{
	const struct shares_program *program = player->program;
	struct work_kernel kernel = { .tag = (uintptr_t)player };
	uint64_t now = work_now(shares->work);

	while (player->wake == WORK_NEVER) {
		const struct shares_step *step = &program->step[player->step];

		if (player->launched < step->count) {
			kernel.length = step->length;
			kernel.grain = step->grain;
			if (player->in_flight == program->depth || work_submit(shares->work, player->channel, &kernel))
				return;
			player->in_flight++;
			player->launched++;
		} else if (step->pause) {
			if (player->in_flight)
				return;
			player->pauses = true;
			player->wake = now + step->pause;
		} else {
			next_step(player);
		}
	}
}

void play_kernel_ended(void *shares, uint32_t channel, uint64_t tag)
{
	struct player *player = (struct player *)(uintptr_t)tag;

	(void)channel;
	/* Work that came by shares_submit() is nobody's. */
	if (!player)
		return;
	player->in_flight--;
	go_on(shares, player);
}

static void wake(struct shares *shares, struct player *player)
{
	player->wake = WORK_NEVER;
	if (player->pauses)
		next_step(player);
	player->pauses = false;
	go_on(shares, player);
}

bool play_can_run(const struct shares_program *program)
{
	uint32_t index;

	for (index = 0; index < program->steps && index < SHARES_STEPS; index++) {
		if (!program->step[index].count || !program->step[index].length)
			return false;
	}
	return program->depth && program->steps <= SHARES_STEPS;
}

void play_begin(struct shares *shares, struct player *player, const struct shares_program *program, uint32_t channel)
{
	*player = (struct player){ .program = program, .channel = channel, .wake = WORK_NEVER };
	go_on(shares, player);
}

static uint32_t players_of(const struct member *member)
{
	return member->here && member->of.program.steps ? member->of.groups : 0;
}

uint64_t play_next(const struct shares *shares)
{
	uint64_t next = work_next(shares->work);
	uint32_t slot, index;

	for (slot = 0; slot < SHARES_CONTAINERS; slot++) {
		const struct member *member = &shares->member[slot];

		for (index = 0; index < players_of(member); index++) {
			if (member->player[index].wake < next)
				next = member->player[index].wake;
		}
	}
	return next;
}

static void wake_those_at(struct shares *shares, uint64_t now)
{
	uint32_t slot, index;

	for (slot = 0; slot < SHARES_CONTAINERS; slot++) {
		struct member *member = &shares->member[slot];

		for (index = 0; index < players_of(member); index++) {
			if (member->player[index].wake <= now)
				wake(shares, &member->player[index]);
		}
	}
}

void play_advance(struct shares *shares, uint64_t until)
{
	uint64_t next;

	while ((next = play_next(shares)) <= until && next != WORK_NEVER) {
		work_advance(shares->work, next);
		wake_those_at(shares, next);
	}
	work_advance(shares->work, until);
}
