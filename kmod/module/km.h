/* SPDX-License-Identifier: GPL-2.0 */
/* What the files of cgpu_km.ko share: one section for each file. */
#ifndef CGPU_KM_H
#define CGPU_KM_H

#include <linux/kprobes.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/sched.h>

#include "interface.h"

#define pr_fmt_km(fmt) "cgpu_km: " fmt
#undef pr_fmt
#define pr_fmt(fmt) pr_fmt_km(fmt)

#define CGPU_KM_VERSION_BYTES 32u

/* --- parameters.c --- */

bool km_enforce(void);
bool km_allow_unknown_driver(void);
bool km_managed_memory(void);
unsigned int km_upgrade_timeout_ms(void);
/* What the parameters say, without what depends on the core. */
void km_settings(struct cgpu_settings *settings);

/* --- engine.c: the core in use, and the state --- */

struct km_engine {
	struct cgpu_core core;
	struct cgpu_km_core *logic;
	u64 number; /* no two engines ever have the same */
	refcount_t users;
	bool pinned; /* holds a reference on the logic's module */
	bool ended; /* its state is no longer there */
};

/* The engine, for as long as it is not put back; NULL when no core is loaded. May sleep while one core hands over to
 * another; NULL then also when the task is being killed. */
struct km_engine *km_engine_get(void);
/* The same for what must be done whatever becomes of the task. NULL only when no core is loaded. */
struct km_engine *km_engine_get_surely(void);
void km_engine_put(struct km_engine *engine);
/* The state and the registry change under this lock: registration, removal, cards, another core. */
extern struct mutex km_control_lock;
/* Keep the core's module while containers are registered. Under the control lock. */
int km_engine_pin(void);
void km_engine_unpin(void);

/* --- order.c: one at a time of a container's calls that change what it holds --- */

struct km_order {
	struct hlist_node node;
	u32 slot;
	u64 generation;
	u32 users;
	struct mutex lock;
};
/* Of this registration, for as long as it is not put back. NULL: no memory. */
struct km_order *km_order_get(u32 slot, u64 generation);
void km_order_put(struct km_order *order);

/* --- cores.c --- */

/* Another core that is loaded; NULL: there is none. Under the control lock. */
struct cgpu_km_core *km_engine_candidate(void);
/* Whether there is one. */
bool km_engine_has_candidate(void);
/* Parameters have been written: have them count. */
void km_engine_settings(void);
/* Put another core in use. Where it lays out the state in another way, calls of containers wait meanwhile. Under the
 * control lock. -EBUSY: a call did not end in time; -EPROTO: it cannot read the state, or does not know the driver. */
int km_engine_exchange(struct cgpu_km_core *logic);
void km_cores_exit(void);

/* --- upgrade.c --- */

/* A write of 1 to the upgrade node. Under the control lock. */
int km_upgrade(void);

/* --- identity.c, holders.c, expected.c: who calls --- */

struct km_identity {
	u32 slot;
	u64 generation;
};
/* The container that the current task belongs to. Any context. */
bool km_identity_of_current(struct km_identity *identity);
/* Whether a process, by its number in the first namespace, is none outside of containers. */
bool km_identity_of_process(s32 tgid);
/* Registration, in three steps under the control lock: find out what tells the container's tasks, then either make it
 * count for a container, or forget it. */
int km_identity_prepare(s32 pid, char *cgroup, size_t bytes);
int km_identity_commit(u32 slot, u64 generation, const char *id);
void km_identity_forget(void);
/* Identities whose container was removed and that have no process left go; containers whose processes have gone are
 * removed. Under the control lock. Returns 0 when no identity is left. */
u32 km_identity_sweep(struct km_engine *engine);
/* Whether the current task may belong to a registration without a process, for all that is known without
 * km_identity_find(). Any context. */
bool km_identity_unbound(void);
/* Whether anybody is sliced. */
bool km_identity_any(void);
/* The current task's container; a registration without a process is looked for by the name of the task's cgroup. 1: it
 * has one; 0: none; -ENOMEM: that could not be found out. May sleep. */
int km_identity_find(struct km_identity *identity);
int km_identity_expect(u32 slot, u64 generation, const char *id);
void km_identity_exit(void);

/* --- cgroups.c: what of a task's cgroups tells its container --- */

