/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Inside of cgpu_call_plan(), cgpu_call_begin() and cgpu_call_end(): decoding and deciding, the latter two under the lock. */
#ifndef CGPU_CALL_H
#define CGPU_CALL_H

#include "fields.h"
#include "ledger/ledger.h"
#include "lib/page_size.h"
#include "registry/registry.h"
#include "lib/text.h"

struct core_call_context;

/*
 * A struct that an escape takes, told by its size. Its members but the last say where struct nv_abi has what: offsets of
 * offsets, as these differ from driver to driver. 0: the struct has no such field.
 */
struct core_escape_form {
	u32 bytes, status;
	u32 client, second; /* clients that the call names; the same where it names one */
	u32 class,
		made; /* of escapes that make objects, clients among them: the class, and the handle that is asked for */
	u32 root_names_none; /* 1: of a class that makes a client the call names none */
};
#define CORE_ABI(field) ((u32) __builtin_offsetof(struct nv_abi, field))

/* One escape of the driver. */
struct core_escape {
	u32 known; /* 0: there is no such row */
	enum cgpu_verdict (*begin)(struct core_call_context *context); /* NULL: the call goes on */
	void (*plan)(struct core_call_context *context); /* NULL: it needs nothing, and is never executed */
	u32 forms;
	const struct core_escape_form *form;
	u32 params; /* as CORE_ABI(): the pointer to parameters that the driver copies; 0: there is none */
};

/* Operation that begin leaves for end in opaque[CORE_NOTE_OP]. */
enum core_op {
	CORE_OP_NONE,
	CORE_OP_PLAIN, /* executed, nothing to settle */
	CORE_OP_ALLOC, /* RM_ALLOC of a device, subdevice or memory */
	CORE_OP_HEAP_ALLOC,
	CORE_OP_DUP,
	CORE_OP_DUP_UNCHARGED, /* duplicate of an object without a record */
	CORE_OP_FREE,
	CORE_OP_HEAP_FREE,
	CORE_OP_HEAP_INFO,
	CORE_OP_FB_INFO,
	CORE_OP_FB_INFO_V2,
	CORE_OP_FB_REGION,
	CORE_OP_PIDS,
	CORE_OP_PID_INFO,
	CORE_OP_ROOT, /* continued: a client is made */
	CORE_OP_EXPORT,
	CORE_OP_IMPORT,
	CORE_OP_POLICY, /* the compute policy */
	CORE_OP_BIND, /* a group or channel gets its engine */
	CORE_OP_SCHEDULE, /* a group or channel goes on its runlist, or off it */
	CORE_OP_MAP, /* memory is mapped at addresses of a card */
	CORE_OP_UNMAP,
	CORE_OPS,
};

enum core_note {
	CORE_NOTE_OP,
	CORE_NOTE_OBJECT, /* the pending record, or the first of several; for CORE_OP_DUP_UNCHARGED one that keeps others off */
	CORE_NOTE_SERIAL, /* of that record; for CORE_OP_ROOT the state's when the call began */
	CORE_NOTE_UNIT, /* charge unit; of exports and imports the number of pending records; see schedule() */
	CORE_NOTE_GPU, /* of exports and imports: see note_transfer() */
	CORE_NOTE_DONE, /* 1: the driver did it; undo has something to free. CORE_DONE_LIST and n: n of a list are */
	CORE_NOTE_HANDLES, /* client in the upper half, object in the lower */
	CORE_NOTE_UNDO, /* CORE_UNDO: a free that takes back */
};
#define CORE_UNDO 0x554e444full
#define CORE_DONE_LIST 2u

/* A buffer that a call needs, as struct cgpu_segment has it. */
struct core_buffer {
	u32 parent, pointer, bytes;
};

/* Fields that all allocations have, wherever they sit. */
struct core_handles {
	u32 client, parent, object;
};

/* Fields that both forms of an allocation have, and the places of those that differ. */
struct core_alloc {
	struct core_handles handles;
	u32 class;
	u32 params_at; /* where the pointer to the parameters sits */
	u32 rights_at; /* NV_ABI_ABSENT in the short form */
	u32 flags;
	const u8 *params; /* copy of the parameters of a class that is judged; NULL: the call has none */
};

