/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that UVM maps, and channels that it retains. UVM duplicates memory and channel groups, and keeps them until
 * the memory is unmapped or its range is freed, the channel is unregistered or its card's address space is, or the last
 * copy of the file is closed. The container itself runs a call that maps, as the driver asks for the client's own
 * process; so the engine takes a reference to the memory before. The engine runs calls that end a mapping, and sees
 * their answers.
 *
 * No event reports the last close of a file. So the engine keeps a copy of each file that has mappings: when its
 * process has ended or has closed it, the engine unmaps its mappings, also where other processes have the file, and
 * closes the copy.
 */
#ifndef CGPUD_EXTERNAL_H
#define CGPUD_EXTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "cgpu_core.h"

#define EXTERNAL_FILES CGPU_MAX_CLIENTS /* the core has a client for each, and shares them out */
#define EXTERNAL_SHARE 256 /* of one container: all are looked at to find one */
#define EXTERNAL_PLACE 256 /* mappings at one address: GPUs, and earlier mappings */
#define EXTERNAL_BUCKETS 65536
#define EXTERNAL_NONE 0xffffffffu
#define EXTERNAL_UUID 16
/* The container's own call maps, and nothing tells when it is done: within this time, in milliseconds. */
#define EXTERNAL_UNDERWAY 100

/* A process that has a file, and the number of its descriptor. */
struct external_user {
	s32 tid, tgid; /* tgid 0: nobody */
	s32 number;
	u32 started; /* look_mark() */
};

/* The following structures are in the memory file, and outlive the process. */
struct external_file {
	u32 live;
	u32 slot;
	u64 generation;
	struct external_user user[2]; /* the process that mapped first, and of all others the last one */
};

/* UVM's references: memory in a range; a range of its own, for other devices; a registered channel; its group. */
enum external_kind { EXTERNAL_MAPPED, EXTERNAL_P2P, EXTERNAL_CHANNEL, EXTERNAL_GROUP };

/* A channel or group has this and the channel's handle in the place of a range's start, as no address. */
#define EXTERNAL_CHANNELS (1ull << 63)

/* A mapping, at the index of the core's object that refers to its memory. */
struct external_map {
	u64 serial; /* of the core's reference; 0: none */
	u64 start, end;
	u8 uuid[EXTERNAL_UUID]; /* of the GPU that it is mapped on */
	u32 file;
	u32 kind; /* enum external_kind */
	u32 next; /* link: hash chain */
	u32 after, before; /* links: of the file */
	s32 tid; /* the thread that was last seen to map it so */
	u64 since; /* when, in milliseconds of the monotonic clock */
	u32 client, handle; /* the memory or channel, as it was named */
	u64 of; /* and which object that was to the core */
};

struct external_store {
	u32 used; /* places up to the highest that ever had a mapping */
	u32 spare;
	struct external_file file[EXTERNAL_FILES];
	struct external_map map[CGPU_MAX_OBJECTS];
};

struct external {
	pthread_mutex_t lock;
	struct external_store *store;
	u64 key; /* of the hash */
	u64 latest; /* serial of the newest mapping */
	struct external_map *lost; /* after recovery: whose reference is not in the ledger */
	u32 losts;
	atomic_uint top; /* places up to the highest that ever had a file */
	int fd[EXTERNAL_FILES]; /* our copies; -1: none, the engine before had one and we could not find it */
	u32 ending[EXTERNAL_FILES]; /* 1: it is being taken apart, and gets nothing new */
	u32 first[EXTERNAL_FILES]; /* its mappings */
	u32 hash[EXTERNAL_BUCKETS]; /* by file and start */
	atomic_uint files;
};

struct cgpud;

/* The container and process that make a call. */
struct external_caller {
	u32 slot;
	u64 generation;
	struct external_user user;
};

struct external_request {
	struct external_caller caller;
	enum external_kind kind; /* EXTERNAL_CHANNEL: and its group */
	u32 client, handle; /* the memory, or the channel */
	u64 start, end;
	u32 count, stride; /* of GPUs */
	const u8 *uuid; /* of the first one */
};

/* Use the state's store, also that of an engine before this one. -ENOMEM: its mappings stay in it. */
int external_open(struct cgpud *d, struct external_store *store);
/* Take up the copies of files of the engine before, and its mappings that are not in the ledger. Before any call is
 * answered. */
void external_take_up(struct cgpud *d);
void external_close(struct cgpud *d);
/* Memory is about to be mapped. *fd: a copy of the file, taken over when it becomes -1. 0; -EPERM: another container's
 * client; -ENOSPC; -ENODEV: the container is gone. */
int external_add(struct cgpud *d, const struct external_request *request, int *fd);
/* The number of a file; *latest: of its newest mapping. EXTERNAL_NONE: it has none. */
u32 external_find(struct cgpud *d, const struct external_caller *caller, int fd, u64 *latest);
/* Part or (uuid NULL) range that one call unmaps, or channels that it unregisters: that of a client, or (client 0) all
 * of a card. */
struct external_span {
	u64 start, end; /* end 0: not known */
	u32 channels; /* 1: these are meant */
	u32 client;
	const u8 *uuid;
	s32 tid; /* the thread that calls: its own mappings are done */
	u64 latest; /* the call does not mean newer mappings */
	u64 began; /* when the driver was asked, as since */
};
/* Milliseconds until no other thread can be in the midst of a mapping there. */
u32 external_wait(struct cgpud *d, u32 file, const struct external_span *span);
/* The driver has unmapped: drop mappings that were made before it was asked. */
void external_gone(struct cgpud *d, u32 file, const struct external_span *span);
/* Unmap mappings of processes that have ended or have closed the file: of a container, or (slot -1) of all. Waits for
 * the driver: for workers only. */
void external_sweep(struct cgpud *d, s64 slot);
/* Number of files whose processes have all ended; wakes workers, which take them apart. Any thread. */
u32 external_left(struct cgpud *d);

/* Kind of the object that the core is asked to refer to. */
enum cgpu_reference_to external_refers_to(u32 kind);

/* Between the files of external.h; with the lock held. */

/* Write a mapping into the place of its reference; it counts from then on. */
void external_link(struct external *x, const struct cgpu_reference *reference, const struct external_map *map);
/* Put the mapping at a place into its chains. */
void external_relink(struct external *x, u32 at);
void external_unlink(struct external *x, u32 at);
/* A mapping goes, with its reference. */
void external_drop(struct cgpud *d, u32 at);
/* The file has mappings, and is not about to be taken apart. */
int external_is_kept(const struct external *x, u32 file);
/* The file has none any more. Returns our copy, for the caller to close without the lock. */
int external_file_end(struct cgpud *d, u32 at);
/* Give the lock back; a file that has no mapping any more ends before. */
void external_unlock(struct cgpud *d, u32 file);
/* Milliseconds for which a mapping may be under way, seen from when the driver is asked. */
u32 external_underway(const struct external_map *map, const struct external_span *span);

#endif
