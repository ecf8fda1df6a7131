/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * How much of the card the page tables of a VA space take.
 *
 * 1. Before a call that reserves addresses is looked at, the driver fills its pool of pages for page tables (gvaspaceReserveMempool,
 *    src/nvidia/src/kernel/mem_mgr/gpu_vaspace.c): with tables for pages of 4 KiB whatever the call asks for, and with those for 64 KiB
 *    beside them where it leaves the size of a page open. The pool keeps that when the call fails. Free pages in it are
 *    reused, so a second reservation of the same size fills in only what the first one's tables took.
 * 2. Tables of a reservation are taken from the pool when it is made; with NVOS32_ALLOC_FLAGS_LAZY when memory is mapped there.
 * 3. Each mapping fills the pool by its own length first (serverInterMap_Prologue, src/nvidia/src/kernel/rmapi/mapping.c).
 *
 * So a space has taken, at the most, the tables that its reservations and mappings have, and those that the next one
 * fills in. That is charged as a peak until the space ends, as the driver gives the pool back no sooner.
 *
 * Compared in 515.43.04, 550.163.01 and 595.45.04. For 7 TiB core_tables_set_aside() is 15,091,245,056 bytes; 550.163.01 took
 * 15,091,236,864, in pieces of 64 KiB, of which the pool had one already.
 */
#ifndef CGPU_TABLES_H
#define CGPU_TABLES_H

#include "state/state.h"

#define CORE_TABLE 4096ull /* bytes of one page table or directory */

/* Tables of a sparse range: the driver marks whole entries of its directories, and has tables for the two ends alone
 * (mmuWalkSparsify, src/nvidia/src/libraries/mmu). */
#define CORE_TABLES_SPARSE 12u

/* The sizes of pages that a range of addresses has tables for. */
enum core_table_pages { CORE_TABLES_SMALL, CORE_TABLES_SMALL_AND_BIG, CORE_TABLES_BIG, CORE_TABLES_HUGE };

/* Bytes that the driver fills the pool with for a range of so many bytes. */
u64 core_tables_set_aside(u64 bytes, enum core_table_pages pages);
/* Tables and directories, in units of CORE_TABLE, that a range of so many bytes has at the most. */
u32 core_tables_of(u64 bytes, enum core_table_pages pages);

/* The record of the VA space that an object lies in: a VA space, or a device for the device's own. CORE_NONE. */
u32 core_tables_space(const struct cgpu_state *state, u32 object);
/* Whether a VA space has no page tables of the driver's: its maker has them, as UVM. */
int core_tables_external(const struct cgpu_state *state, u32 space);
/* Bytes that the space is charged once a call has filled the pool with so many bytes. */
u64 core_tables_peak(const struct cgpu_state *state, u32 space, u64 set_aside);
/* Charge that, if it is more than what the space is charged. -ENOSPC: there is no record left. */
int core_tables_raise(struct cgpu_state *state, u32 space, u32 instance, u64 peak);
/* Count an object's tables in its space, and no more. The object has its parent. */
void core_tables_link(struct cgpu_state *state, u32 object);
void core_tables_unlink(struct cgpu_state *state, u32 object);

#endif