/* A call's kind, by its own bytes, and its needs, as far as the buffers that are there tell them. */
struct core_plan {
	u32 may_run; /* 1: the judge may have the call run on its copies */
	u32 buffers; /* more than CGPU_MAX_SEGMENTS: the call cannot be served */
	struct core_buffer buffer[CGPU_MAX_SEGMENTS];
	u32 names_file; /* 1: the call is judged by the file of a descriptor */
	s32 descriptor;
	struct core_alloc alloc; /* of NV_ESC_RM_ALLOC; and its class, or NULL: it has no row */
	const struct nv_class *class;
	u32 control_verdict; /* of NV_ESC_RM_CONTROL; and its row, or NULL */
	const struct core_control *control;
};

struct core_call_context {
	struct cgpu_core *core;
	struct cgpu_state *state;
	const struct nv_abi *abi;
	struct cgpu_call *call;
	struct core_container *container;
	const struct core_escape_form *form;
	struct core_plan *plan; /* NULL: the call has been judged */
	const struct core_operation *operation; /* of a call that has ended */
	int result, done; /* what ioctl gave; whether the driver did it */
	u32 status_at; /* where in top the driver's status sits */
	u32 status; /* for CGPU_ANSWER */
	u32 refused_class; /* or one that nobody judged; 0: none */
	u32 unknown_escape; /* its number and 1; 0: none */
	u32 unknown_control; /* 0: none */
	u32 unknown_uvm; /* its number and 1; 0: none */
	u32 is_short; /* 1: it is refused for memory of this instance, and why */
	u32 short_gpu, short_instance;
	enum core_short short_why;
};

/* The offset that a place of struct nv_abi holds; and the number that the driver's struct has there. */
static inline u32 core_abi_at(const struct nv_abi *abi, u32 place)
{
	return get16((const u8 *)abi, place);
}

static inline u32 core_field(const struct core_call_context *context, const u8 *data, u32 place)
{
	return get32(data, core_abi_at(context->abi, place));
}

/* How a call that ran is settled. */
struct core_operation {
	int (*end)(struct core_call_context *context); /* 1: it must be undone */
	/* Read an allocation's handles, and the size that the driver answered. NULL: no memory comes with the call. */
	void (*handles)(const struct core_call_context *context, struct core_handles *handles);
	void (*shape)(const struct core_call_context *context, struct core_alloc_shape *shape);
	void (*rewrite)(struct core_call_context *context); /* rewrites answers about cards */
	void (*check)(struct core_call_context *context); /* checks rewritten answers, unlocked; or NULL */
};

/* One control that the core judges. */
struct core_control {
	u32 command;
	enum cgpu_verdict (*begin)(struct core_call_context *context);
	void (*plan)(struct core_call_context *context); /* NULL: it is judged without its parameters */
	enum core_op op; /* what is left for the end */
	u32 status; /* of those that are answered with nothing but a status */
	u32 bytes, client; /* as CORE_ABI(): the size of the parameters, and where they name a client */
	u32 of_caller; /* as CORE_ABI(): whether the driver takes numbers of processes for the caller's */
};

/* Whether the ledger has a client as one of the calling container's. */
static inline int core_is_own_client(const struct core_call_context *context, u32 client)
{
	return core_client_find(context->state, context->call->slot, client) != CORE_NONE;
}

/* An object of the calling container's, by its handles. CORE_NONE. */
static inline u32 core_own_object(const struct core_call_context *context, u32 client, u32 object)
{
	u32 found = core_client_find(context->state, context->call->slot, client);

	return core_object_find(context->state, found, object);
}

/* Whether a duplicate's parent is on record: parent.c says why. A client is its own object: where it is gone, the driver says so
 * before it looks for a parent. */
static inline int core_parent_is_known(const struct core_call_context *context, const struct core_handles *handles)
{
	return handles->parent == handles->client ||
		core_own_object(context, handles->client, handles->parent) != CORE_NONE;
}

/* The object that a control is about; CORE_NONE: none on record. */
static inline u32 core_subject(const struct core_call_context *context)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &context->abi->NVOS54_PARAMETERS;
	const u8 *top = context->call->top;

	return core_own_object(context, get32(top, at->hClient), get32(top, at->hObject));
}

/* Classes that make a client. */
static inline int core_is_root(u32 class)
{
	return class == NV01_ROOT || class == NV01_ROOT_NON_PRIV || class == NV01_ROOT_CLIENT;
}

