// SPDX-License-Identifier: Apache-2.0
/*
 * stalling [--dev DIR] N FILE: N threads make driver calls whose arguments lie in memory that is never filled in: a file that
 * its file system never reads. Prints "stalling" and waits for the end of standard input.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"

#define PAGES_BYTES (1ul << 20)

static struct settings settings;
static struct session session;
static uint8_t *page;
static pthread_barrier_t begin;

static void *stall(void *arg)
{
	pthread_barrier_wait(&begin);
	driver_call(&settings, session.ctl, NV_ESC_RM_ALLOC, page + (size_t)arg % 16 * 64,
		settings.abi->NVOS64_PARAMETERS.bytes);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int fd, i;

	client_begin(&settings, &argc, &argv, 2);
	client_open(&session, &settings);
	fd = open(argv[1], O_RDONLY);
	page = mmap(NULL, PAGES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (fd < 0 || page == MAP_FAILED) {
		perror(argv[1]);
		return 1;
	}
	/* From the first call on no thread here can map memory: the reader of the page has the address space locked. */
	pthread_barrier_init(&begin, NULL, (unsigned int)atoi(argv[0]) + 1);
	for (i = 0; i < atoi(argv[0]); i++)
		pthread_create(&thread, NULL, stall, (void *)(size_t)i);
	pthread_barrier_wait(&begin);
	usleep(200000);
	if (write(STDOUT_FILENO, "stalling\n", 9) != 9)
		return 1;
	client_next();
	return 0;
}
