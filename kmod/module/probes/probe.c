// SPDX-License-Identifier: GPL-2.0-only
/*
 * A probe that sends a call to a function of ours. It sits on the first instruction and changes the instruction
 * pointer, so arguments and return address are as the caller left them. Return probes are not used: their pool of
 * instances runs dry when many calls sleep, and each one missed would be a hole.
 */
#include <linux/delay.h>
#include <linux/ftrace.h>
#include <linux/percpu.h>
#ifdef CONFIG_X86
#include <asm/msr.h>
#endif

#include "compat.h"
#include "driver/driver.h"
#include "probes/probe.h"

static DEFINE_PER_CPU(long, probe_inside);
KM_EXTERNAL(lookup_name, unsigned long(const char *));
KM_EXTERNAL(task_work_add, int(struct task_struct *, struct callback_head *, enum task_work_notify_mode));
static LIST_HEAD(probes_attached);
static DEFINE_MUTEX(probes_lock);

/*
 * A probe returns to a replacement, not to where it was called from. With shadow stacks for the kernel, which Linux has not had so
 * far, that return would be a fault. The read fails, and no harm is done, where the processor has no such register.
 */
static bool has_shadow_stacks(void)
{
#ifdef CONFIG_X86
	u32 low, high;

	return rdmsr_safe(MSR_IA32_S_CET, &low, &high) == 0 && (low & CET_SHSTK_EN);
#else
	return false;
#endif
}

int km_probes_init(void)
{
	unsigned long lookup_name = km_find_lookup(), task_work_add = 0;

	if (has_shadow_stacks()) {
		pr_err("the kernel has shadow stacks, and probes cannot work with them; use cgpud\n");
		return -EOPNOTSUPP;
	}
	km_set_external(lookup_name, lookup_name);
	if (lookup_name)
		task_work_add = km_symbol(NULL, "task_work_add");
	km_set_external(task_work_add, task_work_add);
	if (task_work_add)
		return 0;
	pr_err("kallsyms_lookup_name, task_work_add: not found; the kernel needs CONFIG_KPROBES and CONFIG_KALLSYMS\n");
	return -ENOENT;
}

unsigned long km_symbol(const char *module, const char *name)
{
	char full[128];

	if (!module)
		return km_call(lookup_name)(name);
	snprintf(full, sizeof(full), "%s:%s", module, name);
	return km_call(lookup_name)(full);
}

static int probe_redirect(struct kprobe *kprobe, struct pt_regs *regs)
{
	struct km_probe *probe = container_of(kprobe, struct km_probe, kprobe);

	if (!probe->wants(regs))
		return 0;
	this_cpu_inc(probe_inside);
	instruction_pointer_set(regs, (unsigned long)probe->replacement);
	return 1;
}
NOKPROBE_SYMBOL(probe_redirect);

/* Without a post handler the kernel may turn the probe into a jump, whose handler cannot redirect. */
static void probe_no_jump(struct kprobe *kprobe, struct pt_regs *regs, unsigned long flags)
{
}
NOKPROBE_SYMBOL(probe_no_jump);

int km_probe_attach(struct km_probe *probe)
{
	unsigned long address = km_symbol(probe->module, probe->symbol);
	int err;

	if (!address)
		return -ENOENT;
	if (probe->key)
		__static_call_update(probe->key, probe->trampoline, (void *)address);
	memset(&probe->kprobe, 0, sizeof(probe->kprobe));
	probe->kprobe.addr = (kprobe_opcode_t *)address;
	probe->kprobe.pre_handler = probe_redirect;
	probe->kprobe.post_handler = probe_no_jump;
	err = register_kprobe(&probe->kprobe);
	probe->attached = err == 0;
	probe->missed = 0;
	if (err)
		return err;
	mutex_lock(&probes_lock);
	list_add(&probe->list, &probes_attached);
	mutex_unlock(&probes_lock);
	return 0;
}

/* The kernel calls no probe while another one of the processor is at work, whosever that is. Calls that went by were
 * not judged. */
static void probe_tell_missed(struct km_probe *probe)
{
	unsigned long missed = READ_ONCE(probe->kprobe.nmissed);

	if (missed == probe->missed)
		return;
	pr_warn("%s: %lu calls went by its probe\n", probe->symbol, missed - probe->missed);
	probe->missed = missed;
	km_driver_distrust(probe->symbol);
}

void km_probes_check(void)
{
	struct km_probe *probe;

	mutex_lock(&probes_lock);
	list_for_each_entry(probe, &probes_attached, list)
		probe_tell_missed(probe);
	mutex_unlock(&probes_lock);
}

void km_probe_detach(struct km_probe *probe)
{
	if (!probe->attached)
		return;
	unregister_kprobe(&probe->kprobe);
	probe->attached = false;
	mutex_lock(&probes_lock);
	list_del(&probe->list);
	mutex_unlock(&probes_lock);
	probe_tell_missed(probe);
}

void km_probes_detach(struct km_probe *const *probes, u32 count)
{
	while (count-- > 0)
		km_probe_detach(probes[count]);
}

int km_probes_attach(struct km_probe *const *probes, u32 count, const char **failed)
{
	u32 i;
	int err;

	for (i = 0; i < count; i++) {
		err = km_probe_attach(probes[i]);
		if (err == 0 || (err == -ENOENT && probes[i]->optional))
			continue;
		*failed = probes[i]->symbol;
		km_probes_detach(probes, i);
		return err;
	}
	return 0;
}

void km_probe_enter(void)
{
	this_cpu_inc(probe_inside);
}

void km_probe_leave(void)
{
	this_cpu_dec(probe_inside);
}

void km_probes_drain(void)
{
	long sum;
	int cpu;

	do {
		sum = 0;
		for_each_possible_cpu(cpu)
			sum += per_cpu(probe_inside, cpu);
		if (sum)
			msleep(1);
	} while (sum);
	/* A task may still be on its last instructions in here. */
	km_synchronize_tasks();
}

/*
 * Where a function has a place for the function tracer, its probe is a call from there, and kernel.ftrace_enabled=0
 * would take it away without a word. The kernel refuses that while something is traced that says it is permanent.
 */
#ifdef CONFIG_KPROBES_ON_FTRACE

/* The traced function, which is never called. */
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
