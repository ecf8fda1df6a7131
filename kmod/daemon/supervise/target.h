/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptor inside of a call that exports or imports. It is copied once, before the call is judged, and the driver is
 * given that copy: what another thread makes of the number meanwhile changes nothing.
 */
#ifndef CGPUD_TARGET_H
#define CGPUD_TARGET_H

#include "engine.h"
#include "task.h"

/* 1 when what was looked at is the driver's control node. */
int target_is_control_node(struct cgpud *d, const struct identity *identity);
/* Look at call->descriptor for the core. 0, or the negative errno with which the call must fail; -ENOSPC: no more files
 * can be watched. */
int target_find(struct cgpud *d, struct in_flight *e, struct task *task);
/* What becomes of a call when target_find() said -ENOSPC. */
enum cgpu_verdict target_no_room(struct cgpud *d, struct in_flight *e);
/* Put the number of our copy, or of the caller's own descriptor again, where the driver looks for it. */
void target_put(const struct nv_abi *abi, struct in_flight *e, int descriptor);
/* Let go of our copy: its close may be the last one. */
void target_drop(struct task *task);
/* 1: an export. The same bytes may mean another file by now. */
int target_is_export(const struct nv_abi *abi, const struct in_flight *e);
/* 1: an export that failed because something was exported on the file before. */
int target_is_taken(const struct nv_abi *abi, const struct in_flight *e);

#endif
