/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* RM clients, objects and video memory of the containers, and what of it is charged to whom. */
#ifndef CGPU_LEDGER_H
#define CGPU_LEDGER_H

#include "lib/text.h"
#include "state/state.h"

/* Handles of the records for the driver's own references. The driver gives out none of them by itself (rs_client.h,
 * RS_CLIENT_HANDLE_BASE), and a container that names one is refused. */
#define CORE_PIN_BASE 0xf0000000u
/* Handles of records of files that memory was exported on, each with the record's own number. No process has such a
 * number. */
#define CORE_EXPORTS_BASE 0xff000000u
/* Handles of records of UVM's files, where the transport numbers them. */
#define CORE_FILE_PIN_BASE 0xfe000000u
#define CORE_FILE_PINS CGPU_MAX_CLIENTS

static inline u32 core_file_pin(u32 file)
{
	return CORE_FILE_PIN_BASE | file;
}

static inline int core_is_file_pin(const struct core_client *client)
{
	return client->handle >= CORE_FILE_PIN_BASE && client->handle - CORE_FILE_PIN_BASE < CORE_FILE_PINS;
}

static inline u32 core_pin_handle(s32 tgid)
{
	return CORE_PIN_BASE | ((u32)tgid & 0x0fffffffu);
}

/* Whether a record is no client of the driver's, but stands for a process, or a file that has exports or maps. */
static inline int core_is_pin(const struct core_client *client)
{
	return client->handle >= CORE_PIN_BASE;
}

/* --- client.c --- */

u32 core_client_find(struct cgpu_state *state, u32 slot, u32 handle);
/* Head of the chain of clients (by next) that has those of a handle among others. */
u32 core_client_of_handle(const struct cgpu_state *state, u32 handle);
/* The record of the same client that belongs to another container, or to none any more. CORE_NONE. */
u32 core_client_of_other(const struct cgpu_state *state, u32 slot, u32 handle);
/* An object of a client that its container alone uses: while the object is there, no other container gets anything into the
 * client. CORE_NONE: another container may do so. */
u32 core_client_anchor(const struct cgpu_state *state, u32 client);
/* Find or make the record of a client. CORE_NONE when there is no room for one. */
u32 core_client_take(struct cgpu_state *state, u32 slot, u32 handle, s32 tgid);
/* Make one, where there is none. */
u32 core_client_make(struct cgpu_state *state, u32 slot, u32 handle, s32 tgid);
/* Drop a record that was made for a call that then failed. */
void core_client_settle(struct cgpu_state *state, u32 client);
/* Drop a client with everything it holds. */
void core_client_drop(struct cgpu_state *state, u32 client);
/* Drop the records of a process's client that a container has, or that are orphans (CORE_NONE), or all of them. Takes the lock.
 * 0 or -ENOENT. */
#define CORE_ANYWHERE 0xfffffffeu
int core_client_forget(struct cgpu_core *core, u32 slot, s32 tgid, u32 handle);
/* The client goes over to another process. */
void core_client_adopt(struct cgpu_state *state, u32 client, s32 tgid);
/* Note the file that a client lives on, which is known by now, or again. */
void core_client_on_file(struct cgpu_state *state, u32 client, u64 file);
/* Head of the chain of clients (by file_next) that has those of a file among others. */
u32 core_client_of_file(const struct cgpu_state *state, u64 file);
/* Head of the chain of clients (by tgid_next) that has those of a process among others. */
u32 core_client_of_process(const struct cgpu_state *state, s32 tgid);
/* Put a live record into the chains and sums. */
void core_client_link(struct cgpu_state *state, u32 client);

/* --- object.c --- */

/* An object that was noted by its place and serial, pending or not. NULL: it is gone. */
static inline struct core_object *core_object_noted(struct cgpu_state *state, u64 object, u64 serial)
{
	struct core_object *record = object < CGPU_MAX_OBJECTS ? &state->object[object] : NULL;

	if (record == NULL || record->serial != serial)
		return NULL;
	return record->live == CORE_LIVE || record->live == CORE_PENDING ? record : NULL;
}

