/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The core's state. Records refer to each other by index and never by address, so that the state can live in a memory
 * file that another process maps. A record is valid once its mark (`live`) is written, which happens last. Fields whose
 * comment says "link" or "sum" are rebuilt from the records by cgpu_state_recover().
 */
#ifndef CGPU_STATE_H
#define CGPU_STATE_H

#include "cgpu_round.h"
#include "sched/scheduler.h"
#include "state/counters.h"

#define CORE_MAGIC 0x3155504743454eull
/* Version of the layout below. A test builds a core with another version. */
#ifndef CORE_VERSION
#define CORE_VERSION 1u
#endif
#define CORE_NONE 0xffffffffu
/* In place of an instance number: memory of a passthrough GPU, which is charged to no instance. */
#define CORE_PASSTHROUGH 0xfffffffeu
#define CORE_LIVE 0x4c495645u /* mark of a valid record */
#define CORE_PENDING 0x50454e44u /* mark of an object whose driver call is still running */
#define CORE_CLIENT_BUCKETS 4096u
#define CORE_OBJECT_BUCKETS 262144u
/* The most that one memory record is charged, so that sums over all records cannot overflow. No card has as much. */
#define CORE_BYTES_MAX (1ull << 47)
#define CORE_SHORT_ID 12u /* a container's directory in the tree has so many characters of its id */

/* Keeps the store to a record's mark behind the stores to the record: the process may die in between. */
#define core_barrier() __asm__ __volatile__("" ::: "memory")

enum core_object_kind {
	CORE_OBJECT_DEVICE = 1, /* NV01_DEVICE_0, below the client */
	CORE_OBJECT_SUBDEVICE = 2, /* NV20_SUBDEVICE_0, below a device */
	CORE_OBJECT_MEMORY = 3, /* a reference to video memory: a handle, an export or a mapping by UVM */
	/* A VA space, below a device or subdevice. Channel groups and channels end with the one they were made for. */
	CORE_OBJECT_VA_SPACE = 4,
	CORE_OBJECT_CHANNEL_GROUP = 5, /* KEPLER_CHANNEL_GROUP_A, below a device or a VA space */
	CORE_OBJECT_CHANNEL = 6, /* in a channel group, or in none: then the driver makes a group for the channel */
	CORE_OBJECT_HOST = 7, /* a reference to memory of the host, below a device, a subdevice or the client */
	CORE_OBJECT_VIRTUAL = 8, /* a reservation of addresses, or a range of them, below its VA space or device */
	CORE_OBJECT_MAPPING =
		9, /* memory mapped at addresses, below these or a device: it has no handle in the driver */
	CORE_OBJECT_LAST = CORE_OBJECT_MAPPING,
};

/* Whether objects of a kind may be charged for video memory: groups and channels are, for what the driver allocates; VA spaces
 * and devices, which have one, for page tables. */
static inline int core_kind_is_charged(u32 kind)
{
	return kind == CORE_OBJECT_DEVICE || (kind >= CORE_OBJECT_MEMORY && kind <= CORE_OBJECT_CHANNEL);
}

/* Whether memory of a kind can be mapped at addresses of a card. */
static inline int core_kind_is_mapped(u32 kind)
{
	return kind == CORE_OBJECT_MEMORY || kind == CORE_OBJECT_HOST;
}

/* One container on one GPU. The index in core_gpu.instance is the instance number. */
struct core_instance {
	u32 live;
	u32 slot; /* the container's index in cgpu_state.container */
	u64 generation; /* the container's; without a live container of this generation the instance is not valid */
	struct cgpu_slice slice;
	u64 usage; /* nanoseconds of GPU time */
	u64 used; /* sum: bytes of the memory records that are charged to this instance */
	u64 managed; /* sum: the part of `used` for managed memory */
	/* By core_pages_look(): whether the driver's pages are counted, and the bytes given out for this instance. */
	u32 counted;
	u32 spare;
	u64 pages;
};

/* Bytes that an instance has. Where pages are counted they say it; managed memory, which UVM takes, is not among them. */
static inline u64 core_instance_has(const struct core_instance *instance)
{
	return instance->counted ? instance->pages + instance->managed : instance->used;
}

