/* SPDX-License-Identifier: GPL-2.0-only */
/* A file of /proc with a text, to which a write does something: struct proc_ops NAME_ops. */
#ifndef PROC_TEXT_H
#define PROC_TEXT_H

#include <linux/proc_fs.h>
#include <linux/seq_file.h>

#define PROC_TEXT(name, show, write)                                   \
	static int open_##name(struct inode *inode, struct file *file) \
	{                                                              \
		return single_open(file, show, NULL);                  \
	}                                                              \
	static const struct proc_ops name##_ops = {                    \
		.proc_open = open_##name,                              \
		.proc_read = seq_read,                                 \
		.proc_lseek = seq_lseek,                               \
		.proc_release = single_release,                        \
		.proc_write = write,                                   \
	}

#endif
