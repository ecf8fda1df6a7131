// SPDX-License-Identifier: Apache-2.0
/* Figures of the memory backend "driver": asked for by the event pipe, kept for the tree. */
#define _GNU_SOURCE
#include "clock.h"
#include "engine.h"
#include "driver_limits.h"
#include "rm.h"

#define WAIT_MS 900 /* less than what others wait for a count of managed memory */

void limits_open(struct limits *limits)
{
	pthread_mutex_init(&limits->lock, NULL);
	pthread_cond_init(&limits->changed, NULL);
}

static u64 used(void *ctx, u32 slot, u32 gpu)
{
	struct limits *limits = &((struct cgpud *)ctx)->limits;
	u64 bytes;

	pthread_mutex_lock(&limits->lock);
	bytes = limits->container[slot % CGPU_MAX_CONTAINERS].used[gpu % CGPU_MAX_GPUS];
	pthread_mutex_unlock(&limits->lock);
	return bytes;
}

void cgpud_limits(struct cgpud *d)
{
	d->ops.driver_used = used;
	atomic_store(&d->limits.on, 1);
}

void cgpud_limits_sampled(struct cgpud *d, u32 slot, u64 generation, u64 sample, s32 result, const u64 *bytes)
{
	struct limits_container *container = &d->limits.container[slot % CGPU_MAX_CONTAINERS];

	pthread_mutex_lock(&d->limits.lock);
	if (container->generation != generation)
		*container = (struct limits_container){ .generation = generation };
	if (sample > container->sampled)
		container->sampled = sample;
	container->result = result;
	if (result == 0)
		memcpy(container->used, bytes, sizeof(container->used));
	pthread_cond_broadcast(&d->limits.changed);
	pthread_mutex_unlock(&d->limits.lock);
}

int limits_sample(struct cgpud *d, u32 slot, u64 generation)
{
	struct limits_container *container = &d->limits.container[slot % CGPU_MAX_CONTAINERS];
	struct timespec until = clock_until(WAIT_MS);
	u64 sample;
	int r = 0;

	pthread_mutex_lock(&d->limits.lock);
	sample = ++d->limits.asked;
	events_tell(
		&d->events, "sample %llu %u %llu\n", (unsigned long long)sample, slot, (unsigned long long)generation);
	while (r == 0 && (container->generation != generation || container->sampled < sample))
		r = pthread_cond_clockwait(&d->limits.changed, &d->limits.lock, CLOCK_MONOTONIC, &until);
	r = r ? -r : container->result;
	pthread_mutex_unlock(&d->limits.lock);
	return r;
}

enum purpose { OTHER, ALLOCATES, TELLS_SIZES };

static enum purpose of_heap(u32 function)
{
	if (function == NVOS32_FUNCTION_ALLOC_SIZE || function == NVOS32_FUNCTION_ALLOC_SIZE_RANGE ||
		function == NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT)
		return ALLOCATES;
	return function == NVOS32_FUNCTION_INFO ? TELLS_SIZES : OTHER;
}

static enum purpose purpose_of(const struct nv_abi *abi, const struct cgpu_call *call)
{
	u32 value;

	if (call->device == CGPU_DEVICE_UVM)
		return OTHER;
	if (call->nr == NV_ESC_RM_VID_HEAP_CONTROL && call->bytes == abi->NVOS32_PARAMETERS.bytes)
		return of_heap(get32(call->top, abi->NVOS32_PARAMETERS.function));
	if (call->nr == NV_ESC_RM_ALLOC && call->bytes >= abi->NVOS21_PARAMETERS.bytes) {
		value = get32(call->top, abi->NVOS21_PARAMETERS.hClass);
		return cgpu_class_is_vidmem(value) ? ALLOCATES : OTHER;
	}
	if (call->nr != NV_ESC_RM_CONTROL || call->bytes != abi->NVOS54_PARAMETERS.bytes)
		return OTHER;
	value = get32(call->top, abi->NVOS54_PARAMETERS.cmd);
	return value == NV2080_CTRL_CMD_FB_GET_INFO || value == NV2080_CTRL_CMD_FB_GET_INFO_V2 ? TELLS_SIZES : OTHER;
}

int limits_before_call(struct cgpud *d, const struct in_flight *e)
{
	enum purpose purpose;

	if (!atomic_load(&d->limits.on))
		return 0;
	purpose = purpose_of(d->core.abi, &e->call);
	/* Without an answer the call tells the figures of the sample before. */
	if (purpose == TELLS_SIZES)
		limits_sample(d, e->call.slot, e->call.generation);
	return purpose == ALLOCATES;
}