/*
 * A share's part of one GPU, promised whether or not a container uses it. Slot and generation name the container that
 * does, and are written before the container's mark: without a live container of this generation that has an instance
 * on the GPU, nobody uses the reservation.
 */
struct core_reservation {
	u32 live;
	u32 slot; /* the container's index in cgpu_state.container, or CORE_NONE */
	u64 generation; /* the container's */
	struct cgpu_slice slice;
	char id[CGPU_ID_BYTES]; /* of the share; no other reservation has it, on whichever GPU */
};

/* Memory of a card that is in use and charged to nobody: ledger/unaccounted.c. */
struct core_unaccounted {
	s64 bytes; /* unaccounted memory at the last reconciliation */
	u64 own; /* bytes that the card needs while no process uses it: the least that was seen */
	u32 own_known; /* 1: own has a value */
	u32 strangers; /* processes outside of containers that had memory of the card at the last reconciliation */
	u32 streak; /* plus 1 for each reconciliation beyond drift_tolerance, minus 1 for each within; bounded */
	u32 lasting; /* 1: the log says that drift_tolerance is exceeded, and does not yet say that this is over */
};

/* Runlists that the core distinguishes. All engines beyond them count as on the last one. */
#define CORE_RUNLISTS 16u
/* In place of an instance number: the TSG list of orphaned channels. */
#define CORE_ORPHANED CGPU_MAX_INST
/* Numbers that a runlist has for groups, and for channels (NV_RAMRL_ENTRY_TSG_TSGID_MAX, dev_ram.ref.txt). So many records of
 * groups a container has at most on one GPU, duplicates included. */
#define CORE_TSG_IDS 2048u
/* Numbers among these that the driver and nvidia-uvm have for their own work. */
#define CORE_TSG_IDS_OWN 128u

/* The channel groups and channels of one instance. */
struct core_tsg_list {
	u32 first; /* link */
	u32 channels, groups; /* sums */
	u32 group_ids, channel_ids; /* sums: of the memory records that are charged to it, or that orphans have */
	u64 granted; /* ns of the scheduler slot's `granted` that the instance's `usage` includes already */
	u32 closing; /* 1: the last decision disabled the list's channels, and some of them may still run */
	/* Both count GPFIFO_SCHEDULE calls made while the list is disabled, since it was last enabled or disabled. */
	u32 begun; /* how many groups and channels were put on a runlist for the first time */
	u32 again; /* 1: a group or channel was put on its runlist another time */
	u32 idle; /* 1: this high-priority instance was not seen at work, so its priority is off for now */
	/* Timeslice in us, by runlist; 0: leave timeslices as they are. */
	u32 slice[CORE_RUNLISTS]; /* of each active group */
	u32 idle_slice[CORE_RUNLISTS]; /* of each group that seems to be idle while others of the list are active */
};

/* Division of a GPU's time. Recovery resets the whole struct. Times are ns of ops->clock. */
struct core_share {
	/* The status by which the driver refused channel enable and disable, or timeslices, for good; 0: it did not. */
	u32 enable_fail, timeslices_fail;
	u32 enable_work, timeslices_work; /* 1: the driver has carried out such a control before */
	u32 paused; /* enum core_pause */
	u32 one_by_one; /* a batch of several channels failed: so many batches of one channel are still to come */
	u32 timeslices_applied; /* 1: no group is left whose timeslice is to be set */
	u32 timeslices_due; /* 1: compute timeslices again: groups, samples, a weight or the policy have changed */
	u32 sampled; /* number of the last reading of the driver's samples from which none were missing */
	u32 samples; /* 1: samples have been read */
	/* sum: groups and channels whose timeslice cannot be set. Until there are none, channel
	 * enable and disable divides the time. */
	u32 without_tsg;
	u64 stopped; /* up to this time, work that ran on after it was disabled is accounted for */
	u64 watched; /* since this time, runlist_changes are counted */
	u64 backoff; /* until this time, channel enable and disable divides the time, whatever the policy */
	u32 runlist_changes; /* changes of this GPU's runlists */
	u32 thrashing; /* 1: runlists changed too often, and `backoff` is not over */
	u32 opened; /* 1: channels were enabled since the last decision */
	u64 retry; /* at this time, channels are tried again that the driver did not enable or disable; 0: there are none */
	u32 asleep; /* 1: no TSG list has groups or channels, so nobody could use the card */
	/* Bit n is for TSG list n. Not fields of core_tsg_list, as each round reads all of them and changes two. */
	u32 open; /* by the last decision, the list's channels are enabled */
	u32 prioritised; /* the list's instance has asked for high priority */
	u32 dirty; /* in the driver, some channels of the list may not be as `open` says */
	struct cgpu_sched sched;
	struct core_tsg_list tsg_list[CGPU_MAX_INST + 1];
};

