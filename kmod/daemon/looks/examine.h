/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Examines processes of containers. Each of these functions can have to wait for the container for as long as that
 * likes, and no signal ends the wait: a reader of an address space may be its last user, and then takes it apart, which
 * waits for the file systems of the files mapped there; the last close of a file waits for its file system, too; others
 * wait for a process that executes a program. So helpers alone call them.
 */
#ifndef CGPUD_EXAMINE_H
#define CGPUD_EXAMINE_H

#include "messages.h"

/* Identify a descriptor's file without asking its file system. 0 or a negative errno. */
int examine_file(s32 tid, int number, struct identity *identity);
/* Open a file below /proc/TID, also of another user's thread. Negative errno. */
int examine_open(s32 tid, const char *name, int flags);
void examine_stat(s32 tid, struct look_stat *stat);
/* Process id of a thread. -ESRCH when it has ended. */
s32 examine_tgid(s32 tid);
/* 1 when both have one descriptor table, 0 when not, negative errno when nobody can tell. */
int examine_same_files(s32 tid, s32 other);
/* 1 when a descriptor of a task leads to the same open file as ours, 0 when not, negative errno when nobody can tell. */
int examine_same_file(s32 tid, int number, int ours);
/* 1 when a process has that open file, by which number; 0 when not, negative errno when nobody can tell. */
int examine_has_file(s32 tgid, int ours, int *number);

/* Called for each file that a process has open. Returns 0 to go on. */
typedef int (*file_fn)(void *ctx, int number);
int examine_files(s32 tgid, file_fn each, void *ctx);
/* 1 when a file was opened through a mount that its process does not have; 0 also where that cannot be told. */
int examine_foreign(s32 tgid, int number);

/*
 * 1 when the filters of a process of a control group hold (filter.h); 0 when they do not, and then it is killed; -EACCES where
 * we have a filter ourselves, -ESRCH where it is not in the group, -ETIMEDOUT where it does not stand still. The
 * process stops for a moment; its waiting calls restart.
 */
int examine_filters(s32 pid, const char *cgroup);

/* 1 while the address space of an open /proc/PID/pagemap is in use. */
int examine_lives(int pagemap);
/* Called for each mapping, in the order of their addresses; end is the first byte after it. */
typedef void (*mapping_fn)(void *ctx, u64 start, u64 end);
/*
 * Walk the shared mappings of files whose offset is their own address: UVM takes its node's mappings at no other
 * (kernel-open/nvidia-uvm/uvm.c, uvm_mmap), and hardly anything else looks so. The inode in the list proves nothing, as
 * a file system chooses it. fd: of /proc/PID/maps. -ESRCH: the process has ended, or had no address space any more when
 * the file was opened.
 */
int examine_mappings(int fd, mapping_fn each, void *ctx);

#endif