/* Whether an object's call is under way. Recovery makes a pending record a live one without a handle: its call can
 * still be settled. */
static inline int core_object_under_way(const struct core_object *record)
{
	return record->live == CORE_PENDING || record->handle == 0;
}

u32 core_object_find(struct cgpu_state *state, u32 client, u32 handle);
/* The mapping at an address of a reservation. CORE_NONE. */
u32 core_mapping_find(const struct cgpu_state *state, u32 reservation, u64 address);
/* Make the record of an object whose driver call is about to run. CORE_NONE when there is no room. */
u32 core_object_begin(struct cgpu_state *state, u32 client, u32 kind, u32 gpu);
/* The call succeeded: the object has a handle and a parent. */
void core_object_confirm(struct cgpu_state *state, u32 object, u32 handle, u32 parent);
/* The object after this one, from the top of a client's tree to its leaves. CORE_NONE at the end. */
u32 core_object_after(const struct cgpu_state *state, u32 object);
/* Drop an object with everything below it. */
void core_object_drop(struct cgpu_state *state, u32 object);
/* Chains under parent and client; recovery uses them too. */
void core_object_link(struct cgpu_state *state, u32 object);
void core_object_hash_link(struct cgpu_state *state, u32 object);
/* Put a mapping among those of its memory, which ends it; memory without a record does not. */
void core_mapping_link(struct cgpu_state *state, u32 object);
/* The memory that a channel's record names is kept until the channel goes. */
void core_notifiers_link(struct cgpu_state *state, u32 channel);

/* --- memory.c --- */

/* Bytes that an instance may still take. */
u64 core_memory_room(const struct core_instance *instance);
/* Charge new memory to a pending object. CORE_NONE when there is no record left. */
u32 core_memory_begin(struct cgpu_state *state, u32 object, u32 instance, u64 bytes);
/* Mark memory as managed. */
void core_memory_mark_managed(struct cgpu_state *state, u32 memory);
/* The memory of a group or channel stands for numbers of the card, too. */
void core_memory_number(struct cgpu_state *state, u32 object, u32 group_ids, u32 channel_ids);
/* Make a pending object another reference to memory. */
void core_memory_share(struct cgpu_state *state, u32 object, u32 memory);
void core_memory_resize(struct cgpu_state *state, u32 memory, u64 bytes);
/* Drop a reference; the last one takes the charge with it. */
void core_memory_unref(struct cgpu_state *state, u32 object);
/* Make memory an orphan: no container is charged for it any more. */
void core_memory_orphan(struct cgpu_state *state, u32 memory);
/* Put a reference into the chain of its memory; the first one carries the charge. */
void core_memory_link(struct cgpu_state *state, u32 object);

/* --- pages.c: pages that the driver's own allocator has given out, where the transport counts them --- */

/* Whether pages are counted. */
int core_pages_counted(struct cgpu_core *core);
/* Ask the transport, before a decision or an answer about a GPU that is made with the same lock. */
void core_pages_look(struct cgpu_core *core, u32 gpu);
void core_pages_look_all(struct cgpu_core *core);
/* The same for one instance. */
void core_pages_look_at(struct cgpu_core *core, u32 gpu, struct core_instance *instance);
/* Write the lines of the tree about memory that removed containers have left on a GPU. */
void core_left_text(struct cgpu_core *core, u32 gpu, struct core_text *out);

/* --- sched/tsg_list.c: channel groups and channels by instance --- */

