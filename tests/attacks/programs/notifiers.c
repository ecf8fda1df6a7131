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
#define ENTRIES 64u
#define OF_HOST                                                   \
	(NVOS32_ATTR_LOCATION_PCI << NVOS32_ATTR_LOCATION_SHIFT | \
		NVOS32_ATTR_COHERENCY_CACHED << NVOS32_ATTR_COHERENCY_SHIFT)
#define PARAMS 512u /* more than those of any channel */

static struct settings settings;
static struct session session;
static atomic_bool over;

/* Make a channel, with the parameters that it has already; a made one is freed again. */
static bool channel_by_comes(uint32_t parent, uint8_t params[PARAMS])
{
	const struct nv_layout_NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS *at =
		&settings.abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS;
	uint32_t handle = CHANNEL, status;

	put32(params, at->engineType, NV2080_ENGINE_TYPE_GR0);
	put32(params, at->gpFifoEntries, ENTRIES);
	status = session_alloc(&session, parent, TURING_CHANNEL_GPFIFO_A, params, at->bytes, &handle);
	if (status == NV_OK)
		session_free(&session, handle);
	return status == NV_OK;
}

static bool channel_comes(uint32_t parent, uint32_t error, uint32_t ecc)
{
	const struct nv_layout_NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS *at =
		&settings.abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS;
	uint8_t params[PARAMS] = { 0 };

	put32(params, at->hObjectError, error);
	put32(params, at->hObjectEccError, ecc);
	return channel_by_comes(parent, params);
}

static bool channel_with_userd_comes(uint32_t userd)
{
	uint8_t params[PARAMS] = { 0 };

	put32(params, settings.abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS.hUserdMemory, userd);
	return channel_by_comes(session.device, params);
}

static bool encrypted_channel_comes(void)
{
	uint8_t params[PARAMS] = { 0 };

	put32(params, settings.abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS.flags, NVOS04_FLAGS_CC_SECURE);
	return channel_by_comes(session.device, params);
}

/* A group only notes what is named: its first channel has the driver look for it. */
static bool channel_of_group_comes(uint32_t notifier)
{
	const struct nv_layout_NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS *at =
		&settings.abi->NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS;
	uint8_t params[PARAMS] = { 0 };
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

static uint32_t make_memory(uint32_t device, uint32_t class, uint32_t handle, uint32_t attr, uint32_t flags)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &settings.abi->NV_MEMORY_ALLOCATION_PARAMS;
	uint8_t params[PARAMS] = { 0 };

	rm_memory_params(params, settings.abi, attr, PAGE);
	put32(params, at->flags, flags);
	return session_alloc(&session, device, class, params, at->bytes, &handle);
}

/*
 * Make objects that are no notifiers. NVIDIA's driver makes one device of a card for a client, and no foreign memory
 * then.
 */
static bool make_others(void)
{
	uint32_t space = SPACE;
	uint8_t params[PARAMS] = { 0 };

	if (client_device(&session, SECOND) == NV_OK)
		make_memory(SECOND, NV01_MEMORY_LOCAL_USER, FOREIGN, 0, 0);
	return session_alloc(&session, session.device, FERMI_VASPACE_A, params,
		       settings.abi->NV_VASPACE_ALLOCATION_PARAMETERS.bytes, &space) == NV_OK &&
		make_memory(session.device, NV50_MEMORY_VIRTUAL, ADDRESSES, 0, NVOS32_ALLOC_FLAGS_VIRTUAL) == NV_OK;
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
		make_memory(session.device, NV01_MEMORY_SYSTEM, MEMORY, OF_HOST, 0);
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
