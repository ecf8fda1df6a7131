/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structures of the resource manager's calls and their parameters, filled in by the layouts of a driver version. No call is
 * made here: clients, cgpu-check-driver and the daemon each have their own way to make one.
 */
#ifndef CGPU_RM_STRUCTS_H
#define CGPU_RM_STRUCTS_H

#include <stdbool.h>
#include <stdint.h>

#include "fields.h"

/* The owner that a client names when it allocates from the heap. */
#define RM_OWNER 0xcafe0001u
/* Length of a line where memory is asked for by height and pitch. */
#define RM_LINE 4096u

/* Ways to ask for memory: RM_ALLOC in its long and its short form; the heap by size, in a range, by height and
 * pitch. */
enum via { VIA_RM64, VIA_RM21, VIA_HEAP, VIA_RANGE, VIA_TILED };

/* One ioctl: its number and its structure. */
struct rm_ioctl {
	uint32_t nr;
	uint16_t bytes;
	uint16_t status; /* where the driver writes its status */
	uint16_t handle; /* where the handle of a new object is; NV_ABI_ABSENT: none is made */
	uint8_t data[256];
};

/* RM_ALLOC. via: VIA_RM21 is the short form. handle 0: the driver chooses. */
struct rm_ioctl rm_alloc_ioctl(const struct nv_abi *abi, enum via via, uint32_t client, uint32_t parent,
	uint32_t handle, uint32_t class_id, const void *params, uint32_t bytes);
struct rm_ioctl rm_free_ioctl(const struct nv_abi *abi, uint32_t client, uint32_t parent, uint32_t handle);
struct rm_ioctl rm_control_ioctl(const struct nv_abi *abi, uint32_t client, uint32_t object, uint32_t command,
	const void *params, uint32_t bytes);
struct rm_ioctl rm_dup_ioctl(const struct nv_abi *abi, uint32_t client, uint32_t parent, uint32_t handle,
	uint32_t source_client, uint32_t source);

/* A function of VID_HEAP_CONTROL, NVOS32_FUNCTION_*. */
struct rm_ioctl rm_heap_ioctl(const struct nv_abi *abi, uint32_t client, uint32_t device, uint32_t function);
struct rm_ioctl rm_heap_free_ioctl(const struct nv_abi *abi, uint32_t client, uint32_t device, uint32_t handle);
/* Where one of the heap's ways to memory has its fields. */
struct rm_heap_form {
	uint32_t function;
	uint16_t owner, handle, type, flags, attr, attr2, size, offset, limit;
};
struct rm_heap_form rm_heap_form(const struct nv_abi *abi, enum via via);
/* Memory of the card. By height and pitch only whole lines can be had. */
struct rm_ioctl rm_heap_alloc_ioctl(const struct nv_abi *abi, enum via via, uint32_t client, uint32_t device,
	uint32_t handle, uint32_t attr, uint64_t size);

/* Parameters of RM_ALLOC for memory. */
void rm_memory_params(uint8_t *params, const struct nv_abi *abi, uint32_t attr, uint64_t size);
/* A control that exports objects to a descriptor, or imports them from there. */
struct rm_transfer {
	uint32_t command;
	uint16_t bytes;
	uint16_t first; /* where the handle of the first object is; those of a list follow it */
	uint8_t params[4096];
};
/* list 0: the control for one object; else that for a list of so many, at most RM_LIST. */
#define RM_LIST 64u
struct rm_transfer rm_export(const struct nv_abi *abi, uint32_t device, const uint32_t *objects, uint32_t list, int fd);
struct rm_transfer rm_import(const struct nv_abi *abi, uint32_t device, const uint32_t *handles, uint32_t list, int fd);
/* Asks for size and free bytes of a card's heap in a list of NV2080_CTRL_FB_INFO, and reads the answer. */
void rm_heap_sizes_ask(uint8_t *list, const struct nv_abi *abi);
void rm_heap_sizes_read(const uint8_t *list, const struct nv_abi *abi, uint64_t *total, uint64_t *free);

#endif
