// SPDX-License-Identifier: Apache-2.0
/* Drops the capabilities of a thread, and raises one of them for a moment. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "privilege.h"

#define KEPT (1u << CAP_SYS_PTRACE)

static _Thread_local unsigned int permitted; /* 0: this thread has dropped nothing */
static _Thread_local unsigned int reserve[PRIVILEGES];

/* The raw call: libc's own wrappers for credentials act on all threads. */
static int set(unsigned int effective)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3, .pid = 0 };
	struct __user_cap_data_struct data[2] = { { .effective = effective, .permitted = permitted } };

	return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

int privilege_drop(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3, .pid = 0 };
	struct __user_cap_data_struct have[2] = { { 0 } };
	int r;

	if (syscall(SYS_capget, &head, have) < 0)
		return -errno;
	reserve[PRIVILEGE_FILES] = have[0].permitted & 1u << CAP_DAC_OVERRIDE;
	/* Either will do (net/unix/scm.c, too_many_unix_fds). */
	reserve[PRIVILEGE_SENDING] = have[0].permitted & 1u << CAP_SYS_RESOURCE;
	if (!reserve[PRIVILEGE_SENDING])
		reserve[PRIVILEGE_SENDING] = have[0].permitted & 1u << CAP_SYS_ADMIN;
	permitted = KEPT | reserve[PRIVILEGE_FILES] | reserve[PRIVILEGE_SENDING];
	r = set(KEPT);
	if (r < 0)
		permitted = 0;
	return r;
}

int privilege_raise(enum privilege privilege)
{
	return reserve[privilege] ? set(KEPT | reserve[privilege]) : -EPERM;
}

void privilege_lower(void)
{
	set(KEPT);
}
