/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The engine's core: registry of GPUs and containers, memory charges, the text of every node of the
 * tree, and what to do with one driver call. Freestanding: no allocation, no locks and no I/O of its
 * own. Kernel module, daemon, fuzzers and tests compile the same files.
 *
 * Locks. An engine has two kinds of its own, and never holds both:
 * - one for the calls of a container (cgpu_changes.h), from cgpu_call_begin() to cgpu_call_end();
 * - one for the scheduling rounds of a GPU (cgpu_round.h), from cgpu_round() to the last _done().
 * Within either, or with neither, ops->lock protects all of struct cgpu_state. Every function here that takes a struct cgpu_core
 * holds it for its own duration and never takes it twice; an operation that is called with it held calls none of them.
 * Functions of the core that take a struct cgpu_state are called with ops->lock held, or before anybody else knows the state
 * (cgpu_state_init(), cgpu_state_recover(), cgpu_state_take_over()). core_assert_locked() holds that in the tests.
 *
 * Return values are 0 or a negative errno unless said otherwise.
 */
#ifndef CGPU_CORE_H
#define CGPU_CORE_H

#include "cgpu_types.h"
#include "nv_abi.h"
#include "policies.h"
#include "slice_attributes.h"

#define CGPU_MAX_GPUS 32
#define CGPU_MAX_INST 25 /* containers on one GPU */
#define CGPU_MAX_CONTAINERS 512
#define CGPU_MAX_CLIENTS 4096
#define CGPU_MAX_OBJECTS 262144 /* more than a T4 has pages of 64 KiB */
#define CGPU_ID_BYTES 128 /* longest container id, with its NUL */
#define CGPU_CGROUP_BYTES 512
#define CGPU_INST_CTL_MAX 4096 /* longest accepted write to inst_ctl */
#define CGPU_TREE_TEXT_MAX 65536 /* longest content of a node */

/* State that must outlive the engine's process: indexes, no pointers, so that the next one can map it at another
 * address. */
struct cgpu_state;

/* The level of lines for the event log (registry/event.c), which no other line has. */
#define CGPU_LOG_EVENT 7

/* Pages that the driver has given out for one container and that are not freed. */
struct cgpu_pages {
	u64 generation; /* of the container; 0: the pages of several that were removed are one sum */
	u64 bytes;
	char id[CGPU_ID_BYTES]; /* empty where the generation is 0 */
};

struct cgpu_ops {
	void (*lock)(void *ctx);
	void (*unlock)(void *ctx);
	/* One line, no newline. level: 3 error, 4 warning, 6 info, as syslog(3), or CGPU_LOG_EVENT. */
	void (*log)(void *ctx, int level, const char *line);
	/* Write the cgroup path of a process, or, with an error, why it cannot be registered: one line for the user, or
	 * nothing. -ESRCH when there is no such process. Called without the lock held. */
	int (*cgroup_of)(void *ctx, s32 pid, char *path, size_t bytes);
	/* Memory that removed containers left behind is in the way of a registration or of more memsize: ask the
	 * driver about it (cgpu_orphan_next), then the core looks again. Called without the lock held. May be NULL. */
	void (*orphans)(void *ctx);
	/* The process, in the numbering of tgids, that the task whose call is judged knows by a number; 0: none. With or
	 * without the lock. NULL: calls are not run by the task itself, so its numbers mean nothing to the driver. */
	s32 (*process_of)(void *ctx, s32 number);
	/* Whether a process, in the numbering of tgids, is in a container now: a number that the ledger has may be another
	 * process's. Called without the lock held. NULL: the ledger alone tells. */
	int (*process_in)(void *ctx, s32 tgid, u32 slot, u64 generation);
	/* Containers are about to get slices of these GPUs (bit n: GPU n): ask the driver whether they are in MIG mode
	 * (cgpu_gpu_set_mig). Called without the lock held. May be NULL. */
	void (*cards)(void *ctx, u32 gpus);
	/* ns of a clock that does not go back, also over restarts of the engine. NULL: GPU time is not divided. */
	u64 (*clock)(void *ctx);
	/* The decision for a GPU is out of date: call cgpu_round() soon. With the lock held. May be NULL. */
	void (*round)(void *ctx, u32 gpu);
	/*
	 * The pages that the driver has given out of a GPU, by the container whose call took them: ledger/pages.c. All three with
	 * the lock held; NULL: this transport does not count them.
	 *
	 * Whether they are counted now, and the bytes of one container; generation 0 is nobody's.
	 */
	int (*pages)(void *ctx, u32 gpu, u64 generation, u64 *bytes);
	/* Walk the containers that have a limit or pages, removed ones too; *cursor starts at 0. -ENOENT at the end. */
	int (*pages_next)(void *ctx, u32 gpu, u32 *cursor, struct cgpu_pages *pages);
	/* From now on the driver gives a container no more than so many bytes. id NULL: the container was removed.
	 * Generation 0: all containers without a limit of their own. */
	void (*pages_limit)(void *ctx, u32 gpu, u64 generation, u64 bytes, const char *id);
};

