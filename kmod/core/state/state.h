/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the core remembers. Records point at each other by index, never by address, so that the whole
 * can live in a memory file. A record counts once its mark is written, which happens last; everything
 * marked "link" or "sum" is rebuilt from the records by cgpu_state_recover().
 */
#ifndef CGPU_STATE_H
#define CGPU_STATE_H

#include "cgpu_round.h"
#include "sched/scheduler.h"

#define CORE_MAGIC 0x3155504743454eull
/* Of the layout below. A test builds a core with another one. */
#ifndef CORE_VERSION
#define CORE_VERSION 7u
#endif
#define CORE_NONE 0xffffffffu
/* In place of an instance: memory of a GPU that its container has whole, which is charged to nobody. */
#define CORE_PASSTHROUGH 0xfffffffeu
#define CORE_LIVE 0x4c495645u /* mark of a record that counts */
#define CORE_PENDING 0x50454e44u /* mark of an object whose driver call is still running */
#define CORE_CLIENT_BUCKETS 4096u
#define CORE_OBJECT_BUCKETS 262144u
/* No record counts for more, so that sums over all records cannot overflow. No card comes near it. */
#define CORE_BYTES_MAX (1ull << 47)
#define CORE_SHORT_ID 12u /* characters of a long id that name its directory */

/* A store to a mark must not move before the stores to what it marks, also when the process dies. */
#define core_barrier() __asm__ __volatile__("" ::: "memory")

enum core_object_kind {
	CORE_OBJECT_DEVICE = 1, /* NV01_DEVICE_0, below the client */
	CORE_OBJECT_SUBDEVICE = 2, /* NV20_SUBDEVICE_0, below a device */
	CORE_OBJECT_MEMORY = 3, /* a reference to video memory */
	CORE_OBJECT_VA_SPACE =
		4, /* the address space of a channel group or channel, below a device: these end with it */
	CORE_OBJECT_CHANNEL_GROUP = 5, /* KEPLER_CHANNEL_GROUP_A, below a device or a space */
	CORE_OBJECT_CHANNEL = 6, /* a channel, in a group or outside of any: then the driver makes one */
	CORE_OBJECT_HOST = 7, /* a reference to memory of the host, below a device, a subdevice or the client */
	CORE_OBJECT_LAST = CORE_OBJECT_HOST,
};

/* Whether such an object may stand for video memory: of a group or channel, what the driver takes for it by itself. */
static inline int core_kind_is_charged(u32 kind)
{
	return kind == CORE_OBJECT_MEMORY || kind == CORE_OBJECT_CHANNEL_GROUP || kind == CORE_OBJECT_CHANNEL;
}

/* One container on one GPU; its place in the array is its instance number. */
struct core_instance {
	u32 live;
	u32 slot;
	u64 generation; /* of the container: counts only while that lives */
	u64 memsize; /* bytes */
	u64 usage; /* nanoseconds of GPU time */
	u32 weight;
	u32 highprio;
	u64 used; /* sum: bytes of its memory records */
};

/* What the card is short of and nobody is charged for: ledger/unaccounted.c. */
struct core_unaccounted {
	s64 bytes; /* at the last reconciliation */
	u64 own; /* bytes that the card needs without anybody, as far as was seen */
	u32 own_known;
	u32 strangers; /* processes outside of containers that had memory at the last reconciliation */
	u32 streak; /* reconciliations in a row beyond the tolerance; counted down again by those within it */
	u32 lasting; /* it was said in the log, and is not over yet */
};

/* Channel groups by where they run. Engines of other kinds share the last one. */
#define CORE_RUNLISTS 16u
/* In place of an instance: channels of removed containers. */
#define CORE_ORPHANED CGPU_MAX_INST
/* Groups of one container on one GPU; more than that no card has (NV_RAMRL_ENTRY_TSG_TSGID_MAX, dev_ram.ref.txt). */
#define CORE_GROUPS_MAX 2048u

/* The channel groups and channels of one instance. */
struct core_tsg_list {
	u32 first; /* link */
	u32 channels, groups; /* sums */
	u64 granted; /* of the scheduler's, what is in the instance's usage */
	u32 closing; /* 1: it was open until the last decision, and some of it may still run */
	u32 begun; /* how many were put there for the first time since */
	u32 again; /* 1: since its last grant something was put on its runlist again */
	u32 idle; /* 1: it asked for priority, and was not seen at work: it has none meanwhile */
	u32 slice[CORE_RUNLISTS]; /* us of each of its groups there; 0: as it is */
	u32 idle_slice[CORE_RUNLISTS]; /* the same of those that seem to be idle beside others */
};

