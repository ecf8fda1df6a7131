/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The engine: the core in use, and the state that it works on.
 *
 * Locks, in the order in which they are taken; each is a mutex unless said otherwise:
 *
 *   cores_lock (cores.c)         a core comes or goes, one at a time
 *   km_control_lock (engine.c)   registration and removal of containers, cards, another core, loading of the driver
 *   rounds_lock (rounds.c)       the scheduling controls, and when each GPU is due
 *   the engine                   no lock, but a reference by km_engine_get(): another core may wait until all are put back
 *   settings_lock (settings.c)   the parameters' values, from their reading until the core has them
 *   directories_lock (tree/)     the directories of /proc/cgpu_km
 *   km_order.lock (order.c)      the driver gets one call of a container at a time of those that change what it holds
 *   km_file.link_lock (files.c)  rw_semaphore: read around such a call, written while the file is linked to another
 *   state_lock (engine.c)        the state; the core takes it by its callbacks
 *   driver_lock (loaded.c)       spinlock: which driver is loaded, for readers without the control lock
 *
 * Each other spinlock protects the table of its file; no lock is taken under it, and it is under all of these. Calls of
 * containers wait for rounds.c with no lock held and without the engine.
 */
#ifndef CGPU_KM_ENGINE_H
#define CGPU_KM_ENGINE_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/sched.h>

#include "cgpu_latency.h"
#include "interface.h"

#undef pr_fmt
#define pr_fmt(fmt) "cgpu_km: " fmt

#define CGPU_KM_VERSION_BYTES 32u

/* --- engine.c --- */

struct km_engine {
	struct cgpu_core core;
	struct cgpu_km_core *logic;
	u64 number; /* no two engines ever have the same */
	refcount_t users;
	bool pinned; /* holds a reference on the logic's module */
	bool ended; /* its state is no longer there */
};

extern struct mutex km_control_lock;

/* Take the core's callbacks beside locks, log and clock, which are the engine's own. Before a core can come. */
void km_engine_register(const struct cgpu_ops *others);
/* The engine, for as long as it is not put back; NULL when no core is loaded. May sleep while one core hands over to
 * another; NULL then also when the task is being killed. */
struct km_engine *km_engine_get(void);
/* The same for work that must be done even if the task is killed. NULL only when no core is loaded. */
struct km_engine *km_engine_get_surely(void);
/* NULL: nothing is put back. */
void km_engine_put(struct km_engine *engine);
/* Whether the core in use lets a call of nvidia-uvm through, by its number. Any context. */
bool km_engine_serves_uvm(u32 nr);
/* Keep the core's module while containers are registered, or shares reserved. Under the control lock. */
enum km_pin { KM_PIN_CONTAINERS = 1, KM_PIN_RESERVATIONS = 2 };
int km_engine_pin(enum km_pin pin);
void km_engine_unpin(enum km_pin pin);

/* For cores.c, under the control lock. */

/* NULL: no core is loaded. */
struct km_engine *engine_current(void);
struct km_engine *engine_make(struct cgpu_km_core *logic, struct cgpu_state *on);
/* Free an engine that has no users. */
void engine_release(struct km_engine *engine);
void engine_use(struct km_engine *engine);
/* Let no more calls in, and wait until those inside have come out. -EBUSY: they did not in time. Then resume. */
int engine_quiesce(struct km_engine *engine, unsigned int timeout_ms);
void engine_resume(void);
/* End an engine that has no task inside: one that has found it before, and is late, is not let in. */
void engine_end(struct km_engine *engine);
/* Leave an engine that is no longer in use. Calls that began in it end in it, where its module is held for them;
 * else it must be left before the module may go. */
void engine_leave(struct km_engine *engine);
/* Whether the core's module is held for containers or reservations. */
bool engine_is_pinned(void);

/* --- settings.c --- */

/* Parameters that stay as they were given at load. */
extern bool km_enforce, km_allow_unknown_driver, km_count_pages;
bool km_managed_memory(void);
unsigned int km_upgrade_timeout_ms(void);
/* Have the parameters count in a core. -EINVAL: one has a value that the core does not take. */
int settings_apply(struct km_engine *engine);
/* Whether the last engine ends: then it enforces nothing, whatever the parameters say. */
void settings_turn_off(bool off);

/* --- cores.c --- */

/* Whether another core is loaded. */
bool km_engine_has_candidate(void);
/* A write of 1 to the upgrade node. Under the control lock. */
int km_upgrade(void);
void km_cores_exit(void);

/* --- order.c: lets one at a time of a container's calls run that change its objects --- */

struct km_order {
	struct hlist_node node;
	u32 slot;
	u64 generation;
	u32 users;
	struct mutex lock;
};
/* The order of a registration, for as long as it is not put back. NULL: no memory. */
struct km_order *km_order_get(u32 slot, u64 generation);
void km_order_put(struct km_order *order);

/* --- latency.c: calls of containers, counted without locks --- */

/* Count a call as under way, and as no longer under way. Any processor. */
void km_latency_enter(void);
void km_latency_leave(void);
/* How many calls are under way, those included that wait for their caller and have put the engine back. */
long km_latency_inside(void);
/* Count a call's outcome, and its time. */
void km_latency_add(enum cgpu_outcome outcome, u64 ns);
/* Append this to the root's entry `stat`, which ends in a newline. Returns the new length. */
long km_latency_append(char *text, long length, size_t room);

/* --- reclaim.c --- */

/* Containers may have come: look after them from now on. */
void km_reclaim_start(void);
void km_reclaim_exit(void);
/* For the core, see cgpu_ops. */
void km_orphans_wait(void *ctx);

#endif
