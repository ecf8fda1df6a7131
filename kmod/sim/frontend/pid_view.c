// SPDX-License-Identifier: Apache-2.0
/*
 * Process numbers in the caller's pid namespace. The driver translates them since 535.113.01 and drops processes that
 * the caller cannot see (src/nvidia/src/kernel/gpu/gpu_rmapi.c:678).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/nsfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim.h"

#define MAX_LEVELS 33u

/* The numbers of a process, from our own namespace inwards; returns how many. */
static unsigned int numbers_of(pid_t process, uint32_t numbers[MAX_LEVELS])
{
	char path[48], line[512], *at;
	unsigned int count = 0;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/%d/status", process);
	status = fopen(path, "re");
	if (!status)
		return 0;
	while (fgets(line, sizeof(line), status)) {
		if (strncmp(line, "NSpid:", 6) != 0)
			continue;
		at = line + 6;
		while (count < MAX_LEVELS) {
			char *end;
			unsigned long value = strtoul(at, &end, 10);

			if (end == at)
				break;
			numbers[count++] = (uint32_t)value;
			at = end;
		}
		break;
	}
	fclose(status);
	return count;
}

/* The identity of the pid namespace that lies `up` levels above that of a process; 0 when unknown. */
static uint64_t namespace_of(pid_t process, unsigned int up)
{
	struct stat found = { 0 };
	char path[48];
	int fd, parent;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", process);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && up > 0) {
		parent = ioctl(fd, NS_GET_PARENT);
		close(fd);
		fd = parent;
		up--;
	}
	if (fd < 0)
		return 0;
	if (fstat(fd, &found))
		found.st_ino = 0;
	close(fd);
	return found.st_ino;
}

void pid_view_open(struct pid_view *view, const struct sim *sim, const struct caller *caller)
{
	uint32_t numbers[MAX_LEVELS];

	view->translate = version_at_least(sim, 535, 113, 1);
	view->level = view->translate ? numbers_of(caller->thread, numbers) : 0;
	view->namespace = view->translate ? namespace_of(caller->thread, 0) : 0;
}

uint32_t pid_view_of(const struct pid_view *view, pid_t process)
{
	uint32_t numbers[MAX_LEVELS];
	unsigned int count;

	if (!view->translate)
		return (uint32_t)process;
	count = numbers_of(process, numbers);
	if (count == 0 || view->level == 0 || count < view->level)
		return 0;
	if (namespace_of(process, count - view->level) != view->namespace)
		return 0;
	return numbers[view->level - 1];
}