/* How the time of a GPU is divided. All of it is made anew by recovery. */
struct core_share {
	u32 enable_fail, timeslices_fail; /* the driver's status that said so */
	u32 enable_work, timeslices_work; /* 1: the driver has done it before */
	u32 paused; /* enum core_pause */
	u32 one_by_one; /* so many batches have one channel: another one failed as a whole */
	u32 timeslices_applied; /* 1: all groups have theirs */
	u32 timeslices_due; /* 1: a number, a weight or the policy has changed since they were worked out */
	u32 sampled; /* number of the last reading of samples */
	u32 samples; /* 1: there was one */
	u32 without_tsg; /* sum: groups and channels whose timeslice cannot be set: channels are enabled and disabled meanwhile */
	u64 stopped; /* until when what has run beyond a decision is accounted for */
	u64 watched; /* since when changes of runlists are counted */
	u64 backoff; /* until then enabling and disabling channels divides the time, whatever the policy */
	u32 runlist_changes; /* how many there were */
	u32 thrashing; /* 1: that time is not over */
	u32 opened; /* 1: since the decision somebody was let run */
	u32 asleep; /* 1: nobody has channels, so that nobody could use the card */
	/* Bit n: of TSG list n. Bits, as each round asks all of them and changes two. */
	u32 open; /* its channels are enabled, as was decided last */
	u32 prioritised; /* it asked for high priority */
	u32 dirty; /* the driver was not told for all of its channels */
	struct cgpu_sched sched;
	struct core_tsg_list tsg_list[CGPU_MAX_INST + 1];
};

struct core_gpu {
	u32 live;
	u32 policy, max_inst, prio_ratio;
	struct cgpu_gpu_facts facts;
	u64 memfree; /* bytes */
	u64 orphaned; /* sum: bytes of memory that clients of removed containers hold */
	struct core_unaccounted drift;
	u64 passthrough; /* sum: bytes that containers hold which have it whole */
	u32 mig; /* 1: in MIG mode, as last asked from the driver */
	u32 spare;
	struct core_instance instance[CGPU_MAX_INST];
	struct core_share share;
};

struct core_container {
	u32 live;
	s32 pid;
	u64 generation;
	u32 moved; /* GPUs that an unfinished registration moved to policy 2 */
	u32 clients, objects; /* sums: records it holds */
	u32 refused_class, refused_escape; /* the last ones that were logged; the escape's number and 1 */
	u32 refused_lines; /* how many were */
	u32 passthrough; /* bit n: it has the GPU n of the tree whole */
	char id[CGPU_ID_BYTES];
	char cgroup[CGPU_CGROUP_BYTES];
};

/* An RM client that a container used. The same handle in two containers is two records, one of them stale. */
struct core_client {
	u32 live;
	u32 slot; /* CORE_NONE: an orphan, its container was removed */
	u64 generation; /* of the container; 0 for an orphan */
	u32 handle;
	s32 tgid; /* the process that used it first */
	u32 confirmed; /* a call on it has succeeded */
	u32 next; /* link: hash chain, or list of free records */
	u64 file; /* the open file it lives on, as the transport numbers them; 0: not known */
	u64 settled; /* the state's serial when a call on it last succeeded */
	u32 sampled
		[CGPU_MAX_GPUS]; /* the reading of samples that last saw its process at work, or before which it came */
	u32 tgid_next, tgid_before; /* links */
	u32 file_next, file_before; /* links */
	u32 first; /* link: its objects without a known parent */
	u32 objects; /* sum */
	u32 memories; /* sum: its references to memory */
	u32 started; /* of a process with managed memory: when it did, as the transport counts; 0: not known */
	u64 walk; /* the last walk over processes that has met it */
	u64 charged[CGPU_MAX_GPUS]; /* sum: bytes of the memory that is shown as its own */
	u64 estimated[CGPU_MAX_GPUS]; /* sum: of these, what the driver takes for contexts and tells of no process */
};