/* Whose layouts a driver version has: its own of the table, its own of a row that the node was given, or those of the newest
 * older version. */
enum cgpu_abi_source { CGPU_ABI_TABLE, CGPU_ABI_ROW, CGPU_ABI_NEAREST };

struct cgpu_core {
	struct cgpu_state *state;
	const struct cgpu_ops *ops;
	void *ctx;
	const struct nv_abi *abi; /* layout of the driver that is loaded */
	u32 abi_source; /* enum cgpu_abi_source */
	/* The state of the engine's witness of pages, a word for the tree; empty: the engine has none. */
	char witness[16];
};

/* --- life of the state --- */

size_t cgpu_state_bytes(void);
/* Make a fresh state with the scheduler's defaults. key: random, and known to nobody else; it stays with the state. */
void cgpu_state_init(struct cgpu_state *state, u64 key);
/* Accept a state left by a process that may have died inside any function: check magic, version and
 * every bound, drop half-written records, rebuild indexes and sums. -EINVAL when it cannot be used. */
int cgpu_state_recover(struct cgpu_state *state);
/* The version of the state's layout that this core works on. */
u32 cgpu_state_version(void);
/* Take over the records of a state that another version of the core has made; no call may be under way in it.
 * -EPROTO: not from that version. */
int cgpu_state_convert(struct cgpu_state *to, const struct cgpu_state *from);
/* The same, and cgpu_state_recover() of what was taken over, in the time that the records in use take. to: as
 * cgpu_state_init() leaves it. -EINVAL: what it says cannot be. */
int cgpu_state_take_over(struct cgpu_state *to, const struct cgpu_state *from);
enum cgpu_state_kind { CGPU_STATE_FOREIGN, CGPU_STATE_OWN, CGPU_STATE_CONVERTS };
/* Whether a state has this core's layout, or one that it converts, or neither. Also while others work on it. */
enum cgpu_state_kind cgpu_state_converts(const struct cgpu_state *from);
/* After recovery, once every call that was under way has been dealt with: drop what is still charged for
 * one of them. */
void cgpu_recover_finish(struct cgpu_core *core);

/* Layouts of a driver version that were compared with its headers; NULL for any other version. */
const struct nv_abi *cgpu_abi_find(const char *version);
/* The newest known layouts not newer than the version, for a node that allows unknown drivers. */
const struct nv_abi *cgpu_abi_nearest(const char *version);
/* Version that these layouts are of; NULL when all are newer. */
const struct nv_abi_version *cgpu_abi_nearest_version(const char *version);

/*
 * Choose the layouts of a driver version; NULL: there are none. rows: lines for versions outside of the table, which
 * kmod/abi/rows has checked and written for this very build; others are passed over. room: for the layouts of a row. nearest:
 * take those of the newest older version where there are no others.
 */
const struct nv_abi *cgpu_abi_choose(
	const char *version, const char *rows, int nearest, struct nv_abi *room, enum cgpu_abi_source *source);

/* --- the engine's name and version, and settings --- */

struct cgpu_settings {
	char engine[16]; /* "cgpu_km" or "cgpud" */
	char version[32]; /* "0.1.0" */
	u32 major; /* character device major of the GPU nodes; 0 where they have none */
	u32 enforce; /* 0: count and report, refuse and rewrite nothing */
	u32 allow_zero_weight;
	u32 policy, max_inst, prio_ratio; /* start values of a GPU added later */
	u64 default_memsize; /* bytes */
	u64 context_memory; /* bytes that a context of the graphics engine is charged with */
	u64 drift_tolerance; /* bytes */
	u64 page_margin; /* bytes of pages beyond the slice, where pages are counted */
	u64 slice; /* ns of GPU time of one unit of weight; 0: the default */
	u32 drift_refuse; /* 1: with more drift than that nothing more is given of the card */
	u32 spare;
};
int cgpu_settings_apply(struct cgpu_core *core, const struct cgpu_settings *settings);

