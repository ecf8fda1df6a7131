// SPDX-License-Identifier: Apache-2.0
/*
 * spaces [--dev DIR] cross ROUNDS GROUPS: a VA space below one device, and a second device, whose group names it first; then
 * groups of the first device that name it; then the second device is freed. Rests before that and after it.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

#define SPACE 0x5d000001u
#define SECOND 0x5d100000u
#define FOREIGN 0x5e800000u
#define GROUP 0x5e000000u

static struct settings settings;
static struct session session;

static uint32_t make_space(uint32_t handle)
{
	uint8_t params[CLIENT_PARAMS] = { 0 };

	return session_alloc(&session, session.device, FERMI_VASPACE_A, params,
		settings.abi->NV_VASPACE_ALLOCATION_PARAMETERS.bytes, &handle);
}

static uint32_t make_group(uint32_t device, uint32_t handle)
{
	const struct nv_layout_NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS *at =
		&settings.abi->NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS;
	uint8_t params[CLIENT_PARAMS] = { 0 };

	put32(params, at->engineType, NV2080_ENGINE_TYPE_GR0);
	put32(params, at->hVASpace, SPACE);
	return session_alloc(&session, device, KEPLER_CHANNEL_GROUP_A, params, at->bytes, &handle);
}

static uint32_t schedule(uint32_t group)
{
	const struct nv_layout_NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS *at =
		&settings.abi->NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS;
	uint8_t params[8] = { 0 };

	params[at->bEnable] = 1;
	return session_control(&session, group, NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, params, at->bytes);
}

static uint32_t make_device(uint32_t handle)
{
	uint8_t params[CLIENT_PARAMS] = { 0 };

	return session_alloc(&session, session.client, NV01_DEVICE_0, params,
		settings.abi->NV0080_ALLOC_PARAMETERS.bytes, &handle);
}

static int cross(uint32_t rounds, uint32_t groups)
{
	uint32_t round, i, made = 0, alive = 0;

	if (make_space(SPACE) != NV_OK)
		return 1;
	for (round = 0; round < rounds; round++) {
		make_device(SECOND + round);
		make_group(SECOND + round, FOREIGN + round);
		for (i = 0; i < groups; i++)
			made += make_group(session.device, GROUP + round * groups + i) == NV_OK;
	}
	printf("made groups=%u\n", made);
	client_next();
	for (round = 0; round < rounds; round++)
		session_free(&session, SECOND + round);
	for (i = 0; i < rounds * groups; i++)
		alive += schedule(GROUP + i) == NV_OK;
	printf("resting alive=%u\n", alive);
	client_rest();
}

int main(int argc, char **argv)
{
	client_begin(&settings, &argc, &argv);
	if (argc < 1)
		return 2;
	client_open(&session, &settings);
	if (strcmp(argv[0], "cross") == 0 && argc == 3)
		return cross((uint32_t)atoi(argv[1]), (uint32_t)atoi(argv[2]));
	return 2;
}