/* Where a group of this engine runs. */
u32 core_runlist_of(u32 engine);
/* Whether a container has as many groups on a GPU as are recorded. */
int core_tsg_list_full(struct cgpu_state *state, u32 gpu, u32 slot);
/* Whether a container has so many numbers of a GPU left. */
int core_tsg_ids_left(struct cgpu_state *state, u32 gpu, u32 slot, u32 group_ids, u32 channel_ids);
/* Numbers of a GPU that removed containers still have: of groups or of channels, whichever are more. */
u32 core_tsg_ids_orphaned(const struct core_gpu *gpu);
/* Whether that leaves the parts of so many places that were promised so many bytes. */
int core_tsg_ids_suffice(const struct core_gpu *gpu, u32 places, u64 bytes);
/* A group or channel is there, or goes; nothing happens for objects of other kinds. */
void core_tsg_link(struct cgpu_state *state, u32 object);
void core_tsg_unlink(struct cgpu_state *state, u32 object);
/* Whether the process of a group or channel was at work in the last reading of samples, or the one before. */
int core_tsg_active(const struct cgpu_state *state, const struct core_object *record);
/* Orphan the channels of an instance that goes. */
void core_tsg_list_orphan(struct cgpu_state *state, u32 gpu, u32 number);
/* The driver may have enabled or disabled a channel, or those of a group. */
void core_tsg_unknown(struct cgpu_state *state, u32 object);

/* --- process.c --- */

/* Begin to walk: under one lock with the calls of core_process_next() that follow. */
void core_process_walk(struct cgpu_state *state);
/* The next process of a container with memory on a GPU; *cursor starts at 0. -ENOENT at the end. */
int core_process_next(struct cgpu_state *state, u32 slot, u32 gpu, u32 *cursor, struct cgpu_process_charge *charge);

/* --- orphan.c --- */

/* The container goes. Its clients' memory stays charged, as nobody's, until the driver drops it. */
void core_clients_orphan(struct cgpu_state *state, u32 slot);
/* Drop an orphan that holds no memory. */
void core_orphan_settle(struct cgpu_state *state, u32 client);

/* --- fold.c: fewer records of removed containers --- */

/* Drop the objects that an orphan needs no record of, before a client becomes one: its container goes. */
void core_client_thin(struct cgpu_state *state, u32 client);
/* The container goes, and its clients are thinned: have one record of memory for each card in place of many, where orphans have
 * too many already. */
void core_container_fold(struct cgpu_state *state, u32 slot);
/* A reference was dropped whose record was folded into others. */
void core_folded_drop(struct cgpu_state *state, const struct cgpu_reference *reference);

/* --- file.c: memory that open files hold --- */

static inline int core_client_exports(const struct core_client *client)
{
	return client->handle >= CORE_EXPORTS_BASE;
}
/* Find a container's exports on a file: the objects of a client, whose handles are places in the file and 1.
 * CORE_NONE: there are none. others: whether another container has exports there, or one that was removed. */
u32 core_exports_find(const struct cgpu_state *state, u32 slot, u64 file, int *others);
/* Find or make the record of a container's exports on a file. CORE_NONE when there is no room for one. */
u32 core_exports_take(struct cgpu_state *state, u32 slot, u64 file, s32 tgid);
/* Drop the record of a file's exports if none is left. */
void core_exports_settle(struct cgpu_state *state, u32 client);

/* --- unaccounted.c --- */

/* Whether a card gives nothing more, because it is short of memory that nobody is charged for. */
int core_unaccounted_refuses(const struct cgpu_state *state, u32 gpu);

/* --- quota.c --- */

enum core_pool { CORE_POOL_CLIENTS, CORE_POOL_OBJECTS };
/* Whether a container may take one more record. Half of what orphans leave of each pool is split evenly among the
 * registered containers; each container may take from the other half. */
int core_quota_room(const struct cgpu_state *state, u32 slot, enum core_pool pool);
/* The part of each pool that orphans may have. */
#define CORE_ORPHANED_CLIENTS (CGPU_MAX_CLIENTS / 4)
#define CORE_ORPHANED_OBJECTS (CGPU_MAX_OBJECTS / 4)
/* Whether orphans have more than their part of a pool: then no container is registered. */
int core_quota_orphans_crowd(const struct cgpu_state *state);

#endif
