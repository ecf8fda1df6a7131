// SPDX-License-Identifier: Apache-2.0
/*
 * foreign_file [--dev DIR] FILE once|memory|exchange SECONDS: has the engine meet a file of a foreign file system where a
 * driver call should be.
 *   once      an ioctl with a size on that file
 *   memory    a driver call whose structure lies in memory of that file
 *   exchange  driver calls, while another thread puts the file and the driver's node under their number in turn
 * Prints "resting", with how many calls succeeded, and waits.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

static atomic_int ending;
static int place, node, file;

static void *exchange(void *arg)
{
	(void)arg;
	while (!atomic_load(&ending)) {
		dup2(file, place);
		dup2(node, place);
	}
	return NULL;
}

static void *call(void *arg)
{
	atomic_ulong *succeeded = arg;

	while (!atomic_load(&ending)) {
		uint8_t top[64] = { 0 };
		uint32_t bytes = nv_abi_layouts[nv_abi_version_count - 1].NVOS21_PARAMETERS.bytes;
		uint32_t class = NV01_ROOT_CLIENT;

		memcpy(top + nv_abi_layouts[0].NVOS21_PARAMETERS.hClass, &class, sizeof(class));
		if (ioctl(place, _IOC(3u, NV_IOCTL_MAGIC, NV_ESC_RM_ALLOC, bytes), top) == 0)
			atomic_fetch_add(succeeded, 1);
	}
	return NULL;
}

static void *call_by_memory(void *arg)
{
	ioctl(node, _IOC(3u, NV_IOCTL_MAGIC, NV_ESC_RM_ALLOC, 32), arg);
	return NULL;
}

static void call_once_by_memory(void)
{
	pthread_t thread;
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);

	if (page == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	pthread_create(&thread, NULL, call_by_memory, page);
	usleep(300000);
}

#define THREADS 2

int main(int argc, char **argv)
{
	pthread_t thread[THREADS + 1];
	atomic_ulong succeeded = 0;
	struct settings settings;
	char path[4096];
	uint8_t some[64];
	int i;

	client_begin(&settings, &argc, &argv, 3);
	snprintf(path, sizeof(path), "%s/nvidiactl", settings.dev);
	file = open(argv[0], O_RDWR);
	node = open(path, O_RDWR);
	place = dup(node);
	if (file < 0 || node < 0) {
		perror(argv[0]);
		return 1;
	}
	if (!strcmp(argv[1], "once")) {
		ioctl(file, _IOC(3u, 'F', 0x2a, sizeof(some)), some);
	} else if (!strcmp(argv[1], "memory")) {
		call_once_by_memory();
	} else {
		for (i = 0; i <= THREADS; i++)
			pthread_create(&thread[i], NULL, i == 0 ? exchange : call, &succeeded);
		sleep((unsigned int)atoi(argv[2]));
		atomic_store(&ending, 1);
	}
	printf("resting succeeded=%lu\n", (unsigned long)atomic_load(&succeeded));
	client_next();
	return 0;
}
