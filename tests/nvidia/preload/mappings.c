// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded with devices.c: mappings of a simulated card's nodes. A file of FUSE cannot be mapped as the driver's nodes
 * are, so the card keeps memory in files below $CGPU_MEMORY, and pread(2) on its node says which one a mapping is to
 * have (kmod/sim/memory/mapping.h). A mapping of nvidia-uvm is memory of the process, which the card reads there:
 * shared, of a file of its own, at the place in it that the address is, as cgpud knows managed memory
 * (kmod/daemon/memory/address_spaces.c).
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

/* The node itself comes first: a supervisor of its mappings allows this one, or does not. */
static void *map_uvm(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	void *found = plain_mmap(address, length, protection, flags, fd, offset), *memory = MAP_FAILED;
	int file;

	if (found == MAP_FAILED)
		return found;
	file = memfd_create("nvidia-uvm", MFD_CLOEXEC);
	if (file >= 0 && ftruncate(file, offset + (off_t)length) == 0)
		memory = plain_mmap(found, length, protection, MAP_SHARED | MAP_FIXED, file, offset);
	if (file >= 0)
		close(file);
	/* As the driver's own (kernel-open/nvidia-uvm/uvm.c, uvm_mmap). */
	if (memory != MAP_FAILED && madvise(memory, length, MADV_DONTFORK) == 0)
		return memory;
	munmap(found, length);
	errno = ENOMEM;
	return MAP_FAILED;
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
		return map_uvm(address, length, protection, flags, fd, offset);
	if (major(about.st_rdev) == NVIDIA_MAJOR)
		return map_file(address, length, protection, flags, fd);
	errno = error;
	return plain_mmap(address, length, protection, flags, fd, offset);
}

PUBLIC void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	return mmap(address, length, protection, flags, fd, offset);
}
