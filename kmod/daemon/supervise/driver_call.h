/* SPDX-License-Identifier: Apache-2.0 */
/* One driver call: read, planned, fetched, judged by the core, run on the copies, settled, written back. */
#ifndef CGPUD_DRIVER_CALL_H
#define CGPUD_DRIVER_CALL_H

#include "engine.h"
#include "task.h"

/* Foresee the memory and copy that a command will need where the file is the driver's. */
struct call_wish foresee_call(const struct nv_abi *abi, u32 cmd, u64 address);
/* Read the caller's top-level struct into the call, out of its wrapper if it has one. 0, or the
 * negative errno with which the call must fail. */
int call_read(struct cgpud *d, struct in_flight *flight, const struct task *task, u32 cmd, u64 address);
/* Fetch what the core's plan of the call names: nested buffers, the file that a descriptor in them leads to, and for a call
 * that may be run a copy of its own descriptor, task->file. As above; -ENOSPC: no more files can be watched, and the call
 * may be fetched once more. */
int call_fetch(struct cgpud *d, struct in_flight *flight, struct task *task);
/* Have the core judge what was fetched. After EXECUTE the container's other calls that change objects wait until
 * call_execute() is through; UVM's do not. */
enum cgpu_verdict call_judge(struct cgpud *d, struct in_flight *flight, struct task *task);
/* Run it on task->file and settle the charges. */
void call_execute(struct cgpud *d, struct in_flight *flight, struct task *task);
/* Write the copies back to the caller: buffers 0 to count-1. 0 or -EFAULT. */
int call_write(const struct in_flight *flight, struct task *task, u32 count);
/* Free an executed call's new object; at most once. file: copy of the caller's descriptor. */
void call_undo(struct cgpud *d, struct in_flight *flight, int file);
/* The engine died while the driver may have run this call: free the object that it may have made. 0 when its handle
 * is not known, or the driver does not say that it is gone. */
u32 call_undo_unsure(struct cgpud *d, struct in_flight *flight, int file);

/*
 * Handles in calls that make or free an object. Where the caller leaves the handle of a new object to the
 * driver, we choose it: the process after this one can then free exactly what a call in flight has made.
 */

/* Offsets in the top-level struct of a call that makes an object. */
struct handle_place {
	u32 client, handle, status;
	u32 flags; /* of the heap control, which looks at a handle only when told so; 0: there are none */
};

/* 1 when the call makes an object; sets place. */
int handle_place(const struct nv_abi *abi, const struct in_flight *flight, struct handle_place *place);
/* 1 when the call frees one; sets the offset of its status. */
int handle_freed(const struct nv_abi *abi, const struct in_flight *flight, u32 *status);
/* Whether the driver says of a free that there is no such object. NV_ERR_INVALID_CLIENT is not among these: it also means
 * that the client is another open file's (rmclientValidate_IMPL, src/nvidia/src/kernel/rmapi/client.c). */
int status_is_not_found(u32 status);

#endif
