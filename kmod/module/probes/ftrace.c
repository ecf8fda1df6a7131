// SPDX-License-Identifier: GPL-2.0
/*
 * Where a function has a place for the function tracer, its probe is a call from there, and kernel.ftrace_enabled=0
 * would take it away without a word. The kernel refuses that while something is traced that says it is permanent.
 */
#include <linux/ftrace.h>

#include "km.h"

#ifdef CONFIG_KPROBES_ON_FTRACE

/* What is traced: nobody calls it. */
static noinline void anchor(void)
{
	barrier();
}

static void notrace traced(unsigned long ip, unsigned long parent, struct ftrace_ops *self, struct ftrace_regs *regs)
{
}

static struct ftrace_ops permanent = {
	.func = traced,
	.flags = FTRACE_OPS_FL_PERMANENT,
};

int km_ftrace_hold(void)
{
	int err = ftrace_set_filter_ip(&permanent, (unsigned long)anchor, 0, 0);

	if (err == 0)
		err = register_ftrace_function(&permanent);
	if (err == 0)
		return 0;
	ftrace_free_filter(&permanent);
	if (err == -EBUSY)
		pr_err("kernel.ftrace_enabled: 0; probes need 1: sysctl kernel.ftrace_enabled=1\n");
	else
		pr_err("function tracer: cannot be used (error %d); probes need it on this kernel\n", err);
	return err;
}

void km_ftrace_release(void)
{
	unregister_ftrace_function(&permanent);
	ftrace_free_filter(&permanent);
}

#else

int km_ftrace_hold(void)
{
	return 0;
}

void km_ftrace_release(void)
{
}

#endif