#define KM_KEYS 8u
struct km_keys {
	u32 count;
	struct pid *init;
	struct pid_namespace *pid_ns; /* counted reference, or NULL */
	struct cgroup *cgroup[KM_KEYS]; /* counted references */
};
/* 0 or -ESRCH, -EINVAL: shares everything with the caller. name: the cgroup's path as the owner node shows it. */
int km_keys_of(s32 pid, struct km_keys *keys, char *name, size_t bytes);
void km_keys_put(struct km_keys *keys);
/* Whether any process is left in them. */
bool km_keys_populated(const struct km_keys *keys);
/* Call visit for each thing that a task could be known by, innermost first; stops when it returns true. Any context. */
bool km_keys_walk(struct task_struct *task, bool (*visit)(const void *key, void *context), void *context);
/* A task's group in version 2 (0) and where a controller has a hierarchy of version 1; NULL: it has none there. Under
 * RCU. */
#define KM_HIERARCHIES 5u
struct cgroup *km_cgroup_in(struct task_struct *task, u32 hierarchy);

/* --- names.c: groups that are named after a container --- */

struct km_groups {
	struct cgroup *at[KM_HIERARCHIES];
};
void km_names_init(void);
/* Under RCU, and good as long. */
void km_groups_of_current(struct km_groups *groups);
/* One value for all of them and another number; others have another one. Under RCU. */
u64 km_groups_mark(const struct km_groups *groups, u64 salt);
/* What tells the current task's container, when one of its groups or of those above is named after it. Under RCU. */
bool km_keys_named(const struct km_groups *groups, const char *id, struct km_keys *keys);

/* --- record.c: calls under way, by task --- */

#define KM_UNDO_BYTES 64u

struct km_record {
	struct km_record_node *node;
	struct cgpu_call call;
	u32 written; /* bit n: the driver has written into segment n */
	u32 copies; /* how often it has come by to fetch or write one */
	u32 space_used;
	bool judged; /* the driver runs it now, on the segments */
	struct file *target; /* what a descriptor inside of it leads to, counted; NULL: nothing was asked for */
	u32 handed; /* how often the driver has come by to get it */
	bool looks; /* the driver's own look-up of a descriptor runs */
	bool ends_space; /* UVM takes an address space apart */
	struct km_exporting *exporting; /* a dma-buf is being made */
	/* From here on it is not cleared. */
	struct cgpu_call undo; /* frees what the call has allocated */
	u8 undo_top[KM_UNDO_BYTES];
	u8 space[1664]; /* for segments; longer ones are allocated */
};
int km_record_init(void);
void km_record_exit(void);
/* NULL: no memory. */
struct km_record *km_record_begin(void);
/* For what must be done whatever becomes of the task. */
struct km_record *km_record_begin_surely(void);
void km_record_end(struct km_record *record);
/* Of the current task. Any context. */
struct km_record *km_record_current(void);

/* --- segments.c: nested buffers of the call of a record --- */

/* Fill the last one that the core has asked for. May take as long as the caller's memory makes it. */
int km_segment_fetch(struct km_record *record);
/* Give the caller what the driver has written. As long. */
int km_segments_deliver(const struct km_record *record);
void km_segments_free(struct km_record *record);

/* --- ftrace.c --- */

/* Let nobody disarm the probes by kernel.ftrace_enabled. -EBUSY: it is 0. */
int km_ftrace_hold(void);
void km_ftrace_release(void);

/* --- probe.c: redirecting probes --- */

struct km_probe {
	struct kprobe kprobe;
	const char *module; /* NULL: the kernel itself */
	const char *symbol;
	void *replacement;
	/* Whether this call of the current task goes to the replacement. Called from the breakpoint. */
	bool (*wants)(struct pt_regs *regs);
	unsigned long original; /* entry of the function, to call it */
	bool optional;
	bool attached;
	struct list_head list; /* of those that are attached */
	unsigned long missed; /* calls that went by it, as far as that was said */
};
int km_probes_init(void);
/* For those that are there to enforce: tasks of containers, or that may be such, but not calls of our own. */
bool km_probe_wants_contained(struct pt_regs *regs);
int km_probe_attach(struct km_probe *probe);
void km_probe_detach(struct km_probe *probe);
/* Say which probes calls have gone by since that was said last. Once a minute; more often it does nothing. */
void km_probes_check(void);
/* The last thing that a replacement does. */
void km_probe_leave(void);
/* After all are detached: wait until no replacement is running. */
void km_probes_drain(void);
unsigned long km_symbol(const char *module, const char *name);

