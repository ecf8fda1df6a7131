/* SPDX-License-Identifier: GPL-2.0-only */
/* Probes that send calls of the driver's functions to functions of the module. */
#ifndef CGPU_KM_PROBE_H
#define CGPU_KM_PROBE_H

#include <linux/kprobes.h>
#include <linux/list.h>
#include <linux/static_call.h>
#include <linux/task_work.h>

/*
 * A function outside of this module is entered by a direct call, into which the kernel patches its address (a static call).
 * An indirect call to it would fault where the processor tracks indirect branches (IBT): the kernel takes the ENDBR64 from its own
 * functions that no pointer names, and the driver's binary part is built without. That part has no hashes for kCFI and FineIBT
 * either, and neither is in a direct call's way. Until its address is set, a call does nothing.
 */
#define KM_EXTERNAL(name, ...) DEFINE_STATIC_CALL_NULL(km_external_##name, __VA_ARGS__)
#define km_call(name) static_call(km_external_##name)
#define km_set_external(name, address) static_call_update(km_external_##name, (void *)(address))

struct km_probe {
	struct kprobe kprobe;
	const char *module; /* NULL: the kernel itself */
	const char *symbol;
	void *replacement;
	/* Whether this call of the current task goes to the replacement. Called from the breakpoint. */
	bool (*wants)(struct pt_regs *regs);
	/* The static call by which this module calls the function; NULL: none. */
	struct static_call_key *key;
	void *trampoline;
	bool optional;
	bool attached;
	struct list_head list; /* of those that are attached */
	unsigned long missed; /* calls that went by it, as far as that was said */
};
/* km_probe_NAME, on a function of one of the driver's modules. Further fields may follow. */
#define KM_PROBE(name, of_module, function, goes_to, if_wanted, ...)                                             \
	struct km_probe km_probe_##name = {                                                                      \
		.module = of_module, .symbol = function, .replacement = goes_to, .wants = if_wanted, __VA_ARGS__ \
	}

/* Fields of a probe whose replacement calls the function by km_call(). */
#define KM_CALLS(name) \
	.key = &STATIC_CALL_KEY(km_external_##name), .trampoline = STATIC_CALL_TRAMP_ADDR(km_external_##name)
#define KM_PROBE_AROUND(name, ...) KM_PROBE(name, __VA_ARGS__, KM_CALLS(name))

int km_probes_init(void);
int km_probe_attach(struct km_probe *probe);
void km_probe_detach(struct km_probe *probe);
/* Attach several probes, in order: all of them, or none and the name of the one that cannot be attached. Optional
 * ones may be missing. */
int km_probes_attach(struct km_probe *const *probes, u32 count, const char **failed);
void km_probes_detach(struct km_probe *const *probes, u32 count);
/* Say which probes calls have gone by since that was said last, and trust the driver no more. */
void km_probes_check(void);
/* The last thing that a replacement does; or a function that it has left to be called later, for which it enters again. */
void km_probe_leave(void);
void km_probe_enter(void);
/* After all are detached: wait until no replacement is running. */
void km_probes_drain(void);
unsigned long km_symbol(const char *module, const char *name);
/* Keep kernel.ftrace_enabled from disarming the probes. -EBUSY: it is 0. */
int km_ftrace_hold(void);
void km_ftrace_release(void);

/* The probes, and what their files keep of a driver that has gone or goes: that is cleared after the probes are drained. */

extern struct km_probe km_probe_rm_ioctl;
extern struct km_probe km_probe_copy_from, km_probe_copy_to;
extern struct km_probe km_probe_get_file, km_probe_cleanup;
extern struct km_probe km_probe_uvm_dup, km_probe_uvm_free;
extern struct km_probe km_probe_retain, km_probe_release;
void km_references_clear(void);
extern struct km_probe km_probe_dma_buf, km_probe_dma_buf_dup, km_probe_dma_buf_undup;
extern struct km_probe km_probe_managed_create, km_probe_managed_destroy, km_probe_managed_space;
void km_managed_clear(void);
extern struct km_probe km_probe_open, km_probe_dev_get, km_probe_uvm_gpu;
extern struct km_probe km_probe_map_ready, km_probe_map, km_probe_map_fault, km_probe_map_access, km_probe_map_leave;
extern struct km_probe km_probe_map_window, km_probe_map_free, km_probe_map_user, km_probe_map_peer;
DECLARE_STATIC_CALL(
	km_external_task_work_add, int(struct task_struct *, struct callback_head *, enum task_work_notify_mode));
extern struct km_probe km_probe_opened_close, km_probe_opened_ioctl;
extern struct km_probe km_probe_pages_allocate, km_probe_pages_free, km_probe_pages_destroy, km_probe_pages_chunks;
extern struct km_probe km_probe_uvm_open, km_probe_uvm_close, km_probe_uvm_ioctl, km_probe_uvm_tools, km_probe_uvm_mmap;

/* The probes of nvidia_uvm, all or none. */
int km_uvm_attach(void);
void km_uvm_detach(void);

#endif
