/* SPDX-License-Identifier: GPL-2.0 */
/* Open files of the driver, by what the driver knows them by. */
#ifndef CGPU_KM_FILES_H
#define CGPU_KM_FILES_H

#include "engine/engine.h"

struct km_file;
/* Forget all: the driver is gone, or goes. */
void km_files_clear(void);
/* The record of an open file, made at the first call on it. The caller is inside of a call on it, so it stays.
 * -ENOMEM; -EBADF: it is no file of the caller's. */
struct km_file *km_file_take(struct km_engine *engine, const void *nvfp);
enum cgpu_device km_file_device(const struct km_file *file);
/* Index of the GPU in the tree; CGPU_MAX_GPUS for one that is not there. */
u32 km_file_gpu(const struct km_file *file);
/* Whether a container has the node of a card open. */
bool km_file_opened(u32 minor);
/* Around a call that changes what a container holds: meanwhile the file is not linked. -EINTR: the task is killed. */
int km_file_use(struct km_file *file);
void km_file_leave(struct km_file *file);
/* Its number, for the core: no two files ever have the same. 0: clients used on it need not live on it. */
u64 km_file_number(const struct km_file *file);
/* Whether it is linked to another control file, and uses that one's clients. */
bool km_file_linked(const struct km_file *file);
/* The same of a file that the caller holds, whoever else has it open. */
struct km_file *km_file_take_open(struct file *file);
/* The number of the file itself, also where it is linked: what is exported on it lives on it. */
u64 km_file_own_number(const struct km_file *file);
/* A container exports on it. */
void km_file_note_export(const void *nvfp);
/* Whether one has, by what the driver knows the file by. */
bool km_file_exported(const void *nvfp);
/* Whether there is any such file. Any context. */
bool km_file_any_exported(void);
/* Around a call that links it. -EINTR: the task is killed. */
int km_file_link_begin(struct km_file *file);
void km_file_link_end(struct km_file *file, bool done);

#endif