/* --- files.c: open files of the driver --- */

struct km_file;
/* Forget all: the driver is gone, or goes. */
void km_files_clear(void);
/* The record of an open file, made at the first call on it. The caller is inside of a call on it, so it stays.
 * -ENOMEM; -EBADF: it is no file of the caller's. */
struct km_file *km_file_take(struct km_engine *engine, const void *nvfp);
enum cgpu_device km_file_device(const struct km_file *file);
/* Index of the GPU in the tree; CGPU_MAX_GPUS for one that is not there. */
u32 km_file_gpu(const struct km_file *file);
/* Whether a container has the node of a card open. */
bool km_file_opened(u32 minor);
/* Around a call that changes what a container holds: meanwhile the file is not linked. -EINTR: the task is killed. */
int km_file_use(struct km_file *file);
void km_file_leave(struct km_file *file);
/* Its number, for the core: no two files ever have the same. 0: clients used on it need not live on it. */
u64 km_file_number(const struct km_file *file);
/* Whether it is linked to another control file, and uses that one's clients. */
bool km_file_linked(const struct km_file *file);
/* The same of a file that the caller holds, whoever else has it open. */
struct km_file *km_file_take_open(struct file *file);
/* The number of the file itself, also where it is linked: what is exported on it lives on it. */
u64 km_file_own_number(const struct km_file *file);
/* A container exports on it. */
void km_file_note_export(const void *nvfp);
/* Whether one has, by what the driver knows the file by. */
bool km_file_exported(const void *nvfp);
/* Whether there is any such file. Any context. */
bool km_file_any_exported(void);
/* Around a call that links it. -EINTR: the task is killed. */
int km_file_link_begin(struct km_file *file);
void km_file_link_end(struct km_file *file, bool done);
extern struct km_probe km_probe_cleanup;

/* --- exports.c: descriptors inside of calls --- */

extern struct km_probe km_probe_get_file;
/* Look at the one that the core has asked for. -ENOMEM. */
int km_target_find(struct km_record *record);
/* The driver is about to use it. */
void km_target_note(const struct km_record *record);
/* Whether the driver did without it what it cannot do without. */
bool km_target_missed(const struct km_record *record);
void km_target_put(struct km_record *record);

/* --- kept.c: duplicates that a part of the driver has made for itself --- */

struct km_kept {
	struct hlist_node node;
	const void *owner; /* whose duplicate it is, as that part of the driver names it */
	u32 handle;
	bool releasing;
	struct cgpu_reference hold;
	struct rcu_head rcu;
};
/* The driver has made it, and its charge is confirmed. */
void km_kept_add(struct km_kept *kept, const void *owner, u32 handle);
/* Whether there is one. Any context. */
bool km_kept_known(const void *owner, u32 handle);
/* Around the driver's own release of it. NULL: there is none, or another thread releases it. */
struct km_kept *km_kept_release(const void *owner, u32 handle);
void km_kept_released(struct km_kept *kept, bool done);
/* Let go of all: the driver is gone, or goes. After the probes are drained. */
void km_kept_clear(void);

/* --- dmabuf.c: exports as dma-bufs --- */

extern struct km_probe km_probe_dma_buf, km_probe_dma_buf_dup, km_probe_dma_buf_undup;

/* --- calls.c, copies.c, uvm.c, managed.c, spaces.c, nodes.c, grants.c: the replacements --- */

extern struct km_probe km_probe_rm_ioctl;
/* Whether the driver was seen to work past the probes: from then on no container's call is let in. */
bool km_calls_bypassed(void);
/* It was, at the probe on this function. */
void km_calls_distrust(const char *symbol);
/* Another driver, or the same one loaded anew. */
void km_calls_trust(void);
extern struct km_probe km_probe_copy_from, km_probe_copy_to;
extern struct km_probe km_probe_uvm_dup, km_probe_uvm_free;
extern struct km_probe km_probe_managed_create, km_probe_managed_destroy, km_probe_managed_space;
/* As km_kept_clear(), for what UVM takes by itself. */
void km_managed_clear(void);
extern struct km_probe km_probe_open, km_probe_dev_get, km_probe_uvm_gpu;
/* The probes of nvidia_uvm, all or none. */
int km_uvm_attach(void);
void km_uvm_detach(void);

