/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the seccomp filters of a process are such that the driver is reached through a listener only. */
#ifndef CGPUD_FILTER_H
#define CGPUD_FILTER_H

#include <linux/filter.h>

#include "cgpu_types.h"

#define FILTERS_MAX 32 /* of one process that are looked at: the newest ones */
#define ALL_FILTERS_MAX 32768 /* more instructions than the kernel takes for all of a process, kernel/seccomp.c */

struct filter {
	u32 count;
	struct sock_filter code[BPF_MAXINSNS];
};

/* Whether every reachable result of a filter for a call notifies a listener or denies the call, whatever the arguments
 * are of which the filter is not told here. number and command: of the system call and its second argument. */
int filter_holds(const struct filter *filter, u32 arch, u32 number, u64 command);
/* Whether one of some filters holds for each call that may reach the driver. salt: chooses the tried numbers. */
int filters_hold(const struct filter *const *filters, u32 count, u64 salt);

#endif
