// SPDX-License-Identifier: Apache-2.0
/* Drops the capabilities of a thread, and raises one of them for a moment. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cgpu_types.h"
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

/* Capabilities of a privilege, of those that the thread has. */
static unsigned int find_capabilities(enum privilege privilege, unsigned int have)
{
	switch (privilege) {
	case PRIVILEGE_FILES:
		return have & 1u << CAP_DAC_OVERRIDE;
	case PRIVILEGE_SENDING:
		/* Either will do (net/unix/scm.c, too_many_unix_fds). */
		return have & 1u << CAP_SYS_RESOURCE ? 1u << CAP_SYS_RESOURCE : have & 1u << CAP_SYS_ADMIN;
	case PRIVILEGE_TRACING:
		return have & (1u << CAP_SYS_ADMIN | 1u << CAP_KILL);
	default:
		return 0;
	}
}

int privilege_drop(unsigned int keep)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3, .pid = 0 };
	struct __user_cap_data_struct have[2] = { { 0 } };
	u32 i;
	int r;

	if (syscall(SYS_capget, &head, have) < 0)
		return -errno;
	permitted = KEPT;
	for (i = 0; i < PRIVILEGES; i++) {
		reserve[i] = keep & 1u << i ? find_capabilities((enum privilege)i, have[0].permitted) : 0;
		permitted |= reserve[i];
	}
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
