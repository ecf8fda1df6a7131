/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on UVM's node that map memory of clients or retain channels, or end that (uvm_ioctl.h). */
#ifndef CGPUD_UVM_H
#define CGPUD_UVM_H

#include "external.h"
#include "task.h"

/* Length of the struct of a call that matters here; 0: of another one, or none of this driver's. */
u32 uvm_bytes(const struct nv_abi *abi, u32 nr);
/* Whether uvm_judge() or uvm_execute() need a copy of the file. */
int uvm_needs_file(const struct cgpu_call *call);
/* The container may make the call; the call has its parameters. */
enum cgpu_verdict uvm_judge(struct cgpud *d, struct in_flight *e, struct task *task);
/* Run it on task->file. */
void uvm_execute(struct cgpud *d, struct in_flight *e, const struct task *task);
/* 1 when the answer to a call that was run again shows that it had been done before. */
int uvm_stands(const struct nv_abi *abi, const struct in_flight *e);
/* Unmap a mapping that a process has left: the driver's status, or negative errno. */
int uvm_take_away(const struct nv_abi *abi, int fd, const struct external_map *map, u32 *status);

#endif
