/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/* Inside of cgpu_call_begin() and cgpu_call_end(): decoding and deciding, under the lock. */
#ifndef CGPU_CALL_H
#define CGPU_CALL_H

#include "fields.h"
#include "ledger.h"
#include "page_size.h"
#include "registry.h"
#include "text.h"

/* What begin leaves for end in opaque[CORE_NOTE_OP]. */
enum core_op {
	CORE_OP_NONE,
	CORE_OP_PLAIN, /* executed, nothing to settle */
	CORE_OP_ALLOC, /* RM_ALLOC of a device, subdevice or memory */
	CORE_OP_HEAP_ALLOC,
	CORE_OP_DUP,
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
};

enum core_note {
	CORE_NOTE_OP,
	CORE_NOTE_OBJECT, /* the pending record, or the first of several */
	CORE_NOTE_SERIAL, /* of that record; for CORE_OP_ROOT the state's when the call began */
	CORE_NOTE_UNIT, /* charge unit; of exports and imports the number of pending records; see schedule() */
	CORE_NOTE_GPU, /* of exports and imports: see core_transfer_note() */
	CORE_NOTE_DONE, /* 1: the driver did it; undo has something to free. CORE_DONE_LIST and n: n of a list are */
	CORE_NOTE_HANDLES, /* client in the upper half, object in the lower */
	CORE_NOTE_UNDO, /* CORE_UNDO: a free that takes back */
};
#define CORE_UNDO 0x554e444full
#define CORE_DONE_LIST 2u

struct core_frame {
	struct cgpu_core *core;
	struct cgpu_state *state;
	const struct nv_abi *abi;
	struct cgpu_call *call;
	struct core_container *container;
	u32 status_at; /* where in top the driver's status sits */
	u32 status; /* for CGPU_ANSWER */
	u32 refused_class; /* or one that nobody judged; 0: none */
	u32 unknown_escape; /* its number and 1; 0: none */
	u32 unknown_control; /* 0: none */
	u32 unknown_uvm; /* its number and 1; 0: none */
};

/* What allocations have in common, wherever their fields sit. */
struct core_handles {
	u32 client, parent, object;
};

#define core_get16 get16
#define core_get32 get32
#define core_get64 get64
#define core_put32 put32
#define core_put64 put64

/* Classes that make a client. */
static inline int core_is_root(u32 class)
{
	return class == NV01_ROOT || class == NV01_ROOT_NON_PRIV || class == NV01_ROOT_CLIENT;
}

static inline enum cgpu_verdict core_answer(struct core_frame *frame, u32 status)
{
	frame->status = status;
	return CGPU_ANSWER;
}

/* Records of what has died may still take the room: the transport can look, and ask again. */
static inline enum cgpu_verdict core_no_records(struct core_frame *frame)
{
	frame->call->no_room = CGPU_NO_ROOM_LEFT;
	return core_answer(frame, NV_ERR_INSUFFICIENT_RESOURCES);
}

/* The record may be stale: the transport can look, and ask again. */
static inline enum cgpu_verdict core_not_yours(struct core_frame *frame, u32 client)
{
	frame->call->no_room = CGPU_NO_ROOM_CLAIM;
	frame->call->client = client;
	return core_answer(frame, NV_ERR_INSUFFICIENT_PERMISSIONS);
}

static inline enum cgpu_verdict core_refuse(struct core_frame *frame, s32 error)
{
	frame->call->error = error;
	return CGPU_REFUSE;
}

static inline enum cgpu_verdict core_execute(struct core_frame *frame, enum core_op op)
{
	frame->call->opaque[CORE_NOTE_OP] = op;
	return CGPU_EXECUTE;
}

/* --- call.c --- */

/* The driver limits: what allocates goes on in the caller, whose cgroup the driver charges. */
static inline int core_driver_limits(const struct core_frame *frame)
{
	return frame->core->ops->driver_used != NULL;
}

/* Ask for a nested buffer. 1: it was added and must be filled; 0: it is there; -EINVAL: it cannot be. */
int core_segment(struct core_frame *frame, u32 index, u32 parent, u32 pointer, u32 bytes);
/* What was judged of a class, by its number; NULL for one that nobody judged. */
const struct nv_class *core_class(u32 class);

/* --- call_escape.c --- */