/* --- GPUs --- */

struct cgpu_gpu_facts {
	u32 index; /* directory name in the tree */
	u32 minor; /* of /dev/nvidia<minor> */
	u32 gpu_id; /* RM's id */
	u32 device_instance; /* deviceId of NV0080_ALLOC_PARAMETERS */
	u64 memtotal; /* bytes */
	char uuid[64]; /* "GPU-…" */
	char name[64];
};
/* Add a GPU, or after recovery find it again by uuid and update its facts. -ENOSPC, -EINVAL, -EEXIST. */
int cgpu_gpu_add(struct cgpu_core *core, const struct cgpu_gpu_facts *facts);
int cgpu_gpu_facts(struct cgpu_core *core, u32 gpu, struct cgpu_gpu_facts *facts);
/* The card's own free memory as last asked from the driver, in bytes. */
int cgpu_gpu_set_memfree(struct cgpu_core *core, u32 gpu, u64 bytes);
/* As cgpu_card_view.memfree: the driver has lost the card (NV_ERR_GPU_IS_LOST), and says nothing more of it. */
#define CGPU_CARD_LOST (~0ull)
/* The driver's figures for a card at one moment. */
struct cgpu_card_view {
	u64 memfree; /* bytes, or CGPU_CARD_LOST */
	/* Processes outside of containers that have memory there: the sum of their figures, and their number. */
	u64 outside;
	u32 strangers;
	u32 users; /* processes with memory, those of containers too */
};
/* Compare the driver's figures with the charges. Once in a second, or so; a card that cannot be asked has no view
 * (NULL). */
int cgpu_gpu_reconcile(struct cgpu_core *core, u32 gpu, const struct cgpu_card_view *view);
/* Whether the card is in MIG mode, as last asked from the driver: 1 or 0. New slices of it are refused then. */
int cgpu_gpu_set_mig(struct cgpu_core *core, u32 gpu, u32 mig);
/* Whether the driver has lost the card (NV_ERR_GPU_IS_LOST), as its last answer says: 1 or 0. New slices of it are refused then. */
int cgpu_gpu_set_lost(struct cgpu_core *core, u32 gpu, u32 lost);
/* Bytes that clients of removed containers still hold there. They are promised to nobody. */
u64 cgpu_gpu_orphaned(struct cgpu_core *core, u32 gpu);

/* Say in the tree in which state the witness of pages is. */
void cgpu_witness_set(struct cgpu_core *core, const char *word);

/* --- containers --- */

struct cgpu_container_info {
	char id[CGPU_ID_BYTES];
	char cgroup[CGPU_CGROUP_BYTES];
	s32 pid; /* init process in the host's pid namespace */
	u32 slot;
	u64 generation; /* differs for every registration, also of the same id and slot */
	u32 passthrough; /* bit n: it has GPU n of the tree whole */
	u32 spare;
};
/* Why a line for inst_ctl was refused: one line for the user, or nothing where no more than the errno is known. */
struct cgpu_refusal {
	char text[384];
};
/* One write to inst_ctl: one transaction. Grammar and errno: docs/tree.md. *why: set by a refusal, else empty;
 * why may be NULL. */
int cgpu_inst_ctl(struct cgpu_core *core, const char *text, size_t bytes, struct cgpu_refusal *why);
/* Find a registered container by its full id. -ENOENT. */
int cgpu_container_find(struct cgpu_core *core, const char *id, struct cgpu_container_info *info);
/* Walk: the first registered container at or after slot. -ENOENT at the end. */
int cgpu_container_next(struct cgpu_core *core, u32 slot, struct cgpu_container_info *info);
/* A container's promised memory on a GPU, and the part of it that is charged. */
struct cgpu_instance_info {
	u64 memsize, charged; /* bytes */
};
/* -ENOENT: the container is gone, or has no slice of this GPU. */
int cgpu_instance_info(struct cgpu_core *core, u32 slot, u64 generation, u32 gpu, struct cgpu_instance_info *info);
/* A share's reservation on a GPU. */
struct cgpu_reservation_info {
	char id[CGPU_ID_BYTES]; /* of the share */
	u32 gpu;
	u32 slot; /* of the container that uses it; CGPU_NO_SLOT: none does */
	u64 memsize; /* bytes */
};
/* Walk all reservations; *cursor starts at 0. -ENOENT at the end. */
int cgpu_reservation_next(struct cgpu_core *core, u32 *cursor, struct cgpu_reservation_info *info);
/* Remove a registration and its charges. Idempotent. Used for reclaim: acts only when the generation still
 * matches. RM clients that hold memory become orphans until the driver has dropped them: a descriptor may
 * have been handed to a process outside of the container. */
