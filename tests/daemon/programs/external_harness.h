/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What external_ledger.c runs on: engines on one state and store, and what the kernel and the driver say to them. Static, as
 * there is one such program.
 */
#ifndef CGPU_TEST_EXTERNAL_HARNESS_H
#define CGPU_TEST_EXTERNAL_HARNESS_H

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bench.h"
#include "engine.h"
#include "external.h"
#include "files.h"
#include "uvm.h"

#define SLICE (6043 * MIB)
#define CLIENT 0xc1u
#define HANDLE 0x51u
#define SIZE (600 * MIB)
#define BASE 0x300000000000ull

/* What the kernel and the driver say. */
static s32 alive[4];
static u32 unmapped;
static int is_uvm = 1;
static u64 started; /* of all processes */
static int no_memory;
static struct cgpud *watched;
static u32 asked_with_lock;

int __wrap_process_has_ended(s32 tgid);
int __wrap_devices_identify(struct devices *devices, const struct identity *identity, enum cgpu_device *kind, u32 *gpu);
int __wrap_uvm_take_away(const struct nv_abi *abi, int fd, const struct external_map *map, u32 *status);
void __wrap_workers_wake(struct cgpud *d);
u64 __wrap_process_started(s32 tid);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

u64 __wrap_process_started(s32 tid)
{
	(void)tid;
	return started;
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	return no_memory ? NULL : __real_calloc(n, bytes);
}

int __wrap_process_has_ended(s32 tgid)
{
	u32 i;

	if (watched && pthread_mutex_trylock(&watched->external.lock))
		asked_with_lock++;
	else if (watched)
		pthread_mutex_unlock(&watched->external.lock);
	for (i = 0; i < sizeof(alive) / sizeof(alive[0]); i++) {
		if (alive[i] == tgid)
			return 0;
	}
	return 1;
}

int __wrap_devices_identify(struct devices *devices, const struct identity *identity, enum cgpu_device *kind, u32 *gpu)
{
	(void)devices;
	(void)identity;
	*kind = is_uvm ? CGPU_DEVICE_UVM : CGPU_DEVICE_OTHER;
	*gpu = 0;
	return 1;
}

int __wrap_uvm_take_away(const struct nv_abi *abi, int fd, const struct external_map *map, u32 *status)
{
	(void)abi;
	(void)fd;
	(void)map;
	unmapped++;
	*status = NV_OK;
	return 0;
}

void __wrap_workers_wake(struct cgpud *d)
{
	(void)d;
}

struct harness {
	struct bench *bench;
	struct cgpud *d;
	struct external_store *store;
	struct caller caller;
	int file; /* what it maps by */
};

/* An engine on the state and store that there are. */
static void take_over(struct harness *harness)
{
	struct cgpud *before = harness->d;

	harness->d = calloc(1, sizeof(*harness->d));
	CHECK(harness->d);
	harness->d->core = harness->bench->core;
	events_open(&harness->d->events, -1);
	if (before)
		CHECK_EQ(cgpu_state_recover(harness->bench->core.state), 0);
	CHECK_EQ(external_open(harness->d, harness->store), 0);
	if (before) {
		external_close(before);
		free(before);
	}
}

static u64 used(const struct harness *harness)
{
	return bench_used(harness->bench, 0, harness->caller.slot);
}

/* Ours is the process that has the file. */
static struct harness with_memory(void)
{
	struct memory_ask ask = { .client = CLIENT, .parent = 0xd0, .object = HANDLE, .size = SIZE, .attr = 2u << 23 };
	struct harness harness = { .bench = bench_new("580.142"), .file = eventfd(0, EFD_CLOEXEC) };

	CHECK_EQ(bench_ctl(harness.bench, "create id=a pid=1 gpu=0:6336544768"), 0);
	harness.caller = bench_caller(harness.bench, "a", getpid());
	bench_cuda_start(harness.bench, &harness.caller, CLIENT);
	CHECK_EQ(bench_vidmem(harness.bench, &harness.caller, 1, &ask), NV_OK);
	harness.store = calloc(1, sizeof(*harness.store));
	CHECK(harness.store && harness.file >= 0);
	alive[0] = getpid();
	take_over(&harness);
	return harness;
}

#endif
