// SPDX-License-Identifier: Apache-2.0
/* Architectures of notified calls: a part of cgpud without a listener. */
#include <linux/audit.h>

#include "bench.h"
#include "request.h"

#define KNOWN_CALLS 600
#if defined(__aarch64__)
#define OURS AUDIT_ARCH_AARCH64
#define OUR_IOCTL 29
#define COMPAT AUDIT_ARCH_ARM
#define FOREIGN AUDIT_ARCH_X86_64, AUDIT_ARCH_I386
#else
#define OURS AUDIT_ARCH_X86_64
#define OUR_IOCTL 16
#define COMPAT AUDIT_ARCH_I386
#define FOREIGN AUDIT_ARCH_AARCH64, AUDIT_ARCH_ARM
#endif

static enum request_kind kind_of(u32 arch, int nr)
{
	struct seccomp_notif notif = { .data = { .arch = arch, .nr = nr } };
	struct request request;

	request_decode(&notif, &request);
	return request.kind;
}

TEST(no_other_architecture_is_known)
{
	static const u32 others[] = { FOREIGN, AUDIT_ARCH_PPC64LE, AUDIT_ARCH_RISCV64, 0, ~0u };
	u32 i;
	int nr;

	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		for (nr = 0; nr < KNOWN_CALLS; nr++)
			CHECK_EQ(kind_of(others[i], nr), REQUEST_UNKNOWN);
}

TEST(few_calls_are_known)
{
	u32 known = 0;
	int nr;

	CHECK_EQ(kind_of(OURS, OUR_IOCTL), REQUEST_IOCTL);
	CHECK_EQ(kind_of(COMPAT, 54), REQUEST_IOCTL);
	for (nr = 0; nr < KNOWN_CALLS; nr++)
		known += kind_of(OURS, nr) != REQUEST_UNKNOWN;
	CHECK_EQ(known, 2);
}
