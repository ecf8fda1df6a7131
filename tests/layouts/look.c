// SPDX-License-Identifier: Apache-2.0
/* What the core says, beside what the cards say. */
#include <stdio.h>

#include "registry/registry.h"
#include "stage.h"

void stage_problem(
	struct stage *stage, const char *what, uint32_t container, uint32_t card, uint64_t core, uint64_t cards)
{
	if (stage->problem[0] == 0)
		snprintf(stage->problem, sizeof(stage->problem), "%s: container %u, card %u: core %llu, cards %llu",
			what, container, card, (unsigned long long)core, (unsigned long long)cards);
}

static const struct core_instance *instance_of(struct stage *stage, uint32_t container, uint32_t card)
{
	const struct cgpu_container_info *info = &stage->container[container];
	struct cgpu_state *state = stage->transport.core.state;

	if (!stage->live[container] || core_container(state, info->slot, info->generation) == NULL)
		return NULL;
	return core_instance_of(state, card, info->slot, NULL);
}

uint64_t stage_charged(struct stage *stage, uint32_t container, uint32_t card)
{
	const struct core_instance *instance = instance_of(stage, container, card);

	return instance ? instance->used : 0;
}

uint64_t stage_limit(struct stage *stage, uint32_t container, uint32_t card)
{
	const struct core_instance *instance = instance_of(stage, container, card);

	return instance ? instance->memsize : 0;
}

uint64_t stage_card_free(struct stage *stage, uint32_t card)
{
	struct card_facts facts = cards_facts(stage->transport.sim, card);

	return facts.bytes - facts.used;
}

/* What is shown of processes is what is charged. */
static void check_processes(struct stage *stage, uint32_t container)
{
	u64 shown[HOLDINGS_CARDS] = { 0 };
	struct cgpu_process_charge charge;
	u32 cursor = 0, card;

	while (cgpu_process_next(&stage->transport.core, stage->container[container].slot, &cursor, &charge) == 0)
		shown[charge.gpu] += charge.bytes;
	for (card = 0; card < HOLDINGS_CARDS; card++) {
		if (shown[card] != stage_charged(stage, container, card))
			stage_problem(stage, "sum of processes", container, card, shown[card],
				stage_charged(stage, container, card));
	}
}

static void check_container(struct stage *stage, uint32_t container, uint32_t limited)
{
	uint64_t core, cards;
	uint32_t card;

	for (card = 0; card < HOLDINGS_CARDS; card++) {
		core = stage_charged(stage, container, card);
		cards = holdings_of(stage->holdings, container, card);
		if (core != cards)
			stage_problem(stage, "charge", container, card, core, cards);
		if (limited && cards > stage_limit(stage, container, card))
			stage_problem(stage, "limit", container, card, stage_limit(stage, container, card), cards);
	}
	check_processes(stage, container);
}

bool stage_agree(struct stage *stage, uint32_t limited, uint32_t exact)
{
	uint64_t left[HOLDINGS_CARDS] = { 0 }, orphaned;
	uint32_t container, card;

	for (container = 0; container < stage->containers; container++) {
		if (stage->live[container])
			check_container(stage, container, limited);
		for (card = 0; card < HOLDINGS_CARDS && !stage->live[container]; card++)
			left[card] += holdings_of(stage->holdings, container, card);
	}
	for (card = 0; card < HOLDINGS_CARDS; card++) {
		orphaned = cgpu_gpu_orphaned(&stage->transport.core, card);
		if (exact ? orphaned != left[card] : orphaned < left[card])
			stage_problem(stage, "left behind", STAGE_CONTAINERS, card, orphaned, left[card]);
	}
	return stage->problem[0] == 0;
}

bool stage_empty(struct stage *stage)
{
	const struct cgpu_state *state = stage->transport.core.state;
	uint32_t card;

	if (state->objects || state->clients)
		stage_problem(stage, "records at the end", STAGE_CONTAINERS, 0, state->objects, state->clients);
	for (card = 0; card < HOLDINGS_CARDS; card++) {
		struct card_facts facts = cards_facts(stage->transport.sim, card);

		if (facts.used)
			stage_problem(stage, "bytes at the end", STAGE_CONTAINERS, card, 0, facts.used);
	}
	return stage->problem[0] == 0;
}

const char *stage_said(const struct stage *stage)
{
	return stage->problem;
}