/* Whether an escape goes on as it is. Those that the core judges are not asked for. */
int core_escape_passes(u32 nr);
/* What to log of a call that was refused for something unknown. Returns 0 when that was said already. */
int core_refusal_line(struct core_frame *frame, struct core_text *out);

/* --- call_naming.c --- */

/* What was judged of a control by its number: NV_CONTROL_*. */
u32 core_control_verdict(u32 command);
/* Whether a call of nvidia-uvm is one that its driver serves. The transport judges those that map memory. */
int core_uvm_is_known(u32 nr);
/* Those whose parameters name a client. Any other one is refused. */
enum cgpu_verdict core_begin_naming(struct core_frame *frame, u32 command);

/* --- call_pids.c --- */

/* Whether the numbers of a control can be told apart here. of_caller: the driver takes them for the caller's. */
int core_pids_judged(const struct core_frame *frame, u32 of_caller);
void core_rewrite_pids(struct core_frame *frame);
void core_rewrite_pid_info(struct core_frame *frame);

/* --- call_root.c --- */

enum cgpu_verdict core_begin_root(struct core_frame *frame);
void core_end_root(struct core_frame *frame);

/* --- call_sched.c: what divides GPU time --- */

/* Others go on to core_begin_naming(). */
enum cgpu_verdict core_begin_sched(struct core_frame *frame, u32 command);
/* A control's own parameters of a known size, copied in. As core_segment(); *verdict is set where it is not 0. */
int core_control_params(struct core_frame *frame, u32 bytes, enum cgpu_verdict *verdict);
void core_rewrite_policy(struct core_frame *frame);
void core_end_schedule(struct core_frame *frame, int result, int done);
void core_end_bind(struct core_frame *frame);

/* --- one file per escape --- */

enum cgpu_verdict core_begin_alloc(struct core_frame *frame);
enum cgpu_verdict core_begin_alloc_memory(struct core_frame *frame);
enum cgpu_verdict core_begin_alloc_object(struct core_frame *frame);
enum cgpu_verdict core_begin_heap(struct core_frame *frame);
enum cgpu_verdict core_begin_control(struct core_frame *frame);
enum cgpu_verdict core_begin_dup(struct core_frame *frame);
enum cgpu_verdict core_begin_share(struct core_frame *frame);
enum cgpu_verdict core_begin_free(struct core_frame *frame);

/* --- call_transfer.c: exports and imports --- */

/* Where the parameters of such a call have what. */
struct core_transfer {
	u32 bytes;
	u32 descriptor, objects, parent; /* parent: of imports */
	u32 most; /* objects that there is room for */
	u32 command;
	u32 count, index; /* how many, and the place in the file of the first */
	int imports;
};
/* Keep it for the end: from then on the driver has written into the parameters. */
void core_transfer_note(struct cgpu_call *call, const struct core_transfer *transfer);
/* 0, or -ENOENT: there is none. */
int core_transfer_noted(const struct nv_abi *abi, const struct cgpu_call *call, struct core_transfer *transfer);
/* The n-th pending record of a call, when at is the one before it; CORE_NONE: it is gone. */
u32 core_batch_at(const struct cgpu_state *state, const struct cgpu_call *call, u32 n, u32 before);
/* Make one more of them, a reference to the memory of source, and of its kind. -ENOSPC: all of them are gone. */
int core_batch_add(struct core_frame *frame, u32 client, u32 source);
void core_batch_drop(struct core_frame *frame);
enum cgpu_verdict core_begin_transfer(struct core_frame *frame, u32 command);

/* --- call_export.c, call_import.c --- */

enum cgpu_verdict core_begin_export(struct core_frame *frame, const struct core_transfer *transfer);
void core_end_export(struct core_frame *frame, int done);
enum cgpu_verdict core_begin_import(struct core_frame *frame, const struct core_transfer *transfer);
/* 1: it must be undone. */
int core_end_import(struct core_frame *frame, int done);
/* The next handle that undoing the call has to free. 0: there is none. */
u32 core_import_undo(const struct nv_abi *abi, struct cgpu_call *call);

/* --- call_claim.c --- */

/* The client that a call names and that another container has on record. 0: none. Sets status_at. */
u32 core_claimed(struct core_frame *frame);
/* Whether a call names a handle that only the engine's own records have. Sets status_at. */
int core_names_holder(struct core_frame *frame);

