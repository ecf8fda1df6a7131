/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory backend "driver": the driver limits each container's cgroup by itself. The process that has loaded the
 * library sets those limits and reads what the driver counts (memory_backend/driver_limits.py); here are the last figures,
 * and the way to have them read again.
 */
#ifndef CGPUD_DRIVER_LIMITS_H
#define CGPUD_DRIVER_LIMITS_H

#include <pthread.h>
#include <stdatomic.h>

#include "cgpu_core.h"

struct cgpud;
struct in_flight;

struct limits_container {
	u64 generation; /* that the figures are of */
	u64 sampled; /* number of the sample that they come from */
	int result; /* of that sample: 0 or a negative errno */
	u64 used[CGPU_MAX_GPUS]; /* bytes */
};

struct limits {
	atomic_uint on;
	pthread_mutex_t lock; /* taken below the core's */
	pthread_cond_t changed;
	u64 asked; /* number of the last sample that was asked for */
	struct limits_container container[CGPU_MAX_CONTAINERS];
};

void limits_open(struct limits *limits);
/* Have the limits of a container set to what its charges leave, and its figures taken. 0, or a negative errno: the driver
 * refused, or nobody answered in time. */
int limits_sample(struct cgpud *d, u32 slot, u64 generation);
/* The same before a call that tells sizes of memory. 1: the call allocates, and managed memory has to be counted before: the
 * driver's limit must follow what was unmapped. */
int limits_before_call(struct cgpud *d, const struct in_flight *e);

#endif