int cgpu_container_remove(struct cgpu_core *core, u32 slot, u64 generation);

/* --- the tree: paths are relative to its root, "" or "/" is the root itself --- */

struct cgpu_node {
	u32 directory; /* 1 or 0 */
	u32 mode; /* permission bits */
	u32 kind; /* of the core; opaque to transports, CGPU_NODE_KIND_* in tree/tree.h */
	s32 gpu, slot;
	u64 generation;
};
int cgpu_tree_lookup(struct cgpu_core *core, const char *path, struct cgpu_node *node);
/* The index-th name in a directory. -ENOENT past the last one. */
int cgpu_tree_name(struct cgpu_core *core, const struct cgpu_node *directory, u32 index, char *name, size_t bytes);
/* Differs from what it was before when a name may have come or gone. */
u32 cgpu_tree_changes(struct cgpu_core *core);
/* The node's whole text; returns its length. -EBADF for inst_ctl, -ENOENT when its container is gone. */
long cgpu_tree_read(struct cgpu_core *core, const struct cgpu_node *node, char *text, size_t bytes);
/* One write, whole. Returns 0 or errno: EINVAL, ERANGE is never used, EBUSY, EDQUOT, ENOMEM, EACCES. why: as of
 * cgpu_inst_ctl(); other nodes leave it as it is. */
int cgpu_tree_write(
	struct cgpu_core *core, const struct cgpu_node *node, const char *text, size_t bytes, struct cgpu_refusal *why);

/* --- driver calls --- */

enum cgpu_device {
	CGPU_DEVICE_CTL, /* /dev/nvidiactl */
	CGPU_DEVICE_GPU, /* /dev/nvidia<minor>, call->gpu says which */
	CGPU_DEVICE_UVM, /* /dev/nvidia-uvm, /dev/nvidia-uvm-tools */
	CGPU_DEVICE_OTHER, /* any other node of the driver: modeset, caps */
};

enum cgpu_verdict {
	CGPU_REFUSE, /* do not run it: ioctl result is -call->error */
	CGPU_CONTINUE, /* not ours: let the caller's own call go on; then cgpu_call_end, if its end is seen */
	CGPU_EXECUTE, /* run it on the copies, then cgpu_call_end, whatever came out */
	CGPU_ANSWER, /* do not run it: copy the top-level struct back, ioctl result 0 */
};

/* Needs of a call before it is judged, as cgpu_call_plan() has written them into it. */
enum cgpu_needs {
	CGPU_NEEDS_BUFFERS = 1, /* segments that have no data: fill it */
	CGPU_NEEDS_FILE = 2, /* look at call->descriptor, set call->target and call->found */
	CGPU_NEEDS_OWN_FILE = 4, /* the file it is made on: only then the verdict may be to execute */
};
#define CGPU_PLANS 2 /* in the first one's buffers there may be a pointer or descriptor more */

#define CGPU_MAX_SEGMENTS 3
#define CGPU_SEGMENT_MAX 16384 /* bytes of one nested buffer that the core ever asks for */

enum cgpu_no_room {
	CGPU_NO_ROOM_LEFT = 1, /* the limit, or the core's own records, are used up */
	CGPU_NO_ROOM_OWNERSHIP = 2, /* another container has the client on record: see cgpu_ownership_find() */
};

/* A transport may put this into cgpu_call.no_room before a call is judged, so that each refusal counts once: it asks the driver
 * where there is no room, and has the call judged once more. */
#define CGPU_CALL_LOOKS 0x100u

