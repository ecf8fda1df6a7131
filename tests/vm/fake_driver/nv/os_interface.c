// SPDX-License-Identifier: GPL-2.0-only
/* Functions of the operating system for the binary half (kernel-open/nvidia/os-interface.c). */
#include <linux/capability.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "driver.h"

noinline u32 os_memcpy_from_user(void *to, const void *from, u32 n)
{
	if (knob_fails(__func__))
		return NV_ERR_INVALID_ADDRESS;
	return copy_from_user(to, (const void __user *)from, n) ? NV_ERR_INVALID_ADDRESS : NV_OK;
}

noinline u32 os_memcpy_to_user(void *to, const void *from, u32 n)
{
	if (knob_fails(__func__))
		return NV_ERR_INVALID_ADDRESS;
	return copy_to_user((void __user *)to, from, n) ? NV_ERR_INVALID_ADDRESS : NV_OK;
}

/* As in the driver: the number of the process in the initial namespace (osGetCurrentProcess). */
pid_t caller_process(const struct caller *caller)
{
	return task_tgid_nr(current);
}

bool caller_is_admin(const struct caller *caller)
{
	return caller->thread == SIM_KERNEL || capable(CAP_SYS_ADMIN);
}

bool caller_is_nice(const struct caller *caller)
{
	return caller->thread == SIM_KERNEL || capable(CAP_SYS_NICE) || capable(CAP_SYS_ADMIN);
}

void pid_view_open(struct pid_view *view, const struct sim *sim, const struct caller *caller)
{
	view->translate = version_at_least(sim, 535, 113, 1);
	view->namespace = (uintptr_t)task_active_pid_ns(current);
	view->level = 0;
}

uint32_t pid_view_of(const struct pid_view *view, pid_t process)
{
	struct pid *pid;
	pid_t seen;

	if (!view->translate)
		return (uint32_t)process;
	rcu_read_lock();
	pid = find_pid_ns(process, &init_pid_ns);
	seen = pid ? pid_nr_ns(pid, (struct pid_namespace *)(uintptr_t)view->namespace) : 0;
	rcu_read_unlock();
	return (uint32_t)seen;
}
