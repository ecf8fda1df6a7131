// SPDX-License-Identifier: Apache-2.0
/* Simulated programs on a simulated card. */
#include <stdlib.h>
#include <string.h>

#include "work_play.h"

struct player {
	struct work_program program;
	uint64_t wake; /* it goes on then; WORK_NEVER: when a kernel has ended */
	uint64_t launched; /* of this step */
	uint32_t step;
	uint32_t in_flight;
	bool pauses; /* until `wake`, and the next step comes then */
};

struct work_play {
	struct work *work;
	uint32_t count;
	struct player player[WORK_PROGRAMS];
};

static void next_step(struct player *player)
{
	player->launched = 0;
	player->step++;
	if (player->step == player->program.steps)
		player->step = 0;
}

/* Launches what can be launched now. */
static void go_on(struct work_play *play, struct player *player)
{
	uint64_t now = work_now(play->work);
	struct work_kernel kernel = { .tag = (uint64_t)(player - play->player) };

	while (player->wake == WORK_NEVER && now < player->program.end) {
		const struct work_step *step = &player->program.step[player->step];

		if (player->launched < step->count) {
			kernel.length = step->length;
			kernel.grain = step->grain;
			if (player->in_flight == player->program.depth ||
				work_submit(play->work, player->program.channel, &kernel))
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

static void on_done(void *ctx, const struct work_done *done)
{
	struct work_play *play = ctx;
	struct player *player;

	if (done->tag < play->count && play->player[done->tag].program.channel == done->channel) {
		player = &play->player[done->tag];
		player->in_flight--;
		go_on(play, player);
	}
}

struct work_play *work_play_create(struct work *work)
{
	struct work_play *play = calloc(1, sizeof(*play));

	if (!play)
		return NULL;
	play->work = work;
	work_on_done(work, on_done, play);
	return play;
}

void work_play_destroy(struct work_play *play)
{
	if (play)
		work_on_done(play->work, NULL, NULL);
	free(play);
}

static void wake(struct work_play *play, struct player *player)
{
	player->wake = WORK_NEVER;
	if (player->pauses)
		next_step(player);
	player->pauses = false;
	go_on(play, player);
}

uint32_t work_play_add(struct work_play *play, const struct work_program *program)
{
	struct work_channel_figures figures;
	struct player *player = &play->player[play->count];
	uint32_t index;

	if (play->count == WORK_PROGRAMS || !program->depth || !program->steps || program->steps > WORK_STEPS ||
		work_channel_figures(play->work, program->channel, &figures))
		return WORK_NONE;
	for (index = 0; index < program->steps; index++) {
		const struct work_step *step = &program->step[index];

		if (!step->count || !step->length || step->length > WORK_LONGEST || step->pause > WORK_LONGEST)
			return WORK_NONE;
	}
	memset(player, 0, sizeof(*player));
	player->program = *program;
	player->wake = program->start;
	play->count++;
	if (player->wake <= work_now(play->work))
		wake(play, player);
	return play->count - 1;
}

static uint64_t next_wake(const struct work_play *play)
{
	uint64_t next = WORK_NEVER;
	uint32_t index;

	for (index = 0; index < play->count; index++) {
		if (play->player[index].wake < next)
			next = play->player[index].wake;
	}
	return next;
}

uint64_t work_play_next(const struct work_play *play)
{
	uint64_t next = work_next(play->work), at = next_wake(play);

	return at < next ? at : next;
}

void work_play_advance(struct work_play *play, uint64_t until)
{
	uint64_t next;
	uint32_t index;

	while ((next = work_play_next(play)) <= until && next != WORK_NEVER) {
		work_advance(play->work, next);
		for (index = 0; index < play->count; index++) {
			if (play->player[index].wake <= next)
				wake(play, &play->player[index]);
		}
	}
	work_advance(play->work, until);
}
