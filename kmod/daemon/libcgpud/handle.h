/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Handles in calls that make or free an object. Where the caller leaves the handle of a new object to the
 * driver, we choose it: a successor of this process can then free exactly what a call in flight has made.
 */
#ifndef CGPUD_HANDLE_H
#define CGPUD_HANDLE_H

#include "in_flight.h"
#include "nv_abi.h"

/* Offsets in the top-level struct of a call that makes an object. */
struct handle_place {
	u32 client, handle, status;
	u32 flags; /* of the heap control, which looks at a handle only when told so; 0: there are none */
};

/* 1 when the call makes an object; sets place. */
int handle_place(const struct nv_abi *abi, const struct in_flight *e, struct handle_place *place);
/* 1 when the call frees one; sets the offset of its status. */
int handle_freed(const struct nv_abi *abi, const struct in_flight *e, u32 *status);
/* 1 when the caller has given the handle. */
int handle_given(const struct in_flight *e, const struct handle_place *place);
/* Put a handle of ours into the copy; 0 leaves it to the driver. */
void handle_put(struct in_flight *e, const struct handle_place *place, u32 handle);
/* The flag that handle_put() may have set is not the caller's. */
void handle_hide(struct in_flight *e, const struct handle_place *place);
/* A handle for a call whose caller gave none; never 0. */
u32 handle_next(void);
/* Client and handle that a call in flight may have made. 0: not known. */
int handle_wanted(const struct nv_abi *abi, const struct in_flight *e, u32 *client, u32 *handle);

#endif
