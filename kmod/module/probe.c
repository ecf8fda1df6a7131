// SPDX-License-Identifier: GPL-2.0
/*
 * A probe that sends a call to a function of ours. It sits on the first instruction and changes the instruction
 * pointer, so arguments and return address are as the caller left them. Return probes are not used: their pool of
 * instances runs dry when many calls sleep, and each one missed would be a hole.
 */
#include <linux/delay.h>
#include <linux/percpu.h>

#include "compat.h"
#include "km.h"

static DEFINE_PER_CPU(long, inside);
static km_lookup_fn lookup;

int km_probes_init(void)
{
	lookup = km_find_lookup();
	if (lookup)
		return 0;
	pr_err("kallsyms_lookup_name: not found; the kernel needs CONFIG_KPROBES and CONFIG_KALLSYMS\n");
	return -ENOENT;
}

unsigned long km_symbol(const char *module, const char *name)
{
	char full[128];

	if (!module)
		return lookup(name);
	snprintf(full, sizeof(full), "%s:%s", module, name);
	return lookup(full);
}

static int redirect(struct kprobe *kprobe, struct pt_regs *regs)
{
	struct km_probe *probe = container_of(kprobe, struct km_probe, kprobe);

	if (!probe->wants(regs))
		return 0;
	this_cpu_inc(inside);
	instruction_pointer_set(regs, (unsigned long)probe->replacement);
	return 1;
}
NOKPROBE_SYMBOL(redirect);

/* Without one the kernel may turn the probe into a jump, whose handler cannot change where it goes. */
static void no_jump(struct kprobe *kprobe, struct pt_regs *regs, unsigned long flags)
{
}
NOKPROBE_SYMBOL(no_jump);

int km_probe_attach(struct km_probe *probe)
{
	int err;

	probe->original = km_symbol(probe->module, probe->symbol);
	if (!probe->original)
		return -ENOENT;
	memset(&probe->kprobe, 0, sizeof(probe->kprobe));
	probe->kprobe.addr = (kprobe_opcode_t *)probe->original;
	probe->kprobe.pre_handler = redirect;
	probe->kprobe.post_handler = no_jump;
	err = register_kprobe(&probe->kprobe);
	probe->attached = err == 0;
	return err;
}

void km_probe_detach(struct km_probe *probe)
{
	if (!probe->attached)
		return;
	unregister_kprobe(&probe->kprobe);
	probe->attached = false;
	if (probe->kprobe.nmissed)
		pr_warn("%s: %lu calls went by its probe\n", probe->symbol, probe->kprobe.nmissed);
}

void km_probe_leave(void)
{
	this_cpu_dec(inside);
}

void km_probes_drain(void)
{
	long sum;
	int cpu;

	do {
		sum = 0;
		for_each_possible_cpu(cpu)
			sum += per_cpu(inside, cpu);
		if (sum)
			msleep(1);
	} while (sum);
	/* A task may still be on its last instructions in here. */
	km_synchronize_tasks();
}
