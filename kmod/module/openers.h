/* SPDX-License-Identifier: GPL-2.0 */
/* Files of the driver that a container's tasks have opened. */
#ifndef CGPU_KM_OPENERS_H
#define CGPU_KM_OPENERS_H

#include "km.h"

struct file;
struct inode;

/* Run a driver's open() for a container's task, and note the file. -ENOMEM. */
int km_openers_open(int (*open)(struct inode *inode, struct file *file), struct inode *inode, struct file *file);
/* The probes of nvidia, under the names that the loaded version has; before they are attached. */
void km_openers_choose(void);
/* The driver is gone, or goes. */
void km_openers_clear(void);

extern struct km_probe km_probe_opened_close, km_probe_opened_ioctl;
extern struct km_probe km_probe_uvm_open, km_probe_uvm_close, km_probe_uvm_ioctl, km_probe_uvm_mmap;

#endif
