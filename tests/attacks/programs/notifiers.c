// SPDX-License-Identifier: Apache-2.0
/*
 * notifiers [--dev DIR]: channels whose error notifier is an object of another kind, memory of another device, or nothing; named by
 * the channel, or by its group; ones whose USERD is such; and one that the card should encrypt. Then channels with memory of the host
 * and of the card, and without a notifier. Rests with how many there were of each, and how many of them the driver made.
 *
 * notifiers [--dev DIR] race ROUNDS: a channel with a notifier, again and again, which another thread frees and allocates.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

#define SPACE 0x5d000001u
#define SECOND 0x5d100000u
#define ADDRESSES 0x5d200000u
#define FOREIGN 0x5d300000u
#define MEMORY 0x5d400000u
#define GROUP 0x5e000000u
#define CHANNEL 0x5e100000u
#define NOTHING 0x5eadbeefu
#define PAGE 4096u

static struct settings settings;
static struct session session;
static atomic_bool over;

/* Make a channel, with the parameters that it has already; a made one is freed again. */
static bool channel_by_comes(uint32_t parent, uint8_t params[CLIENT_PARAMS])
{
	uint32_t status = client_channel(&session, parent, CHANNEL, params);

	if (status == NV_OK)
		session_free(&session, CHANNEL);
	return status == NV_OK;
}

static bool channel_comes(uint32_t parent, uint32_t error, uint32_t ecc)
{
	const struct nv_layout_NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS *at =
		&settings.abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS;
	uint8_t params[CLIENT_PARAMS] = { 0 };

	put32(params, at->hObjectError, error);
	put32(params, at->hObjectEccError, ecc);
	return channel_by_comes(parent, params);
}

static bool channel_with_userd_comes(uint32_t userd)
{
	uint8_t params[CLIENT_PARAMS] = { 0 };

	put32(params, settings.abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS.hUserdMemory, userd);
	return channel_by_comes(session.device, params);
}

static bool encrypted_channel_comes(void)
{
	uint8_t params[CLIENT_PARAMS] = { 0 };

	put32(params, settings.abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS.flags, NVOS04_FLAGS_CC_SECURE);
	return channel_by_comes(session.device, params);
}

/* A group only notes what is named: its first channel has the driver look for it. */
static bool channel_of_group_comes(uint32_t notifier)
{
	const struct nv_layout_NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS *at =
		&settings.abi->NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS;
	uint8_t params[CLIENT_PARAMS] = { 0 };
	uint32_t handle = GROUP;
	bool comes;

	put32(params, at->engineType, NV2080_ENGINE_TYPE_GR0);
	put32(params, at->hObjectError, notifier);
	if (session_alloc(&session, session.device, KEPLER_CHANNEL_GROUP_A, params, at->bytes, &handle) != NV_OK)
		return false;
	comes = channel_comes(handle, 0, 0);
	session_free(&session, handle);
	return comes;
}

/*
 * Make objects that are no notifiers. NVIDIA's driver makes one device of a card for a client, and no foreign memory
 * then.
 */
static bool make_others(void)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &settings.abi->NV_MEMORY_ALLOCATION_PARAMS;
	uint32_t foreign = FOREIGN, addresses = ADDRESSES;
	uint8_t params[CLIENT_PARAMS] = { 0 };

	rm_memory_params(params, settings.abi, 0, PAGE);
	if (client_device(&session, SECOND) == NV_OK)
		session_alloc(&session, SECOND, NV01_MEMORY_LOCAL_USER, params, at->bytes, &foreign);
	memset(params, 0, sizeof(params));
	rm_memory_params(params, settings.abi, 0, PAGE);
	put32(params, at->flags, NVOS32_ALLOC_FLAGS_VIRTUAL);
	return client_space(&session, SPACE) == NV_OK &&
		session_alloc(&session, session.device, NV50_MEMORY_VIRTUAL, params, at->bytes, &addresses) == NV_OK;
}

static int try_all(void)
{
	const uint32_t bad[] = { NOTHING, session.client, session.device, session.subdevice, SPACE, FOREIGN,
		ADDRESSES };
	uint32_t tried = 0, made = 0, good, i;
	struct grant host, card;

	if (!make_others() || memory_alloc_host(&session, PAGE, &host) != NV_OK ||
		memory_alloc(&session, PAGE, &card) != NV_OK)
		return 1;
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		made += channel_comes(session.device, bad[i], 0);
		made += channel_comes(session.device, host.handle, bad[i]);
		made += channel_of_group_comes(bad[i]);
		made += channel_with_userd_comes(bad[i]);
		tried += 4;
	}
	/* The card is older than Hopper, which has the first that encrypts. */
	made += encrypted_channel_comes();
	tried++;
	good = channel_comes(session.device, 0, 0) + channel_comes(session.device, host.handle, 0) +
		channel_comes(session.device, card.handle, host.handle) + channel_of_group_comes(host.handle) +
		channel_with_userd_comes(host.handle) + channel_with_userd_comes(card.handle);
	printf("resting bad=%u made=%u good=%u\n", tried, made, good);
	client_rest();
}

static void *exchange(void *unused)
{
	while (!atomic_load(&over)) {
		client_host_memory(&session, MEMORY, PAGE);
		session_free(&session, MEMORY);
	}
	return unused;
}

static int race(uint32_t rounds)
{
	uint32_t made = 0, i;
	pthread_t thread;

	if (pthread_create(&thread, NULL, exchange, NULL))
		return 1;
	for (i = 0; i < rounds; i++)
		made += channel_comes(session.device, MEMORY, MEMORY);
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	printf("resting rounds=%u made=%u\n", rounds, made);
	client_rest();
}

int main(int argc, char **argv)
{
	client_begin(&settings, &argc, &argv, 0);
	client_open(&session, &settings);
	if (argc == 2 && strcmp(argv[0], "race") == 0)
		return race((uint32_t)atoi(argv[1]));
	return try_all();
}
