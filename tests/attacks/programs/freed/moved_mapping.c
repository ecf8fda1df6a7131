// SPDX-License-Identifier: Apache-2.0
/*
 * moved_mapping [--dev DIR] exchanged|failed|raced: memory of the card whose window the driver takes apart while a file by which it
 * is mapped goes for one of another mapping, or for none yet. When the test has sent a line, rests with how many files show what the
 * neighbour of kept_mapping has written.
 *
 * moved_mapping [--dev DIR] parked: memory that is freed while the tasks that map it are kept in mmap(2), by an event of
 * userfaultfd(2) that nobody reads. Rests with how many milliseconds that took.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client.h"
#include "clock.h"

#define MEMORY 0x5d400000u
#define BYTES 65536u
#define COUNT 16u
#define RACES 400u
#define PARKED 4u
#define SECRET 0x2222222222222222ull

static struct settings settings;
static struct session session;

struct mapped {
	int fd;
	uint64_t window; /* as the driver has said */
	volatile uint64_t *at; /* NULL: it is not mapped */
};

static bool make_memory(uint32_t handle)
{
	return client_memory(&session, handle, BYTES) == NV_OK;
}

/* Have the driver map memory, by a file or by none. */
static bool ready(uint32_t handle, int fd, struct mapped *mapped)
{
	const struct nv_layout_nv_ioctl_nvos33_parameters_with_fd *at =
		&settings.abi->nv_ioctl_nvos33_parameters_with_fd;
	uint8_t data[64] = { 0 };

	*mapped = (struct mapped){ .fd = fd };
	put32(data, at->params_hClient, session.client);
	put32(data, at->params_hDevice, session.device);
	put32(data, at->params_hMemory, handle);
	put64(data, at->params_length, BYTES);
	put32(data, at->fd, (uint32_t)fd);
	if (driver_call(&settings, session.ctl, NV_ESC_RM_MAP_MEMORY, data, at->bytes) != NV_OK)
		return false;
	mapped->window = get64(data, at->params_pLinearAddress);
	return get32(data, at->params_status) == NV_OK;
}

static int card_file(void)
{
	return driver_open(&settings, "nvidia0");
}

static void map(struct mapped *mapped)
{
	mapped->at = client_map_file(mapped->fd, BYTES);
}

/* Tell the driver that a mapping is at another address. */
static bool move(uint32_t handle, uint64_t from, uint64_t to)
{
	const struct nv_layout_NVOS56_PARAMETERS *at = &settings.abi->NVOS56_PARAMETERS;
	uint8_t data[64] = { 0 };

	put32(data, at->hClient, session.client);
	put32(data, at->hDevice, session.device);
	put32(data, at->hMemory, handle);
	put64(data, at->pOldCpuAddress, from);
	put64(data, at->pNewCpuAddress, to);
	return driver_call(&settings, session.ctl, NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO, data, at->bytes) == NV_OK &&
		get32(data, at->status) == NV_OK;
}

static bool unmap(uint32_t handle, uint64_t address)
{
	const struct nv_layout_NVOS34_PARAMETERS *at = &settings.abi->NVOS34_PARAMETERS;
	uint8_t data[64] = { 0 };

	put32(data, at->hClient, session.client);
	put32(data, at->hDevice, session.device);
	put32(data, at->hMemory, handle);
	put64(data, at->pLinearAddress, address);
	return driver_call(&settings, session.ctl, NV_ESC_RM_UNMAP_MEMORY, data, at->bytes) == NV_OK &&
		get32(data, at->status) == NV_OK;
}

/* Two mappings at one address: which of them moves on, and which one ends with its memory? */
static uint32_t exchange(uint32_t i, struct mapped *mapped)
{
	uint32_t other = MEMORY + 2 * i, own = other + 1;
	struct mapped moving;

	if (!make_memory(other) || !make_memory(own) || !ready(other, card_file(), &moving) ||
		!ready(own, card_file(), mapped))
		return 0;
	map(mapped);
	if (move(other, moving.window, mapped->window))
		move(other, mapped->window, (uintptr_t)mapped->at);
	return session_free(&session, own) == NV_OK;
}