/* A buffer that a pointer inside the call names. */
struct cgpu_segment {
	u32 parent; /* 0: the pointer sits in the top-level struct; n: in segment n-1 */
	u32 pointer; /* its offset there */
	u32 bytes;
	u64 address; /* its value, as the caller gave it; never 0 */
	u8 *data; /* the transport's copy, at least bytes long */
};

struct cgpu_call {
	/* Set by the transport, which makes everything else zero before the first cgpu_call_plan(). */
	u32 slot; /* of the container */
	u64 generation;
	enum cgpu_device device;
	u32 gpu;
	s32 tgid; /* calling process, host's pid namespace */
	u64 file; /* the open file the call is made on: a number that is never used again. 0: not known */
	u32 nr; /* escape number, after unwrapping NV_ESC_IOCTL_XFER_CMD */
	u32 bytes; /* of top */
	u8 *top; /* the transport's copy of the top-level struct */
	/* 1: CGPU_NEEDS_FILE is understood. The driver must then be given that very file, whatever the descriptor leads to
	 * by then, and the end of the file told by cgpu_file_closed(). */
	u32 finds_files;
	/* Set by the core. */
	u32 segments;
	struct cgpu_segment segment[CGPU_MAX_SEGMENTS];
	s32 descriptor; /* the caller's, for CGPU_NEEDS_FILE */
	u32 found; /* set by the transport: it has looked */
	u64 target; /* set by the transport: the number, as in file, of the nvidiactl that it leads to; 0: of none */
	s32 error; /* positive errno for CGPU_REFUSE */
	/* Why the driver, when asked, may change CGPU_ANSWER: enum cgpu_no_room, or 0. Before: CGPU_CALL_LOOKS, or 0. */
	u32 no_room;
	u32 client; /* for CGPU_NO_ROOM_OWNERSHIP: the RM client that another container has on record */
	u32 round; /* after the end: 1 and the GPU that needs a scheduling round before the caller goes on; 0: none */
	u32 fetched; /* after the end: the driver did what it cannot do without the contents of segment 0 */
	u64 opaque[8]; /* the core's notes from begin to end, which another core of the same state version may settle */
};

/* Count a system call of a container that a supervisor was notified of, whatever it is about. Takes no lock. */
void cgpu_notified(struct cgpu_core *core);
/* Read a transfer wrapper: the inner number, size and address. -EINVAL where the driver says so. */
int cgpu_call_unwrap(const struct cgpu_core *core, const u8 *wrapper, u32 bytes, u32 *nr, u32 *inner, u64 *address);
/* Whether a container may make a call of nvidia-uvm, by its number. The transport judges those that map memory. Takes no lock; a
 * call that is not served gets its refusal, and counts, by cgpu_call_begin(). */
int cgpu_uvm_is_served(u32 nr);
/* Say what a call needs before it can be judged: enum cgpu_needs. The transport fetches that, and asks again while there are
 * buffers to be filled: CGPU_PLANS times at most. A plan depends on the call alone, and takes no lock. */
u32 cgpu_call_plan(struct cgpu_core *core, struct cgpu_call *call);
/* Judge a call that has all that its plan names, else it is refused, and reserve what an allocation may take. */
enum cgpu_verdict cgpu_call_begin(struct cgpu_core *core, struct cgpu_call *call);
/* Build into question (its top holds at least 64 bytes) what the driver must be asked, on the file of the call, before a call
 * runs that is to be executed: the question with a number, from 0 on. Returns 1 when there is such a question, else 0: the call
 * runs. The transport runs the question as it is, tells cgpu_call_answered(), and adds to the number what that returns; 0: the
 * call does not run, and its copies have the driver's answer already. A question's parameters are in its top. */
int cgpu_call_question(struct cgpu_core *core, const struct cgpu_call *call, u32 number, struct cgpu_call *question);
u32 cgpu_call_answered(struct cgpu_core *core, struct cgpu_call *call, u32 number, const struct cgpu_call *question);
/* After CGPU_EXECUTE, and after CGPU_CONTINUE where the transport sees what came out. result: what ioctl gave, 0 or
 * negative errno. Settles charges by the driver's own answer and rewrites sizes in the copies. Returns 1 when the
 * driver's answer breaks the limit: the transport must run the call that cgpu_call_undo builds; the copies already say
 * out of memory. */
