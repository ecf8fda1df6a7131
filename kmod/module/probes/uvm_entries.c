// SPDX-License-Identifier: GPL-2.0-only
/*
 * The driver's entry points of nvidia_uvm. A file of UVM is an address space, and managed memory in it is charged on the cards of the
 * container that maps it: calls and mappings are refused to all but the container that has opened the file, as another one would
 * register cards of its own there. A call of that container goes on where the core's table serves it; probes further in judge
 * what it maps.
 */
#include <linux/fs.h>
#include <linux/ktime.h>

#include "probes/files.h"
#include "probes/task_call.h"

/* Whether the current task is of another container than the one that has opened the file, or of none. */
static bool uvm_is_of_others(const struct file *file)
{
	struct km_identity identity, by;

	if (!km_enforce || !km_opened_file_owner(file, &by))
		return false;
	return !km_identity_of_current(&identity) || identity.slot != by.slot || identity.generation != by.generation;
}
NOKPROBE_SYMBOL(uvm_is_of_others);

static bool uvm_mmap_wants(struct pt_regs *regs)
{
	return uvm_is_of_others((const struct file *)regs_get_kernel_argument(regs, 0));
}
NOKPROBE_SYMBOL(uvm_mmap_wants);

/* A call that goes on does not come to the replacement: from there it would come to this probe again. */
static bool uvm_ioctl_wants(struct pt_regs *regs)
{
	if (uvm_is_of_others((const struct file *)regs_get_kernel_argument(regs, 0)))
		return true;
	return !km_engine_serves_uvm((u32)regs_get_kernel_argument(regs, 1)) && km_wants_enforced(regs);
}
NOKPROBE_SYMBOL(uvm_ioctl_wants);

static int uvm_refuse_others(void)
{
	pr_warn_ratelimited("%s (pid %d): used a file of nvidia-uvm that another container has opened: refused\n",
		current->comm, task_tgid_nr(current));
	return -EPERM;
}

/* The core counts and logs a call that it does not serve. Another core that would serve it may be in use by now. */
static int uvm_judge_unserved(u32 nr)
{
	struct km_engine *engine = km_engine_get();
	struct cgpu_call call = { .device = CGPU_DEVICE_UVM, .tgid = task_tgid_nr(current), .nr = nr };
	struct km_identity identity;

	if (engine && km_identity_of_current(&identity)) {
		call.slot = identity.slot;
		call.generation = identity.generation;
		engine->logic->call_begin(&engine->core, &call);
	}
	km_engine_put(engine);
	return call.error ? -call.error : -EINVAL;
}

static int uvm_refuse_unserved(u32 nr)
{
	u64 started = ktime_get_ns();
	int err;

	km_latency_enter();
	err = uvm_judge_unserved(nr);
	km_latency_add(CGPU_OUTCOME_ANSWERED, ktime_get_ns() - started);
	km_latency_leave();
	return err;
}

KM_EXTERNAL(uvm_open, int(struct inode *, struct file *));

static int run_uvm_open(struct inode *inode, struct file *file)
{
	return km_call(uvm_open)(inode, file);
}

/* uvm_open_entry() */
static int uvm_open(struct inode *inode, struct file *file)
{
	struct km_identity identity;
	int found = km_identity_of_current(&identity);
	int err = km_opened_file_open(run_uvm_open, found, &identity, inode, file);

	km_probe_leave();
	return err;
}

/* uvm_unlocked_ioctl_entry() and uvm_tools_unlocked_ioctl_entry(), for processes of 32 bits too */
static long uvm_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	int err = uvm_is_of_others(file) ? uvm_refuse_others() : uvm_refuse_unserved(command);

	km_probe_leave();
	return err;
}

/* uvm_mmap_entry(): managed memory */
static int uvm_mmap(struct file *file, struct vm_area_struct *vma)
{
	int err = uvm_refuse_others();

	km_probe_leave();
	return err;
}

KM_PROBE_AROUND(uvm_open, "nvidia_uvm", "uvm_open_entry", uvm_open, km_wants_enforced);
KM_PROBE(uvm_close, "nvidia_uvm", "uvm_release_entry", NULL, km_opened_file_close_wants);
KM_PROBE(uvm_ioctl, "nvidia_uvm", "uvm_unlocked_ioctl_entry", uvm_ioctl, uvm_ioctl_wants);
KM_PROBE(uvm_tools, "nvidia_uvm", "uvm_tools_unlocked_ioctl_entry", uvm_ioctl, uvm_ioctl_wants);
KM_PROBE(uvm_mmap, "nvidia_uvm", "uvm_mmap_entry", uvm_mmap, uvm_mmap_wants);
