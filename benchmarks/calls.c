// SPDX-License-Identifier: Apache-2.0
/*
 * Time system calls from inside a container: one line per kind, "<kind> <median ns>".
 * Usage: calls [COUNT]. Kinds that cannot be measured here are left out.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "nv_abi.h"

#define MOST 200000

static void report(const char *kind, uint64_t *times, unsigned int count)
{
	clock_sort(times, count);
	printf("%s %llu\n", kind, (unsigned long long)times[count / 2]);
}

/* An ioctl, and the counter in its argument, if any. */
struct request {
	int fd;
	unsigned long number;
	void *argument;
	uint32_t *counter;
};

static void time_ioctl(const char *kind, const struct request *request, uint64_t *times, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		uint64_t start;

		if (request->counter)
			++*request->counter;
		start = clock_now();
		ioctl(request->fd, request->number, request->argument);
		times[i] = clock_now() - start;
	}
	report(kind, times, count);
}

static void time_mapping(const char *kind, int flags, int fd, uint64_t *times, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		uint64_t start = clock_now();
		void *page = mmap(NULL, 4096, PROT_READ, flags, fd, 0);

		times[i] = clock_now() - start;
		if (page != MAP_FAILED)
			munmap(page, 4096);
	}
	report(kind, times, count);
}

/* RM_FREE of a handle that does not exist: the shortest call that the driver itself answers. The driver may answer a
 * repeated handle from an earlier result. */
static void time_driver_call(uint64_t *times, unsigned int count)
{
	uint32_t free_parameters[4] = { 0xdead, 0, 0xdead, 0 };
	struct request request = { .fd = open("/dev/nvidiactl", O_RDWR | O_CLOEXEC),
		.number = _IOC(_IOC_READ | _IOC_WRITE, NV_IOCTL_MAGIC, NV_ESC_RM_FREE, sizeof(free_parameters)),
		.argument = free_parameters };

	if (request.fd < 0)
		return;
	time_ioctl("driver-call", &request, times, count);
	request.counter = &free_parameters[2];
	time_ioctl("driver-call-other", &request, times, count);
	close(request.fd);
}

int main(int argc, char **argv)
{
	unsigned int count = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : 2000;
	static uint64_t times[MOST];
	int program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int terminal = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	struct termios settings;
	unsigned int number;

	if (count == 0 || count > MOST)
		count = 2000;
	if (terminal >= 0) {
		time_ioctl("ioctl-passing", &(struct request){ terminal, TCGETS, &settings, NULL }, times, count);
		time_ioctl("ioctl-continued", &(struct request){ terminal, TIOCGPTN, &number, NULL }, times, count);
	}
	time_mapping("mapping-private", MAP_PRIVATE | MAP_ANONYMOUS, -1, times, count);
	time_mapping("mapping-shared", MAP_SHARED | MAP_ANONYMOUS, -1, times, count);
	if (program >= 0)
		time_mapping("mapping-file", MAP_SHARED, program, times, count);
	time_driver_call(times, count);
	return 0;
}
