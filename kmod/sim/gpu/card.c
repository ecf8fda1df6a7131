// SPDX-License-Identifier: Apache-2.0
/* The cards of a server, and the facts that each reports of itself. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim.h"

/* A decimal number of 1 to limit; advances text. */
static bool number(const char **text, unsigned long limit, unsigned long *value)
{
	char *end;

	if (!isdigit((unsigned char)**text))
		return false;
	*value = strtoul(*text, &end, 10);
	*text = end;
	return *value >= 1 && *value <= limit;
}

/* Spreads the bits of a number (the finaliser of splitmix64), so that cards differ in every part of the UUID. */
static uint64_t mix(uint64_t value)
{
	value += 0x9e3779b97f4a7c15ull;
	value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
	value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
	return value ^ (value >> 31);
}

static void name_card(struct card *card, uint32_t index)
{
	uint64_t high = mix(2ull * index), low = mix(2ull * index + 1);
	const uint8_t *u = card->uuid;

	memcpy(card->uuid, &high, 8);
	memcpy(card->uuid + 8, &low, 8);
	snprintf(card->uuid_text, sizeof(card->uuid_text),
		"GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2], u[3],
		u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
	card->gpu_id = (uint32_t)card_bus(index) << 8;
}

bool card_set_mig(struct card *card, bool on)
{
	card->mig = on && card->model->has_mig;
	return card->mig == on;
}

/* "/mig=" and a card's number, at the end. */
static bool mig_of_start(struct sim *sim, const char *text, const char **problem)
{
	static char expected[160];
	unsigned long index = 0;

	*problem = "the form is MODEL[=MIB][:COUNT][/mig=CARD]";
	if (*text == '\0')
		return true;
	if (strncmp(text, "/mig=", 5) != 0)
		return false;
	text += 5;
	if (strcmp(text, "0") != 0 && (!number(&text, SIM_MAX_CARDS, &index) || *text != '\0'))
		return false;
	snprintf(expected, sizeof(expected), "a card in MIG mode is one of those that are there, of the models %s",
		card_models_text(" and ", true));
	*problem = expected;
	return index < sim->card_count && card_set_mig(&sim->cards[index], true);
}

/* MODEL[=MIB][:COUNT][/mig=CARD] */
bool cards_parse(struct sim *sim, const char *text, const char **problem)
{
	size_t length = strcspn(text, "=:/");
	const struct model *model = card_model_of(text, length);
	static char expected[160];
	unsigned long mib, count = 1;
	uint32_t i;

	snprintf(expected, sizeof(expected), "the model is %s", card_models_text(" or ", false));
	*problem = expected;
	if (!model)
		return false;
	mib = model->mib;
	text += length;
	*problem = "MIB is a number from 1 to 1048576";
	if (*text == '=' && (text++, !number(&text, 1u << 20, &mib)))
		return false;
	*problem = "COUNT is a number from 1 to 32";
	if (*text == ':' && (text++, !number(&text, SIM_MAX_CARDS, &count)))
		return false;
	for (i = 0; i < count; i++) {
		struct card *card = &sim->cards[i];

		card->model = model;
		card->bytes = (uint64_t)mib << 20;
		card->context = (uint64_t)model->context_mib << 20;
		card->instance = i;
		name_card(card, i);
	}
	sim->card_count = (uint32_t)count;
	return mig_of_start(sim, text, problem);
}

void cards_detach(struct sim *sim)
{
	uint32_t i;

	for (i = 0; i < sim->card_count; i++)
		sim->cards[i].instance = SIM_NO_CARD;
}

uint32_t card_at(const struct sim *sim, uint32_t instance)
{
	uint32_t i = 0;

	while (i < sim->card_count && (instance == SIM_NO_CARD || sim->cards[i].instance != instance))
		i++;
	return i < sim->card_count ? i : SIM_NO_CARD;
}

uint32_t card_of_id(const struct sim *sim, uint32_t id)
{
	uint32_t i = 0;

	while (i < sim->card_count && sim->cards[i].gpu_id != id)
		i++;
	return i < sim->card_count ? i : SIM_NO_CARD;
}

uint32_t card_of_uuid(const struct sim *sim, const uint8_t *uuid)
{
	uint32_t i = 0;

	while (i < sim->card_count && memcmp(sim->cards[i].uuid, uuid, sizeof(sim->cards[i].uuid)) != 0)
		i++;
	return i < sim->card_count ? i : SIM_NO_CARD;
}

/* The first number that is free (gpu_mgr.c, gpumgrAllocDeviceInstance()). */
void card_attach(struct sim *sim, uint32_t index)
{
	struct card *card = &sim->cards[index];
	uint32_t instance = 0;

	if (card->opens++ != 0)
		return;
	while (card_at(sim, instance) != SIM_NO_CARD)
		instance++;
	card->instance = instance;
}

void card_release(struct sim *sim, uint32_t index)
{
	if (--sim->cards[index].opens == 0)
		sim->cards[index].instance = SIM_NO_CARD;
}

int card_information(const struct sim *sim, uint32_t index, char *out, size_t room)
{
	const struct card *card = &sim->cards[index];

	return snprintf(out, room,
		"Model: \t\t %s\n"
		"IRQ:   \t\t %u\n"
		"GPU UUID: \t %s\n"
		"Video BIOS: \t 00.00.00.00.00\n"
		"Bus Type: \t PCIe\n"
		"DMA Size: \t 47 bits\n"
		"DMA Mask: \t 0x7fffffffffff\n"
		"Bus Location: \t 0000:%02x:00.0\n"
		"Device Minor: \t %u\n"
		"GPU Firmware: \t %s\n"
		"GPU Excluded:\t No\n",
		card->model->name, card_irq(index), card->uuid_text, card_bus(index), index, sim->version);
}
