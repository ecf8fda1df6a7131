// SPDX-License-Identifier: Apache-2.0
/*
 * stalling --dev DIR N: N threads make driver calls whose arguments lie in memory that is never filled in
 * (userfaultfd(2)). Prints "stalling" and waits for the end of standard input.
 */
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rm_calls.h"

#define PAGES_BYTES (1ul << 20)

static struct rm rm;
static char *page;

static void *stall(void *arg)
{
	rm_ioctl(&rm, NV_ESC_RM_ALLOC, page + (size_t)arg % 16 * 64, rm.abi->NVOS64_PARAMETERS.bytes);
	return NULL;
}

int main(int argc, char **argv)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	pthread_t thread;
	char line[16];
	int fd, i;

	if (argc < 4 || rm_open(&rm, argv[2]))
		return 1;
	fd = (int)syscall(SYS_userfaultfd, 0);
	page = mmap(NULL, PAGES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	range.range.start = (uintptr_t)page;
	range.range.len = PAGES_BYTES;
	if (fd < 0 || page == MAP_FAILED || ioctl(fd, UFFDIO_API, &api) < 0 || ioctl(fd, UFFDIO_REGISTER, &range) < 0) {
		perror("userfaultfd");
		return 1;
	}
	for (i = 0; i < atoi(argv[3]); i++)
		pthread_create(&thread, NULL, stall, (void *)(size_t)i);
	usleep(200000);
	printf("stalling\n");
	fflush(stdout);
	return fgets(line, sizeof(line), stdin) && !line[0];
}
