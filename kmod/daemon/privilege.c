// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <errno.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "privilege.h"

int privilege_drop(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3, .pid = 0 };
	struct __user_cap_data_struct keep[2] = { { .effective = 1u << CAP_SYS_PTRACE,
		.permitted = 1u << CAP_SYS_PTRACE } };

	/* The raw call: libc's own wrappers for credentials act on all threads. */
	return syscall(SYS_capset, &head, keep) < 0 ? -errno : 0;
}