/* A mapping has the address that the driver gives to the next one, which fails and is taken back by its address. */
static uint32_t fail(uint32_t i, struct mapped *mapped)
{
	uint32_t handle = MEMORY + i;
	struct mapped next;

	if (!make_memory(handle) || !ready(handle, card_file(), mapped) || !ready(handle, card_file(), &next))
		return 0;
	map(mapped);
	if (!unmap(handle, next.window))
		return 0;
	move(handle, mapped->window, next.window);
	return !ready(handle, -1, &next);
}

static _Atomic uint32_t turn, freed;

static void *free_meanwhile(void *unused)
{
	uint32_t i, wait;

	for (i = 0; i < RACES; i++) {
		while (turn <= i)
			;
		for (wait = 0; wait < i * 500; wait++)
			atomic_signal_fence(memory_order_seq_cst);
		session_free(&session, MEMORY + i);
		freed = i + 1;
	}
	return unused;
}

/* Memory is freed in the very call that readies a file for it. */
static uint32_t race(struct mapped *mapped)
{
	pthread_t thread;
	uint32_t i;

	if (pthread_create(&thread, NULL, free_meanwhile, NULL))
		return 0;
	for (i = 0; i < RACES; i++) {
		int fd = card_file();
		bool made = make_memory(MEMORY + i);

		turn = i + 1;
		if (!made || !ready(MEMORY + i, fd, &mapped[i]))
			close(fd);
		while (freed <= i)
			;
	}
	pthread_join(thread, NULL);
	return RACES;
}

static int lose(const char *how)
{
	static struct mapped mapped[RACES];
	uint32_t i, made = 0, saw = 0;
	bool raced = strcmp(how, "raced") == 0;

	if (raced)
		made = race(mapped);
	for (i = 0; i < COUNT && !raced; i++)
		made += strcmp(how, "failed") == 0 ? fail(i, &mapped[i]) : exchange(i, &mapped[i]);
	printf("freed made=%u\n", made);
	client_next();
	for (i = 0; i < RACES; i++) {
		if (raced && mapped[i].window)
			map(&mapped[i]);
		saw += client_look(mapped[i].at, 0) == SECRET;
	}
	printf("resting saw=%u\n", saw);
	client_rest();
}

/* The kernel tells the file that what was there is gone, and waits until that is read. */
static bool watch_place(void *place)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_EVENT_UNMAP };
	struct uffdio_register all = { .range = { (uintptr_t)place, BYTES }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	return fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &all) == 0;
}

static void *map_and_stay(void *of)
{
	const struct mapped *mapped = of;

	if (watch_place((void *)mapped->at))
		mmap((void *)mapped->at, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, mapped->fd, 0);
	return NULL;
}

/* Memory whose file another task maps, and stays in mmap(2). */
static bool park_task(uint32_t handle, struct mapped *mapped)
{
	void *place = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t thread;

	if (place == MAP_FAILED || !make_memory(handle) || !ready(handle, card_file(), mapped))
		return false;
	mapped->at = place;
	return pthread_create(&thread, NULL, map_and_stay, mapped) == 0;
}

static int park(void)
{
	static struct mapped mapped[PARKED];
	uint32_t i, made = 0, gone = 0;
	uint64_t began;

	for (i = 0; i < PARKED; i++)
		made += park_task(MEMORY + i, &mapped[i]);
	sleep(1);
	/* The last task's place is gone before it has returned. */
	munmap((void *)mapped[PARKED - 1].at, BYTES);
	began = clock_now();
	for (i = 0; i < PARKED; i++)
		gone += session_free(&session, MEMORY + i) == NV_OK;
	printf("resting made=%u freed=%u ms=%llu\n", made, gone, (unsigned long long)(clock_now() - began) / 1000000);
	client_rest();
}

int main(int argc, char **argv)
{
	client_begin(&settings, &argc, &argv, 1);
	client_open(&session, &settings);
	return strcmp(argv[0], "parked") == 0 ? park() : lose(argv[0]);
}