/* --- call_channel.c: what makes a context --- */

/* What an allocation has in common with others, and where the rest of it sits. */
struct core_alloc {
	struct core_handles handles;
	u32 class;
	u32 params_at; /* where the pointer to the parameters sits */
	u32 rights_at; /* NV_ABI_ABSENT in the short form */
	u32 flags;
};
/* Copy the parameters, then the rights where they are asked for. As core_segment(). */
int core_alloc_copy_in(struct core_frame *frame, const struct core_alloc *alloc, u32 bytes);
enum cgpu_verdict core_alloc_copy_in_verdict(struct core_frame *frame, int more);
enum cgpu_verdict core_begin_group(struct core_frame *frame, const struct core_alloc *alloc);
enum cgpu_verdict core_begin_channel(struct core_frame *frame, const struct core_alloc *alloc);
/* The record that an object ends with: its parent's, but for a group or channel that of its address space below that. */
u32 core_space_of(struct core_frame *frame, u32 object, u32 parent);

/* --- call_host.c: memory of the host --- */

enum cgpu_verdict core_begin_alloc_host(struct core_frame *frame, const struct core_alloc *alloc);
/* op: how the call is settled. */
enum cgpu_verdict core_begin_host(struct core_frame *frame, const struct core_handles *handles, enum core_op op);

/* --- call_reserve.c: records for what a call is about to make --- */

/* A device or subdevice of this client. CORE_NONE: the ledger does not know it. */
u32 core_parent_find(struct core_frame *frame, const struct core_handles *handles);
/* Make the pending object and note it. 0 or -ENOSPC. */
int core_reserve(struct core_frame *frame, const struct core_handles *handles, u32 kind, u32 gpu);
/* An allocation that the driver limits: it goes on, unless the card gives nothing more. */
enum cgpu_verdict core_leave_to_driver(struct core_frame *frame, u32 parent);
/* The same with memory, charged. CGPU_EXECUTE stands for done. */
enum cgpu_verdict core_reserve_memory(
	struct core_frame *frame, const struct core_handles *handles, u32 parent, const struct core_alloc_shape *shape);
/* The same with a channel group or channel: charged by the estimate where it makes a context of the graphics engine. */
enum cgpu_verdict core_reserve_context(
	struct core_frame *frame, const struct core_handles *handles, u32 parent, u32 kind, u32 engine);
/* The driver took a handle that the ledger still has: what had it is gone, and was not seen to go. */
void core_replace_stale(struct core_frame *frame, u32 client, u32 handle);
/* A call on the client of a pending record succeeded. 1: another container has that client on record. */
int core_client_done(struct core_frame *frame, u32 client);
/* The call failed: take the records back. */
void core_settle_failed(struct core_frame *frame);
/* It succeeded. shape is what the driver answered, NULL when no new memory came with it. 1: must be undone. */
int core_settle_done(
	struct core_frame *frame, const struct core_handles *handles, const struct core_alloc_shape *shape);

/* --- info.c: what a container may see --- */

void core_rewrite_info_list(struct core_frame *frame, u8 *list, u32 count);
void core_rewrite_regions(struct core_frame *frame, u8 *params);
void core_rewrite_heap_info(struct core_frame *frame);

/* --- call_shape.c: where the fields of an allocation sit --- */

void core_alloc_handles(const struct core_frame *frame, struct core_handles *handles);
/* Of any of the heap's functions that allocate. */
void core_heap_handles(const struct core_frame *frame, struct core_handles *handles);
void core_dup_handles(const struct core_frame *frame, struct core_handles *handles);
static inline u32 core_shape_location(const struct core_alloc_shape *shape)
{
	return (shape->attr >> NVOS32_ATTR_LOCATION_SHIFT) & NVOS32_ATTR_LOCATION_MASK;
}
void core_alloc_shape_read(const struct core_frame *frame, const u8 *params, struct core_alloc_shape *shape);
void core_heap_shape_read(const struct core_frame *frame, struct core_alloc_shape *shape);
/* Before the call: where the size is asked for as height and pitch, it is what the driver will make of them. */
void core_heap_shape_asked(const struct core_frame *frame, struct core_alloc_shape *shape);

#endif
