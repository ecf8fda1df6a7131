/* SPDX-License-Identifier: GPL-2.0-only */
/* Open files of the driver, by the driver's own pointers to them. */
#ifndef CGPU_KM_FILES_H
#define CGPU_KM_FILES_H

#include <linux/rwsem.h>

#include "identity/identity.h"

struct km_file {
	struct hlist_node node;
	const void *nvfp; /* nv_file_private_t: the driver's own pointer to the file */
	enum cgpu_device device;
	u32 minor; /* of a card's node */
	u32 gpu; /* its index in the tree; CGPU_MAX_GPUS for one that is not there (yet) */
	u64 number; /* for the core: no two files ever have the same. What is exported on the file lives on it */
	/* Read around a call that changes a container's objects, written while the file is linked to another control
	 * file. */
	struct rw_semaphore link_lock;
	bool linked; /* it uses the other one's clients */
	bool exported; /* a container has exported memory on it */
	bool closing;
	struct rcu_head rcu;
};

/* Forget all: the driver is gone, or goes. */
void km_files_clear(void);
/* The record of an open file, made at the first call on it. The caller is inside of a call on it, so it stays.
 * -ENOMEM; -EBADF: it is no file of the caller's. */
struct km_file *km_file_take(struct km_engine *engine, const void *nvfp);
/* Whether a container has the node of a card open. */
bool km_file_opened(u32 minor);
/* The same of a file that the caller holds, whoever else has it open. */
struct km_file *km_file_take_open(struct file *file);
/* Note that a container exports on a file. */
void km_file_note_export(const void *nvfp);
/* Whether a container has exported on a file, by the driver's own pointer to it. */
bool km_file_exported(const void *nvfp);
/* Whether any file has exports on it. Any context. */
bool km_file_any_exported(void);

/* Whether it is a file of the driver's, and of its control node. */
bool km_is_driver_file(struct file *file);
bool km_is_control_file(struct file *file);

/* --- mappings/: files that containers' memory is mapped by --- */

/* The probe of the card's window, under the name that the loaded version has; before it is attached. */
void km_mappings_choose(void);
struct mapping;
struct km_task_call;
/* Allocate what a call needs that may ready a file, before it comes to the driver's locks. Returns false where there is no memory. */
bool km_mapping_reserve(struct km_task_call *task_call, u32 nr);
/* Whether the call tells that a mapping of the card's memory is at another address. That is noted, and answered here. */
bool km_mapping_moves(const struct nv_abi *abi, const struct cgpu_call *call);
/* The mapping that a call unmaps by its address, which becomes the one that the driver knows until km_mapping_unmapped(); NULL: it
 * unmaps none. */
struct mapping *km_mapping_unmaps(const struct nv_abi *abi, const struct cgpu_call *call, u64 *address);
void km_mapping_unmapped(const struct nv_abi *abi, const struct cgpu_call *call, struct mapping *mapping, u64 address);
/* The clients on a control file, by the driver's own pointer to it, are about to end. */
void km_mappings_file_closing(const void *client_file);
/* The driver is gone, or goes. */
void km_mappings_clear(void);

/* --- opened_files.c: files that a container's tasks have opened --- */

struct pt_regs;
/* Calls the open() that a probe was put on. */
typedef int km_open_fn(struct inode *inode, struct file *file);
/* Whether a container has opened it, and which. Any context. */
bool km_opened_file_owner(const struct file *file, struct km_identity *by);
/* For the probe of a driver's own close, whose second argument is the file: forgets the file, and does not want the call. */
bool km_opened_file_close_wants(struct pt_regs *regs);
/* Run a probed open(), and note the file where the task is in a container. found: what
 * km_identity_of_current() said of the task, or the error with which the call ends; by: the container. */
int km_opened_file_open(
	km_open_fn *open, int found, const struct km_identity *by, struct inode *inode, struct file *file);
/* The probes of nvidia, under the names that the loaded version has; before they are attached. */
void km_opened_files_choose(void);
/* The driver is gone, or goes. */
void km_opened_files_clear(void);

#endif