struct core_gpu {
	u32 live;
	u32 policy, max_inst, prio_ratio;
	struct cgpu_gpu_facts facts;
	u64 memfree; /* free bytes, as the driver last said */
	u64 orphaned; /* sum: bytes of memory that clients of removed containers hold */
	u64 orphaned_managed; /* sum: the part of `orphaned` for managed memory */
	/* By core_pages_look(): whether pages are counted, and the bytes that were given out for removed containers. */
	u32 counted;
	u32 spare;
	u64 left;
	struct core_unaccounted drift;
	u64 passthrough; /* sum: bytes of memory of containers for which this GPU is a passthrough GPU */
	u32 mig; /* 1: in MIG mode, as the driver last said */
	u32 lost; /* 1: the driver has lost the GPU: registry/lost.c */
	struct core_instance instance[CGPU_MAX_INST];
	struct core_share share;
};

/* Bytes of a GPU that removed containers have left behind. */
static inline u64 core_gpu_left(const struct core_gpu *gpu)
{
	return gpu->counted ? gpu->left + gpu->orphaned_managed : gpu->orphaned;
}

struct core_container {
	u32 live;
	s32 pid;
	u64 generation;
	/* Bit n: an unfinished registration changed the policy of GPU n. See cgpu_policy_for_weight(). */
	u32 moved;
	u32 clients, objects; /* sums: records of this container */
	u32 refused_class; /* the class or control of the last log line about a refused one; 0: none */
	u32 refused_escape; /* the same of escapes and UVM calls: their number plus 1 */
	u32 refused_lines; /* number of log lines about refused calls */
	u32 passthrough; /* bit n: GPU n of the tree is a passthrough GPU of this container */
	char id[CGPU_ID_BYTES];
	char cgroup[CGPU_CGROUP_BYTES];
};

/* An RM client that a container used. A handle that two containers used has two records, of which one is stale. */
struct core_client {
	u32 live;
	u32 slot; /* of the container; CORE_NONE: the client is an orphan, as its container was removed */
	u64 generation; /* of the container; 0 for an orphan */
	u32 handle;
	s32 tgid; /* the process that used the client first */
	u32 confirmed; /* 1: a call on the client has succeeded */
	u32 next; /* link: hash chain, or list of free records */
	u64 file; /* number, by the transport, of the open file that the client belongs to; 0: not known */
	u64 settled; /* cgpu_state.serial when a call on the client last succeeded */
	/* core_share.sampled when the client's process was last seen at work, or last made a group or channel. */
	u32 sampled[CGPU_MAX_GPUS];
	u32 tgid_next, tgid_before; /* links: hash chain by process */
	u32 file_next, file_before; /* links: hash chain by file */
	u32 first; /* link: the first of the client's objects without a parent on record */
	u32 objects; /* sum */
	u32 memories; /* sum: the client's references to memory */
	u32 started; /* start time, as the transport counts it, of a process with managed memory; 0: not known */
	/* An orphan whose memory was folded (ledger/fold.c): objects that it had, less the references dropped since;
	 * else 0. */
	u32 folded;
	u32 spare;
	u64 walk; /* number of the last walk over processes that came to this client's process */
	u64 charged[CGPU_MAX_GPUS]; /* sum: bytes of memory whose first reference is this client's */
	/* sum: the part of `charged` for groups and channels: an estimate, as the driver reports it for no process. */
	u64 estimated[CGPU_MAX_GPUS];
};