struct core_object {
	u32 live; /* or pending */
	u32 kind;
	u32 gpu; /* CORE_NONE: of none, which only memory of the host can be */
	u32 client;
	u32 handle; /* 0 while pending */
	u32 parent; /* an object, or CORE_NONE: the client itself, or something that is not kept here */
	u32 memory; /* CORE_NONE unless it refers to memory, or is charged for what the driver takes */
	u32 runlist; /* of groups and channels */
	u32 tsg_list; /* sum: whose group or channel it is: an instance, CORE_ORPHANED, or CORE_NONE */
	u32 tsg_after, tsg_before; /* links */
	u32 without_tsg; /* sum: 1: its timeslice cannot be set: a channel in no group, a group that nobody could reach */
	u32 left; /* 1: of a group that nobody could reach: not tried again until slices are worked out anew */
	u32 driver_changes; /* how often the driver may have enabled or disabled it by itself */
	u32 scheduled; /* 1: it was put on its runlist before */
	u32 applied; /* of a channel: CORE_CHANNEL_*; of a group: its timeslice in us; 0: not known */
	u32 next; /* link: hash chain, or list of free records */
	u32 child, after, before; /* links: first child, neighbours under the same parent */
	u32 alias, alias_before; /* links: neighbours among the references to the same memory */
	u32 batch; /* while pending: the next one that the same call makes, as a rule; its serial tells */
	u64 serial; /* differs for every object ever made */
};

enum core_channel_state { CORE_CHANNEL_UNKNOWN, CORE_CHANNEL_ENABLED, CORE_CHANNEL_DISABLED };
/* The driver could not be asked: until the next decision it is not tried again, and no time is granted until it was. */
enum core_pause { CORE_PAUSE_NONE, CORE_PAUSE, CORE_PAUSE_OVER };

/* Video memory, charged once however many references it has. */
struct core_memory {
	u32 live;
	u32 gpu;
	u64 bytes;
	u32 instance; /* number on that GPU; CORE_NONE: of orphans; CORE_PASSTHROUGH */
	u32 first; /* link: the reference whose client shows it, then others; or next free record */
};

struct cgpu_state {
	u64 magic;
	u64 bytes;
	u32 version;
	u32 tree_changes; /* goes up whenever a name in the tree may have come or gone */
	u64 generation; /* last one given out */
	u64 serial; /* last one given out */
	u64 key; /* of the hashes, from the transport */
	u64 walk; /* number of the last walk over processes */
	u64 default_memsize;
	struct cgpu_settings settings;
	u32 rounds_due; /* GPUs that ops->round is to be called for */
	u32 containers, clients, objects; /* sums: records in use */
	u32 client_free, object_free, memory_free; /* links */
	u32 client_hash[CORE_CLIENT_BUCKETS]; /* links, by handle */
	u32 tgid_hash[CORE_CLIENT_BUCKETS]; /* links, by process */
	u32 file_hash[CORE_CLIENT_BUCKETS]; /* links, by file */
	u32 object_hash[CORE_OBJECT_BUCKETS]; /* links, by client and handle */
	struct core_gpu gpu[CGPU_MAX_GPUS];
	struct core_container container[CGPU_MAX_CONTAINERS];
	struct core_client client[CGPU_MAX_CLIENTS];
	struct core_object object[CGPU_MAX_OBJECTS];
	struct core_memory memory[CGPU_MAX_OBJECTS];
};

static inline void core_lock(struct cgpu_core *core)
{
	core->ops->lock(core->ctx);
}

static inline void core_unlock(struct cgpu_core *core)
{
	u32 due = core->state->rounds_due, gpu;

	core->state->rounds_due = 0;
	for (gpu = 0; due && core->ops->round; gpu++, due >>= 1) {
		if (due & 1)
			core->ops->round(core->ctx, gpu);
	}
	core->ops->unlock(core->ctx);
}

/* The caller holds ops->lock. Only the tests' build of the core asks. */
#ifdef CORE_ASSERT_LOCKED
void core_assert_locked(void);
#else
static inline void core_assert_locked(void)
{
}
#endif

/* The number of the lowest bit. There must be one. */
static inline u32 core_first(u32 bits)
{
	return (u32)__builtin_ctz(bits);
}

/* Make every chain and sum empty. */
void core_links_clear(struct cgpu_state *state);
/* Put every record that does not count into the lists of free ones. used: objects and memory from there on are as after
 * cgpu_state_init(). */
void core_free_lists(struct cgpu_state *state, u32 used);
/* How many objects, and as many pieces of memory, hold all that count; the rest are free. */
u32 core_objects_used(const struct cgpu_state *state);

/* A live container, or NULL when the slot holds another or none. */
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

static inline struct core_gpu *core_gpu(struct cgpu_state *state, u32 gpu)
{
	if (gpu >= CGPU_MAX_GPUS || state->gpu[gpu].live != CORE_LIVE)
		return NULL;
	return &state->gpu[gpu];
}

#endif
