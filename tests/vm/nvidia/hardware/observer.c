// SPDX-License-Identifier: GPL-2.0
/*
 * How a driver meets the engine's probes: in what order it comes, and what holds while its functions run. The same is
 * wanted of NVIDIA's driver and of the fake one; /proc/opencgpu_observer has it as text.
 */
#include <linux/fs.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/namei.h>
#include <linux/notifier.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "proc_text.h"

#define PROC_NAME "opencgpu_observer"
#define FUNCTIONS 32
#define EVENTS 16
#define TEXT_BYTES 16384

static char *functions[FUNCTIONS];
static int function_count;
module_param_array(functions, charp, &function_count, 0444);
MODULE_PARM_DESC(functions, "functions of nvidia.ko and nvidia-uvm.ko to look at");

/* What was ever so when a function began. */
enum condition { CALLED, FROM_KERNEL, ATOMIC, INTERRUPTS_OFF, MMAP_LOCKED, CONDITIONS };

static const char *const condition_names[CONDITIONS] = { "called", "kernel", "atomic", "interrupts-off",
	"mmap-locked" };

struct looked_at {
	struct kprobe kprobe;
	unsigned long seen; /* bits of enum condition */
};

/* What is there at an event of a module's life. */
struct event {
	char module[16];
	unsigned long state;
	bool has_version_file;
	bool has_device_numbers;
	bool has_function;
};

static struct looked_at looked_at[FUNCTIONS];
static struct event events[EVENTS];
static u32 event_count;

static int look_at_call(struct kprobe *kprobe, struct pt_regs *regs)
{
	struct looked_at *at = container_of(kprobe, struct looked_at, kprobe);

	set_bit(CALLED, &at->seen);
	if (!current->mm)
		set_bit(FROM_KERNEL, &at->seen);
	/* One of the count is the probe's own; a probe by a breakpoint has that of its exception besides. */
	if ((preempt_count() & (PREEMPT_MASK | SOFTIRQ_MASK)) > 1)
		set_bit(ATOMIC, &at->seen);
	if (!(regs->flags & X86_EFLAGS_IF))
		set_bit(INTERRUPTS_OFF, &at->seen);
	if (current->mm && rwsem_is_locked(&current->mm->mmap_lock))
		set_bit(MMAP_LOCKED, &at->seen);
	return 0;
}

static bool file_is_there(const char *name)
{
	struct path path;

	if (kern_path(name, LOOKUP_FOLLOW, &path))
		return false;
	path_put(&path);
	return true;
}

/* What a kernel module gets from a file by kernel_read(): bytes, or a negative errno. */
static long read_by_kernel(const char *name, char *text, size_t room)
{
	struct file *file = filp_open(name, O_RDONLY, 0);
	loff_t at = 0;
	ssize_t got;

	if (IS_ERR(file))
		return PTR_ERR(file);
	got = kernel_read(file, text, room - 1, &at);
	filp_close(file, NULL);
	text[got > 0 ? got : 0] = 0;
	return got;
}

static bool numbers_are_there(void)
{
	char *text = kzalloc(TEXT_BYTES, GFP_KERNEL);
	bool found = text && read_by_kernel("/proc/devices", text, TEXT_BYTES) > 0 && strstr(text, "\n195 ");

	kfree(text);
	return found;
}

static bool function_is_there(void)
{
	struct kprobe kprobe = { .symbol_name = "rm_ioctl" };

	if (register_kprobe(&kprobe))
		return false;
	unregister_kprobe(&kprobe);
	return true;
}

static int module_notified(struct notifier_block *block, unsigned long state, void *data)
{
	const struct module *module = data;
	struct event *event;

	if (strcmp(module->name, "nvidia") || event_count == EVENTS)
		return NOTIFY_DONE;
	event = &events[event_count++];
	strscpy(event->module, module->name, sizeof(event->module));
	event->state = state;
	event->has_version_file = file_is_there("/proc/driver/nvidia/version");
	event->has_device_numbers = numbers_are_there();
	event->has_function = function_is_there();
	return NOTIFY_DONE;
}

static struct notifier_block notifier = { .notifier_call = module_notified };

static void show_events(struct seq_file *s)
{
	static const char *const states[] = { "live", "coming", "going", "unformed" };
	u32 i;

	for (i = 0; i < event_count; i++)
		seq_printf(s, "%s %s: version-file=%d device-numbers=%d function=%d\n", events[i].module,
			states[events[i].state & 3], events[i].has_version_file, events[i].has_device_numbers,
			events[i].has_function);
}

static int show(struct seq_file *s, void *unused)
{
	char text[64];
	int i, k;

	show_events(s);
	seq_printf(s, "kernel_read of the version: %ld\n",
		read_by_kernel("/proc/driver/nvidia/version", text, sizeof(text)));
	for (i = 0; i < function_count; i++) {
		seq_printf(s, "%s:", functions[i]);
		for (k = 0; k < CONDITIONS; k++) {
			if (test_bit(k, &looked_at[i].seen))
				seq_printf(s, " %s", condition_names[k]);
		}
		seq_puts(s, looked_at[i].kprobe.addr ? "\n" : " not there\n");
	}
	return 0;
}

/* A write has the functions looked at from now on: the driver is loaded then. */
static ssize_t begin(struct file *file, const char __user *data, size_t bytes, loff_t *at)
{
	int i;

	for (i = 0; i < function_count; i++) {
		looked_at[i].kprobe = (struct kprobe){ .symbol_name = functions[i], .pre_handler = look_at_call };
		if (register_kprobe(&looked_at[i].kprobe))
			looked_at[i].kprobe.addr = NULL;
	}
	return (ssize_t)bytes;
}

PROC_TEXT(observer, show, begin);

static int __init observer_init(void)
{
	int err = register_module_notifier(&notifier);

	if (err)
		return err;
	if (proc_create(PROC_NAME, 0600, NULL, &observer_ops))
		return 0;
	unregister_module_notifier(&notifier);
	return -ENOMEM;
}

static void __exit observer_exit(void)
{
	int i;

	remove_proc_entry(PROC_NAME, NULL);
	unregister_module_notifier(&notifier);
	for (i = 0; i < function_count; i++) {
		if (looked_at[i].kprobe.addr)
			unregister_kprobe(&looked_at[i].kprobe);
	}
}

module_init(observer_init);
module_exit(observer_exit);
MODULE_DESCRIPTION("How a driver meets a kernel module's probes, for tests");
MODULE_LICENSE("GPL");