struct core_object {
	u32 live; /* CORE_LIVE or CORE_PENDING */
	u32 kind;
	u32 gpu; /* CORE_NONE: on no GPU, which is possible only for memory of the host */
	u32 client;
	u32 handle; /* 0 while pending */
	u32 parent; /* index of an object; CORE_NONE: the parent is the client, or an object without a record */
	/* Index of the memory record that the object refers to or is charged by; CORE_NONE: none, which of a VA space means
	 * that its page tables are not the driver's. */
	u32 memory;
	u32 runlist; /* of groups and channels */
	u32 tsg_list; /* sum: the TSG list that the group or channel is in: an instance, CORE_ORPHANED, or CORE_NONE */
	u32 tsg_after, tsg_before; /* links: neighbours in the TSG list */
	/* sum: 1: the timeslice cannot be set, as the channel has no group, or as setting failed for the group. */
	u32 without_tsg;
	/* 1: the group's timeslice could not be set. It is tried again after core_timeslices_compute(), and in the next
	 * walk over the group's client. Or the channel could not be enabled or disabled, which is tried again at core_share.retry. */
	u32 left;
	u32 driver_changes; /* how often the driver may have enabled or disabled the channel by itself */
	u32 scheduled; /* 1: the group or channel was put on its runlist before */
	u32 applied; /* in the driver: a channel's CORE_CHANNEL_*, or a group's timeslice in us; 0: not known */
	u32 next; /* link: hash chain, or list of free records */
	u32 child, after, before; /* links: first child, neighbours under the same parent */
	u32 alias, alias_before; /* links: neighbours among the references to the same memory */
	/* While pending: the next object that the same call makes. That record may be gone, so check its serial. */
	u32 batch;
	u64 serial; /* every object ever made has another serial */
	union {
		u64 address; /* of a mapping */
		/* Handles of error notifiers (call/notifier.c): of a channel, and of a group those that channels without
		 * notifiers of their own have. */
		u32 notifier[2];
	};
	u32 tables; /* page tables that a reservation or mapping takes, in units of CORE_TABLE */
	union {
		u32 pinned; /* of a reservation: 1: it has all of them for pages of 4 KiB, so mappings there take none */
		u32 userd; /* of a channel: handle of the memory that the card polls for work (call/notifier.c) */
	};
	/* For a mapping: the index of the memory; CORE_NONE: it has no record. For memory, link: its first mapping. */
	u32 mapped;
	u32 mapped_after, mapped_before; /* links: neighbours among the mappings of the same memory */
	u32 notifies; /* sum: for memory: by how many channels it is named as notifier or USERD */
};

enum core_channel_state { CORE_CHANNEL_UNKNOWN, CORE_CHANNEL_ENABLED, CORE_CHANNEL_DISABLED };
/*
 * Whether the driver could be asked to enable or disable channels. CORE_PAUSE: it could not, and is not asked until the
 * next decision. CORE_PAUSE_OVER: that decision was made, and the driver is asked again. In both no grant uses up time.
 */
enum core_pause { CORE_PAUSE_NONE, CORE_PAUSE, CORE_PAUSE_OVER };

/*
 * Video memory. It is charged once, however many references it has. A group or channel has a record, too, for its context and
 * for the numbers that it has of the card, which UVM can keep when the group or channel has gone.
 */
struct core_memory {
	u32 live;
	u32 gpu;
	u64 bytes;
	u32 group_ids, channel_ids; /* 1: with it goes the number of a group, of a channel */
	u32 instance; /* the charged instance on that GPU; CORE_NONE: orphaned clients have it; or CORE_PASSTHROUGH */
	u32 first; /* link: the first reference, whose client has the bytes in `charged`; or the next free record */
	u32 managed; /* 1: managed memory, whose pages are UVM's */
	u32 tables; /* sum: of a VA space: `tables` of the reservations and mappings in it */
};