int cgpu_call_end(struct cgpu_core *core, struct cgpu_call *call, int result);
/* Build into undo (its top holds at least 64 bytes) the NV_ESC_RM_FREE that takes back what an executed
 * and ended call allocated. Returns 1 when there is something to free, else 0, as it does from then on: the
 * handle may be another thread's. The transport runs it by cgpu_call_begin, ioctl, cgpu_call_end like any other. A call
 * that imported several objects gives one after the other: ask again until it returns 0. */
int cgpu_call_undo(struct cgpu_core *core, struct cgpu_call *call, struct cgpu_call *undo);

/* --- files and references: for a transport that sees their ends; else the driver alone tells, when asked --- */

/* The last close of a file is done: drop what its clients held, and what was exported on it, in whichever container. */
void cgpu_file_closed(struct cgpu_core *core, u64 file);
/* Walk the files that something is on record for, some more than once; *cursor starts at 0. -ENOENT at the end. */
int cgpu_file_next(struct cgpu_core *core, u32 *cursor, u64 *file);
/* File-release events are lost: what is on record for files stays charged for good. Returns how many records that
 * are. */
u32 cgpu_files_lost(struct cgpu_core *core);

/* Object of a reference: memory; or a channel, or its group. The context's memory and the numbers of the card stay
 * until channel and group are both let go. */
enum cgpu_reference_to { CGPU_REFERENCE_MEMORY, CGPU_REFERENCE_CHANNEL, CGPU_REFERENCE_GROUP };

struct cgpu_reference_request {
	u32 slot;
	u64 generation;
	s32 tgid; /* on whose behalf */
	enum cgpu_reference_to to;
	u32 client, handle; /* the memory or channel, as the process names it: for cgpu_reference_begin() */
	u64 of; /* serial of the object that an earlier reference had; 0: any object */
	u32 gpu; /* and these two for cgpu_reference_charge() */
	u64 bytes;
};
struct cgpu_reference {
	u32 object;
	u32 pin; /* 1 and the index of the record that has it; 0: not known, as of a file */
	u64 serial; /* 0: of nothing that is charged */
	u64 of; /* which object was named, for the same question later */
};
/* The driver is about to keep memory for itself: its charge stays from now on. -ENODEV: the container is gone;
 * -EPERM: another container's client, or a channel that is not on record; -ENOSPC. */
int cgpu_reference_begin(
	struct cgpu_core *core, const struct cgpu_reference_request *request, struct cgpu_reference *reference);
/*
 * For a transport that sees calls on files and not what the driver does: as cgpu_reference_begin(), kept by an open file until
 * it is dropped, or the file has ended. file: the transport's number of it, below CGPU_MAX_CLIENTS, and nobody else's
 * before cgpu_reference_file_ended().
 */
int cgpu_reference_on_file(struct cgpu_core *core, const struct cgpu_reference_request *request, u32 file,
	struct cgpu_reference *reference);
/* 1 when the process names the memory that the reference has, else 0. */
int cgpu_reference_names(
	struct cgpu_core *core, const struct cgpu_reference *reference, const struct cgpu_reference_request *request);
/* After recovery: take up a reference of that file, whether it had been confirmed or not. -ENOENT: there is none. */
int cgpu_reference_recover(struct cgpu_core *core, const struct cgpu_reference *reference, u32 file);
/* Walk the references of files, in all containers; *cursor starts at 0. -ENOENT at the end. */
int cgpu_reference_file_next(struct cgpu_core *core, u32 *cursor, struct cgpu_reference *reference);
/* Drop all references of a file, in whichever container. */
void cgpu_reference_file_ended(struct cgpu_core *core, u32 file);
/* The driver may take so much memory by itself, on behalf of a process: it is charged from now on, with nothing to
 * confirm. -ENODEV: the container is gone; -ENOENT: it has no slice of this GPU; -ENOMEM: its limit; -ENOSPC. */
int cgpu_reference_charge(
	struct cgpu_core *core, const struct cgpu_reference_request *request, struct cgpu_reference *reference);
/* The driver has given back a part of such a charge. */
void cgpu_reference_shrink(struct cgpu_core *core, const struct cgpu_reference *reference, u64 bytes);
/* The driver did it. -ENOENT: the container is gone, and the driver must let go again. */
int cgpu_reference_confirm(struct cgpu_core *core, const struct cgpu_reference *reference);
/* The driver has let go, or did not do it. Once for each. */
void cgpu_reference_drop(struct cgpu_core *core, const struct cgpu_reference *reference);

