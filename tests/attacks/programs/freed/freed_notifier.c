// SPDX-License-Identifier: Apache-2.0
/*
 * freed_notifier [--dev DIR] writer: channels, whose notifiers are freed when the test has sent a line. After another one the driver
 * is asked for each channel's token, which it writes into the notifier. Rests with how many of them it gave.
 *
 * freed_notifier [--dev DIR] neighbour: pages of this process that the driver makes known to the card, for which it takes
 * descriptors as for memory that it has freed. Rests with how many of them somebody has written to.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "card_abi.h"
#include "client.h"

#define MEMORY 0x5d400000u
#define CHANNEL 0x5e100000u
#define PAGE 4096u
#define CHANNELS 4u
#define PAGES 64u
#define FILLED 0xa5

static struct settings settings;
static struct session session;

static uint32_t make_channel(uint32_t handle, uint32_t notifier)
{
	uint8_t params[CLIENT_PARAMS] = { 0 };

	put32(params, settings.abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS.hObjectError, notifier);
	return client_channel(&session, session.device, handle, params);
}

/* A channel has a token once it is on a runlist. */
static uint32_t bind(uint32_t channel)
{
	const struct nv_layout_NVA06F_CTRL_BIND_PARAMS *at = &settings.abi->NVA06F_CTRL_BIND_PARAMS;
	uint8_t params[8] = { 0 };

	put32(params, at->engineType, NV2080_ENGINE_TYPE_GR0);
	return session_control(&session, channel, NVA06F_CTRL_CMD_BIND, params, at->bytes);
}

static uint32_t get_token(uint32_t channel)
{
	uint8_t params[4] = { 0 };

	return session_control(&session, channel, NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN, params, sizeof(params));
}

static int write_freed(void)
{
	uint32_t made = 0, freed = 0, told = 0, i;

	for (i = 0; i < CHANNELS; i++)
		made += client_host_memory(&session, MEMORY + i, PAGE) == NV_OK &&
			make_channel(CHANNEL + i, MEMORY + i) == NV_OK && bind(CHANNEL + i) == NV_OK;
	printf("made channels=%u\n", made);
	client_next();
	for (i = 0; i < CHANNELS; i++)
		freed += session_free(&session, MEMORY + i) == NV_OK;
	printf("freed notifiers=%u\n", freed);
	client_next();
	for (i = 0; i < CHANNELS; i++)
		told += get_token(CHANNEL + i) == NV_OK;
	printf("resting told=%u\n", told);
	client_rest();
}

static uint32_t count_written(const uint8_t *pages)
{
	uint32_t written = 0, i, at;

	for (i = 0; i < PAGES; i++) {
		for (at = 0; at < PAGE && pages[i * PAGE + at] == FILLED; at++)
			;
		written += at < PAGE;
	}
	return written;
}

static int own_pages(void)
{
	uint8_t *pages = aligned_alloc(PAGE, (size_t)PAGES * PAGE);
	uint32_t i, pinned = 0;

	if (!pages)
		return 1;
	memset(pages, FILLED, (size_t)PAGES * PAGE);
	printf("ready\n");
	client_next();
	for (i = 0; i < PAGES; i++) {
		pinned += client_pin(&session, MEMORY + i, pages + (size_t)i * PAGE, PAGE) == NV_OK;
	}
	printf("pinned pages=%u\n", pinned);
	client_next();
	printf("resting written=%u\n", count_written(pages));
	client_rest();
}

int main(int argc, char **argv)
{
	client_begin(&settings, &argc, &argv, 1);
	client_open(&session, &settings);
	return strcmp(argv[0], "neighbour") == 0 ? own_pages() : write_freed();
}