static inline enum cgpu_verdict core_answer(struct core_call_context *context, u32 status)
{
	context->status = status;
	return CGPU_ANSWER;
}

/* An instance gets no memory. */
static inline enum cgpu_verdict core_short_of(
	struct core_call_context *context, u32 gpu, u32 number, enum core_short why)
{
	context->is_short = 1;
	context->short_gpu = gpu;
	context->short_instance = number;
	context->short_why = why;
	return core_answer(context, NV_ERR_NO_MEMORY);
}

/* Records of dead objects may still take the room: the transport can ask the driver, and have the call judged again. */
static inline enum cgpu_verdict core_no_records(struct core_call_context *context)
{
	context->call->no_room = CGPU_NO_ROOM_LEFT;
	return core_answer(context, NV_ERR_INSUFFICIENT_RESOURCES);
}

/* The record may be stale: the transport can ask the driver, and have the call judged again. */
static inline enum cgpu_verdict core_not_yours(struct core_call_context *context, u32 client)
{
	context->call->no_room = CGPU_NO_ROOM_OWNERSHIP;
	context->call->client = client;
	return core_answer(context, NV_ERR_INSUFFICIENT_PERMISSIONS);
}

static inline enum cgpu_verdict core_refuse(struct core_call_context *context, s32 error)
{
	context->call->error = error;
	return CGPU_REFUSE;
}

static inline enum cgpu_verdict core_execute(struct core_call_context *context, enum core_op op)
{
	context->call->opaque[CORE_NOTE_OP] = op;
	return CGPU_EXECUTE;
}

/* --- lookup.c --- */

/* The row with a number, which is its first member, of a table that is sorted by it. NULL: there is none. */
const void *core_find_row(const void *table, u32 count, size_t row_bytes, u32 number);
/* Row with the verdict on a class, by its number. NULL: the class was never judged. */
const struct nv_class *core_class(u32 class);
/* Verdict on a control, by its number: NV_CONTROL_*. */
u32 core_control_verdict(u32 command);

/* --- plan.c --- */

/* Whether the call has all that its plan names, and nothing else. */
int core_plan_is_met(const struct core_call_context *context);
/* Plan a buffer, and return its copy. NULL: it is not there yet. */
const u8 *core_plan_buffer(struct core_call_context *context, u32 parent, u32 pointer, u32 bytes);
/* Plan the parameters of a control, and return their copy. NULL: it is not there yet, or core_params_status() refuses them. */
const u8 *core_plan_params(struct core_call_context *context);
/* The answer to a control whose parameters cannot be judged. NV_OK: they can. */
u32 core_params_status(const struct core_call_context *context);
/* The parameters of an NV_ESC_RM_ALLOC that was judged by them. NULL: it has none. */
const u8 *core_alloc_judged_params(const struct core_call_context *context);

/* --- parent.c and notifier.c: questions that the driver is asked before a call runs --- */

/* As cgpu_call_question() and cgpu_call_answered(). */
int core_parent_question(const struct core_call_context *context, struct cgpu_call *question);
u32 core_parent_answered(struct core_call_context *context, const struct cgpu_call *question);
int core_notifier_question(struct core_call_context *context, u32 number, struct cgpu_call *question);
u32 core_notifier_answered(struct core_call_context *context, u32 number, const struct cgpu_call *question);
/* The driver has made a channel: note its notifiers. */
void core_notifiers_note(struct core_call_context *context);
/* Whether the driver would free memory that a channel still writes to. */
static inline int core_frees_notifier(struct core_call_context *context, u32 client, u32 handle)
{
	u32 object = core_own_object(context, client, handle);

	return object != CORE_NONE && context->state->object[object].notifies != 0;
}

/* --- addresses/space.c: VA spaces --- */

enum cgpu_verdict core_begin_alloc_space(struct core_call_context *context, const struct core_alloc *alloc);
/* The device that an object is below. */
u32 core_device_of(const struct cgpu_state *state, u32 object);
/* The VA space that a call on an object below `parent` names; 0 names its device's own, whose record is that of the device.
 * CORE_NONE: the call is answered by `verdict`. */
u32 core_space_find(struct core_call_context *context, u32 parent, u32 named, enum cgpu_verdict *verdict);

/* --- addresses/virtual.c: reservations of addresses --- */