/*
 * Managed memory by the mappings of a process, for a transport that sees nothing else of it. It is charged on each GPU of
 * the container.
 */
struct cgpu_managed {
	u32 slot;
	u64 generation;
	s32 tgid;
	u32 limited; /* 1: only if the container's limits have room for what is new; 0: it is so */
	u64 bytes; /* of all its mappings */
	u32 started; /* tells the process from others with its number; 0: not known, or as before */
};
/* -ENODEV: the container is gone; -ENOMEM: its limit; -ENOSPC. Nothing has changed then. */
int cgpu_managed_set(struct cgpu_core *core, const struct cgpu_managed *wanted);
#define CGPU_ORPHANS (~0u) /* in place of a slot: of containers that were removed */
/* Walk the processes with managed memory; bytes is not set. Start with *cursor = 0. -ENOENT past the last one. */
int cgpu_managed_next(struct cgpu_core *core, u32 slot, u32 *cursor, struct cgpu_managed *found);
/* Managed memory that was found so has ended. */
void cgpu_managed_ended(struct cgpu_core *core, const struct cgpu_managed *found);

/* The GPUs that a container has a slice of: bit n for the GPU n of the tree. Passthrough GPUs are not among them. */
u32 cgpu_container_gpus(struct cgpu_core *core, u32 slot, u64 generation);
/* Whether a container may open a GPU's node: it has a slice of it, or the whole. */
int cgpu_minor_granted(struct cgpu_core *core, u32 slot, u64 generation, u32 minor);

/* --- processes and their clients --- */

struct cgpu_process_charge {
	s32 tgid;
	u32 gpu;
	u64 bytes;
	u64 reported; /* of these, what the driver's figure for the process has too: memory of its clients, and no estimate */
};
/* Walk charged (process, GPU) pairs of one container; *cursor starts at 0. -ENOENT at the end. */
int cgpu_process_next(struct cgpu_core *core, u32 slot, u32 *cursor, struct cgpu_process_charge *charge);
/* Walk the processes that have RM clients in a container, charged or not; *cursor starts at 0. -ENOENT at the
 * end. A client that the driver has dropped keeps its record until cgpu_client_gone, also without a charge. */
int cgpu_process_known(struct cgpu_core *core, u32 slot, u32 *cursor, s32 *tgid);
/* Walk the RM clients of one process; *cursor starts at 0. -ENOENT at the end. */
int cgpu_client_next(struct cgpu_core *core, s32 tgid, u32 *cursor, u32 *client);
/* The driver no longer knows this client: drop its objects. */
int cgpu_client_gone(struct cgpu_core *core, s32 tgid, u32 client);
/* Number of clients that removed containers have left behind, and of files and processes for which the driver keeps
 * memory. */
u32 cgpu_orphans(struct cgpu_core *core);
/* Walk the clients that removed containers left behind; *cursor starts at 0. -ENOENT at the end. */
int cgpu_orphan_next(struct cgpu_core *core, u32 *cursor, s32 *tgid, u32 *client);
/* As cgpu_client_gone, for an orphan only. */
int cgpu_orphan_gone(struct cgpu_core *core, s32 tgid, u32 client);

/*
 * An RM client belongs to the container whose call on it succeeded first, for as long as it has objects on
 * record. Another container's calls on it are answered as not permitted. But the record may be stale, and
 * the driver may have given the handle out again: then none of the record's objects is in the driver.
 */
#define CGPU_OWNERSHIP_HANDLES 64
struct cgpu_ownership {
	u32 slot; /* of the container; CGPU_NO_SLOT: it was removed */
	s32 tgid;
	u32 client;
	u32 handles; /* 0: none is known */
	u32 handle[CGPU_OWNERSHIP_HANDLES]; /* objects of it, those that others lie below */
};
#define CGPU_NO_SLOT 0xffffffffu
/* Record that keeps a container (slot) off a client. -ENOENT: there is none. */
int cgpu_ownership_find(struct cgpu_core *core, u32 slot, u32 client, struct cgpu_ownership *ownership);
/* Drop a stale record with all its objects. */
void cgpu_ownership_drop(struct cgpu_core *core, const struct cgpu_ownership *ownership);

#include "cgpu_changes.h"

#endif
