// SPDX-License-Identifier: Apache-2.0
/* The files that memory lies in, and memory of processes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim.h"
#include "backing.h"

static void file_name(const struct sim *sim, const struct backing *backing, char out[4200])
{
	snprintf(out, 4200, "%s/%llu", sim->memory_folder, (unsigned long long)backing->number);
}

static void drop(struct sim *sim, struct backing *backing)
{
	char path[4200];

	if (!backing->bytes)
		return;
	munmap(backing->bytes, backing->size);
	file_name(sim, backing, path);
	unlink(path);
}

bool backing_need(struct sim *sim, struct backing *backing)
{
	char path[4200];
	void *bytes;
	int fd;

	if (backing->process || backing->bytes)
		return true;
	if (sim->memory_folder[0] == '\0')
		return false;
	backing->number = ++sim->last_memory;
	file_name(sim, backing, path);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return false;
	/* Clients of all users have the driver's nodes. */
	bytes = fchmod(fd, 0666) == 0 && ftruncate(fd, (off_t)backing->size) == 0 ?
		mmap(NULL, backing->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) :
		MAP_FAILED;
	close(fd);
	if (bytes == MAP_FAILED) {
		unlink(path);
		return false;
	}
	backing->bytes = bytes;
	backing->drop = drop;
	return true;
}

static bool is_inside(const struct backing *backing, uint64_t offset, uint64_t size)
{
	return offset <= backing->size && size <= backing->size - offset;
}

bool backing_read(struct sim *sim, struct backing *backing, uint64_t offset, void *out, uint64_t size)
{
	struct caller caller = { .thread = backing->process };

	if (!is_inside(backing, offset, size) || !backing_need(sim, backing))
		return false;
	if (backing->process)
		return user_read(&caller, backing->address + offset, out, size);
	memcpy(out, backing->bytes + offset, size);
	return true;
}

bool backing_write(struct sim *sim, struct backing *backing, uint64_t offset, const void *data, uint64_t size)
{
	struct caller caller = { .thread = backing->process };

	if (!is_inside(backing, offset, size) || !backing_need(sim, backing))
		return false;
	if (backing->process)
		return user_write(&caller, backing->address + offset, data, size);
	memcpy(backing->bytes + offset, data, size);
	return true;
}
