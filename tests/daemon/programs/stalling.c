// SPDX-License-Identifier: Apache-2.0
/*
 * stalling --dev DIR N FILE: N threads make driver calls whose arguments lie in memory that is never filled in: a file that
 * its file system never reads. Prints "stalling" and waits for the end of standard input.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rm_calls.h"

#define PAGES_BYTES (1ul << 20)

static struct rm rm;
static char *page;
static pthread_barrier_t begin;

static void *stall(void *arg)
{
	pthread_barrier_wait(&begin);
	rm_ioctl(&rm, NV_ESC_RM_ALLOC, page + (size_t)arg % 16 * 64, rm.abi->NVOS64_PARAMETERS.bytes);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	char line[16];
	int fd, i;

	if (argc < 5 || rm_open(&rm, argv[2]))
		return 1;
	fd = open(argv[4], O_RDONLY);
	page = mmap(NULL, PAGES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (fd < 0 || page == MAP_FAILED) {
		perror(argv[4]);
		return 1;
	}
	/* From the first call on nobody here can map memory: who reads the page has the address space locked. */
	pthread_barrier_init(&begin, NULL, (unsigned int)atoi(argv[3]) + 1);
	for (i = 0; i < atoi(argv[3]); i++)
		pthread_create(&thread, NULL, stall, (void *)(size_t)i);
	pthread_barrier_wait(&begin);
	usleep(200000);
	return write(STDOUT_FILENO, "stalling\n", 9) != 9 || read(STDIN_FILENO, line, sizeof(line)) < 0;
}