enum cgpu_verdict core_begin_alloc_addresses(struct core_call_context *context, const struct core_alloc *alloc);
enum cgpu_verdict core_begin_alloc_range(struct core_call_context *context, const struct core_alloc *alloc);
enum cgpu_verdict core_begin_heap_addresses(struct core_call_context *context, const struct core_alloc_shape *shape);
/* If a reservation has come to be: note the page tables that the driver has taken for it. */
void core_addresses_made(struct core_call_context *context);
/* Charge a VA space for what a call fills the driver's pool of page tables with. CGPU_EXECUTE: there was room. */
enum cgpu_verdict core_tables_take(struct core_call_context *context, u32 space, u64 set_aside);
/* The same after the call, whether there is room or not: its handles may name other objects than when it was judged. */
void core_tables_taken(struct core_call_context *context, u32 space, u64 set_aside);

/* --- addresses/map.c: mappings at addresses --- */

enum cgpu_verdict core_begin_map(struct core_call_context *context);
enum cgpu_verdict core_begin_unmap(struct core_call_context *context);
int core_end_map(struct core_call_context *context);
int core_end_unmap(struct core_call_context *context);

/* --- escape.c --- */

/* The row of an escape; NULL: it is refused. */
const struct core_escape *core_escape(u32 nr);
/* Find the form that the call has, and where its status is. -EINVAL: it has none. */
int core_form_find(struct core_call_context *context);

/* --- refusal.c --- */

/* Write the log line about a call that was refused for something unknown. Returns 0 when the log has it already. */
int core_refusal_line(struct core_call_context *context, struct core_text *out);
/* Count a call that is refused. With the lock held. */
void core_refusal_count(struct core_call_context *context);

/* --- info.c: processes --- */

void core_rewrite_pids(struct core_call_context *context);
void core_rewrite_pid_info(struct core_call_context *context);
/* After that, without the lock: leave out processes that are not in the container. */
void core_check_pids(struct core_call_context *context);
void core_check_pid_info(struct core_call_context *context);

/* --- ownership.c: calls that make a client --- */

enum cgpu_verdict core_begin_root(struct core_call_context *context);
int core_end_root(struct core_call_context *context);

/* --- sched.c: controls that divide GPU time --- */

enum cgpu_verdict core_begin_set_timeslice(struct core_call_context *context);
enum cgpu_verdict core_begin_schedule(struct core_call_context *context);
enum cgpu_verdict core_begin_bind(struct core_call_context *context);
enum cgpu_verdict core_begin_get_policy(struct core_call_context *context);
int core_end_policy(struct core_call_context *context);
int core_end_schedule(struct core_call_context *context);
int core_end_bind(struct core_call_context *context);

/* --- one file per escape --- */

void core_plan_alloc(struct core_call_context *context);
enum cgpu_verdict core_begin_alloc(struct core_call_context *context);
enum cgpu_verdict core_begin_alloc_memory(struct core_call_context *context);
enum cgpu_verdict core_begin_alloc_object(struct core_call_context *context);
enum cgpu_verdict core_begin_heap(struct core_call_context *context);
void core_plan_control(struct core_call_context *context);
enum cgpu_verdict core_begin_control(struct core_call_context *context);
enum cgpu_verdict core_begin_dup(struct core_call_context *context);
int core_end_dup_uncharged(struct core_call_context *context);
enum cgpu_verdict core_begin_share(struct core_call_context *context);

/* --- transfer.c: exports and imports --- */

void core_plan_transfer(struct core_call_context *context);
enum cgpu_verdict core_begin_transfer(struct core_call_context *context);
int core_end_export(struct core_call_context *context);
int core_end_import(struct core_call_context *context);
/* Client and parent of the objects that a judged import is about to make. -ENOENT: it makes none. */
int core_import_handles(const struct nv_abi *abi, const struct cgpu_call *call, struct core_handles *handles);
/* The next handle that undoing the call has to free. 0: there is none. */
u32 core_import_undo(const struct nv_abi *abi, struct cgpu_call *call);

/* --- ownership.c --- */

/* The client that a call names and that another container has on record. 0: none. */
u32 core_owned_by_other(const struct core_call_context *context);
/* Whether a call names a handle that only the engine's own records have. */
int core_names_pin(const struct core_call_context *context);

/* --- heap.c: memory of the host --- */

