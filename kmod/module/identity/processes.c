// SPDX-License-Identifier: GPL-2.0
/* Numbers of processes, in the namespace of the task whose call is judged. */
#include <linux/pid.h>
#include <linux/sched.h>

#include "km.h"

s32 km_process_of(void *ctx, s32 number)
{
	struct task_struct *task;
	s32 tgid = 0;

	rcu_read_lock();
	task = pid_task(find_vpid(number), PIDTYPE_PID);
	if (task)
		tgid = task_tgid_nr(task);
	rcu_read_unlock();
	return tgid;
}
