/* SPDX-License-Identifier: GPL-2.0 */
/* Files of the driver that a container's tasks have opened. */
#ifndef CGPU_KM_OPENED_FILES_H
#define CGPU_KM_OPENED_FILES_H

#include "probes/probe.h"

struct file;
struct inode;

/* Run the open() that a probe was put on, and note the file where the task is in a container. found: what
 * km_identity_find() said of the task, or the error with which the call ends. */
int km_opened_file_open(const struct km_probe *probe, int found, struct inode *inode, struct file *file);
/* The probes of nvidia, under the names that the loaded version has; before they are attached. */
void km_opened_files_choose(void);
/* The driver is gone, or goes. */
void km_opened_files_clear(void);

extern struct km_probe km_probe_opened_close, km_probe_opened_ioctl;
extern struct km_probe km_probe_uvm_open, km_probe_uvm_close, km_probe_uvm_ioctl, km_probe_uvm_mmap;

#endif
