// SPDX-License-Identifier: Apache-2.0
/* One thread maps what another one unmaps. */
#include <pthread.h>
#include <stdio.h>

#include "uvm_probe.h"

#define PIECE (10ull << 20)
#define MOST_SPINS 40000u

struct beside {
	struct uvm *uvm;
	pthread_barrier_t barrier;
	unsigned int spins;
};

static void spin(unsigned int count)
{
	volatile unsigned int i;

	for (i = 0; i < count; i++)
		;
}

static void *unmap(void *arg)
{
	struct beside *beside = arg;

	pthread_barrier_wait(&beside->barrier);
	spin(beside->spins);
	uvm_unmap(beside->uvm);
	return NULL;
}

/* again: it is mapped already, so that the mapping is the same once more. */
static uint32_t once(struct beside *beside, bool again)
{
	struct uvm *uvm = beside->uvm;
	uint32_t status = memory_alloc(&uvm->session, PIECE, &uvm->last);
	pthread_t thread;

	if (status == NV_OK)
		status = uvm_range(uvm, PIECE);
	if (status == NV_OK && again)
		status = uvm_map(uvm, uvm->last.handle);
	if (status != NV_OK || pthread_create(&thread, NULL, unmap, beside))
		return status;
	pthread_barrier_wait(&beside->barrier);
	spin(MOST_SPINS / 2);
	uvm_map(uvm, uvm->last.handle);
	pthread_join(thread, NULL);
	return session_free(&uvm->session, uvm->last.handle);
}

uint32_t map_beside_unmap(struct uvm *uvm, uint64_t rounds)
{
	struct beside beside = { .uvm = uvm };
	uint64_t i;

	pthread_barrier_init(&beside.barrier, NULL, 2);
	for (i = 0; i < rounds; i++) {
		beside.spins = (unsigned int)(i * 2000 % MOST_SPINS);
		/* Without room there is nothing to be had by it. */
		if (once(&beside, i % 2))
			break;
	}
	printf("rounds=%llu ", (unsigned long long)i);
	return NV_OK;
}
