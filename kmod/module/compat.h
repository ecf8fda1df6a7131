/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between kernel releases. Each entry names the release that changed. Tried: 6.1, 6.12 and 7.2.
 */
#ifndef CGPU_KM_COMPAT_H
#define CGPU_KM_COMPAT_H

#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/proc_fs.h>
#include <linux/rcupdate.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "cgpu_km needs Linux 6.1 or newer: struct cgroup has the pointers to its ancestors since then"
#endif

/* 5.7: kallsyms_lookup_name() is no longer exported. A probe finds any symbol, so one finds this; behind its ENDBR64, if it has one,
 * which a direct call may leave out. */
static inline unsigned long km_find_lookup(void)
{
	struct kprobe probe = { .symbol_name = "kallsyms_lookup_name" };
	unsigned long address;

	if (register_kprobe(&probe))
		return 0;
	address = (unsigned long)probe.addr;
	unregister_kprobe(&probe);
	return address;
}

/* Wait until no task is inside of a function of ours any more, also where it may have been preempted there. */
static inline void km_synchronize_tasks(void)
{
#ifdef CONFIG_TASKS_RCU
	synchronize_rcu_tasks();
#else
	synchronize_rcu();
#endif
}

#endif