/* --- driver.c: the NVIDIA driver comes and goes --- */

int km_driver_init(void);
void km_driver_exit(void);
/* The first core is there: add the cards of a driver that was waiting for it. Under the control lock. */
void km_driver_core_came(void);
/* -EPROTO: a driver is loaded that cannot be enforced upon, so nobody may be registered. Under the control lock. */
int km_driver_check(void);
/* Whether a driver is there with its probes. */
bool km_driver_attached(void);
/* Wait until its cards have been asked for. Without the control lock. */
void km_driver_settle(void);
/* Hold the loaded driver, until module_put(); its version goes to a buffer of CGPU_KM_VERSION_BYTES. NULL: there is none
 * that can be used, or not now. */
struct module *km_driver_hold(char *version);
/* Pick the layouts of the loaded driver for an engine. -EPROTO: its version is unknown. Under the control lock. */
int km_driver_layouts(struct km_engine *engine);

/* --- rm.c, gpus.c: its interface for other kernel modules, and its cards --- */

/* Begin to use it: for one thread at a time. The driver stays as long. -ENODEV: there is none. */
const struct cgpu_km_rm *km_rm_begin(const struct km_engine *engine);
void km_rm_end(const struct cgpu_km_rm *rm);
/* The driver is gone. */
void km_rm_forget(void);
/* Ask for the cards and add them. Under the control lock. */
int km_gpus_add(struct km_engine *engine);
/* Ask for a card's free memory and its MIG mode, unless that was just done, or no container has it open: to ask would start it. */
void km_gpu_refresh(struct km_engine *engine, u32 gpu);
/* cards() of the core's callbacks: asks these cards at once, also such as are started for it. Under the control lock. */
void km_cards_look(void *ctx, u32 gpus);
/* Have the core compare what the cards say with what is charged; those that a container has open are asked. */
void km_gpus_look(struct km_engine *engine);
/* Have it know who was at work, where nothing else tells. Returns ns until the next time. */
u64 km_gpus_sample(struct km_engine *engine);

/* --- levers.c: the driver's levers, for turns.c alone --- */

int km_levers_init(void);
void km_levers_exit(void);
/* Set gates and time slices of a GPU that are due. -EAGAIN: gates are left, 1: time slices are; again soon. Others: later. */
int km_levers_pull(struct km_engine *engine, u32 gpu);
/* Let go of a card whose turns are over, and of the driver with the last one. */
void km_levers_close(struct km_engine *engine, u32 gpu);
/* Let go of the driver, unless a card is held. */
void km_levers_rest(void);

/* --- turns.c: GPU time --- */

int km_turns_init(void);
void km_turns_exit(void);
/* There is an engine again. */
void km_turns_begin(void);
/* There will be none: set what its core still wants, and let go of the driver. Under the control lock. */
void km_turns_end(struct km_engine *engine);
/* For the core, see cgpu_ops; also when samples have come. Any context that may sleep or not. */
void km_turns_due(void *ctx, u32 gpu);
/* Wait until all that is due by now on a GPU has been done, or the task is killed. Without the engine. */
void km_turns_await(u32 gpu);
/* Whether GPU time is to be had from samples. */
bool km_turns_wants_samples(u32 gpu);

/* --- drift.c --- */

/* Containers may have come: look at the cards, as long as there are any. */
void km_drift_start(void);
void km_drift_exit(void);

/* --- tree.c: /proc/cgpu_km --- */

int km_tree_init(void);
void km_tree_exit(void);
/* Make the files what the registry says. Under the control lock. */
int km_tree_sync(struct km_engine *engine);

/* --- processes.c: for the core, see cgpu_ops --- */

s32 km_process_of(void *ctx, s32 number);

/* --- register.c: inst_ctl --- */

int km_inst_ctl(const char *text, size_t bytes);
/* For the core: see cgpu_ops. */
int km_cgroup_of(void *ctx, s32 pid, char *path, size_t bytes);

/* --- reclaim.c --- */

void km_reclaim_exit(void);
/* Containers may have come: look after them from now on. */
void km_reclaim_start(void);
void km_orphans_wait(void *ctx);

#endif