enum cgpu_verdict core_begin_alloc_host(struct core_call_context *context, const struct core_alloc *alloc);
/* op: how the call is settled. */
enum cgpu_verdict core_begin_host(
	struct core_call_context *context, const struct core_handles *handles, enum core_op op);

/* --- reserve.c: records for what a call is about to make --- */

/* A device or subdevice of this client. CORE_NONE: the ledger does not know it. */
u32 core_parent_find(struct core_call_context *context, const struct core_handles *handles);
/* Whether the container may have so many bytes more of a GPU. CGPU_EXECUTE: it may, and *number is its instance, or
 * CORE_PASSTHROUGH. takes: the driver may take memory for it, whatever is charged. */
enum cgpu_verdict core_check_room(struct core_call_context *context, u32 gpu, int takes, u64 need, u32 *number);
/* Answer a call that gets no room with NV_ERR_NO_MEMORY, and note why. */
enum cgpu_verdict core_refuse_room(struct core_call_context *context, u32 gpu, u32 number);
/* Make the pending object and note it. 0 or -ENOSPC. */
int core_reserve(struct core_call_context *context, const struct core_handles *handles, u32 kind, u32 gpu);
/* The pending record of this call, if nothing has swept it away. */
u32 core_pending(struct core_call_context *context);
/* The same with a VA space, charged for its root unless its page tables are not the driver's. */
enum cgpu_verdict core_reserve_space(
	struct core_call_context *context, const struct core_handles *handles, u32 parent, int external);
/* The same with memory, charged. op: how the call is settled. */
enum cgpu_verdict core_reserve_memory(struct core_call_context *context, const struct core_handles *handles, u32 parent,
	const struct core_alloc_shape *shape, enum core_op op);
/* The same with a channel group or channel: charged by the estimate where it makes a context of the graphics engine. */
enum cgpu_verdict core_reserve_context(
	struct core_call_context *context, const struct core_handles *handles, u32 parent, u32 kind, u32 engine);
/* The same with a channel of a group, which has the group's context. */
enum cgpu_verdict core_reserve_channel(
	struct core_call_context *context, const struct core_handles *handles, u32 group);
/* Drop the record of a handle that the driver has given out again: the old object has gone, and its end was not
 * seen. */
void core_replace_stale(struct core_call_context *context, u32 client, u32 handle);
/* A call on the client of a pending record succeeded. 1: another container has that client on record. */
int core_client_done(struct core_call_context *context, u32 client);
/* The call failed: count it if the driver had no memory left. Before the records are taken back. */
void core_note_card_short(struct core_call_context *context);
/* The call failed: take the records back. */
void core_settle_failed(struct core_call_context *context);
/* Settle a call that succeeded. shape: size and attributes as the driver answered; NULL: no new memory came with the
 * call. 1: the call must be undone. */
int core_settle_done(
	struct core_call_context *context, const struct core_handles *handles, const struct core_alloc_shape *shape);

/* --- info.c: answers that a container may see --- */

void core_rewrite_fb_info(struct core_call_context *context);
void core_rewrite_fb_info_v2(struct core_call_context *context);
void core_rewrite_regions(struct core_call_context *context);
void core_rewrite_heap_info(struct core_call_context *context);

/* --- shape.c: where the fields of an allocation sit --- */

void core_alloc_handles(const struct core_call_context *context, struct core_handles *handles);
/* Read the handles of any of the heap's functions that allocate. */
void core_heap_handles(const struct core_call_context *context, struct core_handles *handles);
void core_dup_handles(const struct core_call_context *context, struct core_handles *handles);
static inline u32 core_shape_location(const struct core_alloc_shape *shape)
{
	return (shape->attr >> NVOS32_ATTR_LOCATION_SHIFT) & NVOS32_ATTR_LOCATION_MASK;
}
/* Read the request from the parameters of NV_ESC_RM_ALLOC, which are copied in; after the call, the driver's answer. */
void core_alloc_shape(const struct core_call_context *context, struct core_alloc_shape *shape);
void core_heap_shape_read(const struct core_call_context *context, struct core_alloc_shape *shape);
/* Before the call: a size that is asked for as height and pitch becomes the one that the driver will make of them. */
void core_heap_shape_asked(const struct core_call_context *context, struct core_alloc_shape *shape);

#endif
