// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "userfault.h"

#define PAGE 4096u

static bool protect(const struct trap *trap, bool closed)
{
	struct uffdio_writeprotect range = {
		.range = { (uintptr_t)trap->page, PAGE },
		.mode = closed ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	return ioctl(trap->fd, UFFDIO_WRITEPROTECT, &range) == 0;
}

bool trap_make(struct trap *trap, bool on_write, const void *data, size_t bytes)
{
	struct uffdio_api api = { .api = UFFD_API, .features = on_write ? UFFD_FEATURE_PAGEFAULT_FLAG_WP : 0 };
	struct uffdio_register area = {
		.range = { 0, PAGE },
		.mode = on_write ? UFFDIO_REGISTER_MODE_WP : UFFDIO_REGISTER_MODE_MISSING,
	};

	trap->on_write = on_write;
	trap->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	trap->page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (trap->fd < 0 || trap->page == MAP_FAILED || ioctl(trap->fd, UFFDIO_API, &api) != 0)
		return false;
	area.range.start = (uintptr_t)trap->page;
	if (on_write)
		memcpy(trap->page, data, bytes);
	if (ioctl(trap->fd, UFFDIO_REGISTER, &area) != 0)
		return false;
	return !on_write || protect(trap, true);
}

bool trap_wait(struct trap *trap)
{
	struct uffd_msg message;

	return read(trap->fd, &message, sizeof(message)) == sizeof(message);
}

void trap_release(struct trap *trap, const void *data, size_t bytes)
{
	static unsigned char content[PAGE] __attribute__((aligned(PAGE)));
	struct uffdio_copy copy = { .dst = (uintptr_t)trap->page, .src = (uintptr_t)content, .len = PAGE };

	if (trap->on_write) {
		protect(trap, false);
		return;
	}
	memcpy(content, data, bytes);
	ioctl(trap->fd, UFFDIO_COPY, &copy);
}
