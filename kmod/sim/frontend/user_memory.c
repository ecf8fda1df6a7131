// SPDX-License-Identifier: Apache-2.0
/* The caller's memory. Both functions may block on it, so no lock is held around them. */
#define _GNU_SOURCE
#include <sys/uio.h>

#include "sim.h"

bool user_read(const struct caller *caller, uint64_t address, void *out, size_t size)
{
	struct iovec local = { .iov_base = out, .iov_len = size };
	struct iovec remote = { .iov_base = (void *)(uintptr_t)address, .iov_len = size };

	if (size == 0)
		return true;
	return process_vm_readv(caller->thread, &local, 1, &remote, 1, 0) == (ssize_t)size;
}

bool user_write(const struct caller *caller, uint64_t address, const void *data, size_t size)
{
	struct iovec local = { .iov_base = (void *)(uintptr_t)data, .iov_len = size };
	struct iovec remote = { .iov_base = (void *)(uintptr_t)address, .iov_len = size };

	if (size == 0)
		return true;
	return process_vm_writev(caller->thread, &local, 1, &remote, 1, 0) == (ssize_t)size;
}