struct cgpu_state {
	u64 magic;
	u64 bytes; /* size of this struct */
	u32 version;
	u32 tree_changes; /* counts changes after which a name in the tree may be new or gone */
	u64 generation; /* the last generation given to a container */
	u64 serial; /* the last serial given to an object or client */
	u64 key; /* of the hash functions; the transport chooses it */
	u64 walk; /* number of the last walk over processes */
	u64 default_memsize;
	struct cgpu_settings settings;
	u32 rounds_due; /* bit n: core_unlock() calls ops->round for GPU n */
	u32 limits_due; /* bit n: core_unlock() calls ops->pages_limit for the instances of GPU n */
	u32 containers, clients, objects; /* sums: records in use */
	u32 orphaned_clients, orphaned_objects; /* sums: of these, those of removed containers */
	u32 client_free, object_free, memory_free; /* links: the first free record of each array */
	u32 client_hash[CORE_CLIENT_BUCKETS]; /* links, by handle */
	u32 tgid_hash[CORE_CLIENT_BUCKETS]; /* links, by process */
	u32 file_hash[CORE_CLIENT_BUCKETS]; /* links, by file */
	u32 object_hash[CORE_OBJECT_BUCKETS]; /* links, by client and handle */
	u32 refused_writes; /* of the log: 24 bits: in which ten seconds; 8 bits: lines about refused writes in them */
	struct core_gpu gpu[CGPU_MAX_GPUS];
	struct core_container container[CGPU_MAX_CONTAINERS];
	struct core_client client[CGPU_MAX_CLIENTS];
	struct core_object object[CGPU_MAX_OBJECTS];
	struct core_memory memory[CGPU_MAX_OBJECTS];
	/* By GPU. A GPU has at most as many as it has places. */
	struct core_reservation reservation[CGPU_MAX_GPUS][CGPU_MAX_INST];
	struct core_stat stat;
};

static inline void core_lock(struct cgpu_core *core)
{
	core->ops->lock(core->ctx);
}

/* ledger/pages.c: tell the transport what its probes may let each container have. */
void core_pages_publish(struct cgpu_core *core);

static inline void core_unlock(struct cgpu_core *core)
{
	u32 due = core->state->rounds_due, gpu;

	if (core->state->limits_due)
		core_pages_publish(core);
	core->state->rounds_due = 0;
	for (gpu = 0; due && core->ops->round; gpu++, due >>= 1) {
		if (due & 1)
			core->ops->round(core->ctx, gpu);
	}
	core->ops->unlock(core->ctx);
}

/* Assert that the caller holds ops->lock. Only the tests' build of the core checks it. */
#ifdef CORE_ASSERT_LOCKED
void core_assert_locked(void);
#else
static inline void core_assert_locked(void)
{
}
#endif

/* The index of the lowest bit that is set. bits must not be 0. */
static inline u32 core_first(u32 bits)
{
	return (u32)__builtin_ctz(bits);
}

/* Empty all hash chains, and set the sums of clients and objects to 0. */
void core_links_clear(struct cgpu_state *state);
/* Put every record that is not in use into the free lists. used: objects and memory records from this index on are as
 * cgpu_state_init() left them. */
void core_free_lists(struct cgpu_state *state, u32 used);
/* An index from which on all object and all memory records are free. */
u32 core_objects_used(const struct cgpu_state *state);

/* The live container in a slot; NULL when the slot is empty or has a container of another generation. */
static inline struct core_container *core_container(struct cgpu_state *state, u32 slot, u64 generation)
{
	struct core_container *container;

	if (slot >= CGPU_MAX_CONTAINERS)
		return NULL;
	container = &state->container[slot];
	if (container->live != CORE_LIVE || container->generation != generation)
		return NULL;
	return container;
}

/* A GPU that the engine knows; NULL for any other index. */
static inline struct core_gpu *core_gpu(struct cgpu_state *state, u32 gpu)
{
	if (gpu >= CGPU_MAX_GPUS || state->gpu[gpu].live != CORE_LIVE)
		return NULL;
	return &state->gpu[gpu];
}

#endif
