// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded with devices.c: mappings of a simulated card's nodes. A file of FUSE cannot be mapped as the driver's nodes are,
 * so the card keeps memory in files below $CGPU_MEMORY, and pread(2) on its node says which one a mapping is to have
 * (kmod/sim/mapping.h). What is mapped of nvidia-uvm is shared memory of the process: the card reads it there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "mapping.h"

#define FOLDER "CGPU_MEMORY"
#define UVM_MAJOR "CGPU_UVM_MAJOR"
#define NVIDIA_MAJOR 195u
#define PUBLIC __attribute__((visibility("default")))

static void *plain_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

/* The file of a mapping that the card has made ready. */
static void *map_file(void *address, size_t length, int protection, int flags, int fd)
{
	const char *folder = getenv(FOLDER);
	struct mapping mapping;
	char path[PATH_MAX];
	void *found;
	int file;

	if (!folder || pread(fd, &mapping, sizeof(mapping), MAPPING_AT) != sizeof(mapping)) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	snprintf(path, sizeof(path), "%s/%llu", folder, (unsigned long long)mapping.number);
	file = open(path, O_RDWR | O_CLOEXEC);
	if (file < 0)
		return MAP_FAILED;
	found = plain_mmap(address, length, protection, flags, file, (off_t)mapping.offset);
	close(file);
	return found;
}

PUBLIC void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	const char *uvm = getenv(UVM_MAJOR);
	struct stat about;
	int error = errno;

	/* The fstat() of devices.c, which knows the nodes. */
	if (fd < 0 || (flags & MAP_ANONYMOUS) || fstat(fd, &about) || !S_ISCHR(about.st_mode)) {
		errno = error;
		return plain_mmap(address, length, protection, flags, fd, offset);
	}
	if (uvm && major(about.st_rdev) == (unsigned int)atoi(uvm))
		return plain_mmap(address, length, protection, flags | MAP_ANONYMOUS, -1, 0);
	if (major(about.st_rdev) == NVIDIA_MAJOR)
		return map_file(address, length, protection, flags, fd);
	errno = error;
	return plain_mmap(address, length, protection, flags, fd, offset);
}

PUBLIC void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	return mmap(address, length, protection, flags, fd, offset);
}
