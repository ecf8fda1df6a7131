/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the system calls that reach a driver, in each table that the processor's kernel has. */
#ifndef CGPUD_SYSTEM_CALLS_H
#define CGPUD_SYSTEM_CALLS_H

#include <linux/audit.h>

#include "cgpu_types.h"

#define CALL_NONE ~0u /* the table lacks the call */

struct system_calls {
	u32 arch; /* AUDIT_ARCH_*, as seccomp names the table */
	u32 ioctl, mmap;
	u32 old_mmap; /* its arguments are in memory */
};

static const struct system_calls system_calls[] = {
#if defined(__x86_64__)
/* arch/x86/entry/syscalls/syscall_64.tbl, where the calls of x32 have a bit of their own, and syscall_32.tbl */
#define X32_BIT 0x40000000u
	{ AUDIT_ARCH_X86_64, 16, 9, CALL_NONE },
	{ AUDIT_ARCH_X86_64, X32_BIT + 514, X32_BIT + 9, CALL_NONE },
	{ AUDIT_ARCH_I386, 54, 192, 90 },
#elif defined(__aarch64__)
	/* include/uapi/asm-generic/unistd.h, arch/arm64/include/asm/unistd32.h */
	{ AUDIT_ARCH_AARCH64, 29, 222, CALL_NONE },
	{ AUDIT_ARCH_ARM, 54, 192, CALL_NONE },
#else
#error "cgpud has no system call numbers of this processor"
#endif
};

#define SYSTEM_CALL_TABLES (sizeof(system_calls) / sizeof(system_calls[0]))

#endif
