/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which parts of each mapping of managed memory are there. UVM never has two ranges at one place of an address space, so
 * what lies wholly in a live part is a piece of that mapping and of nothing else; and it is taken off once. Only
 * <linux/rbtree.h> is needed: tests/module has it run on the host.
 */
#ifndef CGPU_KM_LIVE_H
#define CGPU_KM_LIVE_H

#include <linux/rbtree.h>
#include <linux/types.h>

/* Parts of one mapping. Beyond them, or without memory, the upper one of two is no longer known: it stays charged until
 * its address space ends. */
#define LIVE_PARTS_MAX 4096u

struct live_mapping {
	const void *va_space; /* the address space; only compared */
	u32 parts;
	bool lost; /* there was more of it, which is no longer known */
};

/* A piece without holes, by its first and last byte. */
struct live_part {
	struct rb_node node;
	struct live_mapping *of;
	u64 start, end;
};

/* All functions: under the caller's lock. */

/* A whole mapping. False: something live is there already. */
bool live_add(struct rb_root *root, struct live_mapping *mapping, struct live_part *part);
/* The part that has all of a place; NULL: none. */
struct live_part *live_find(const struct rb_root *root, const void *va_space, u64 start, u64 end);
/* Whether two parts would be left of it. */
bool live_splits(const struct live_part *part, u64 start, u64 end);
/* Take a piece off the part that has it. spare: for the upper one when two are left; NULL: there is none. Returns what is
 * to be freed: the part, when nothing is left of it, or the spare one, when it was not needed. */
struct live_part *live_take(struct rb_root *root, struct live_part *part, u64 start, u64 end, struct live_part *spare);
/* Any part of an address space, or of any for NULL. NULL: none. */
struct live_part *live_any(const struct rb_root *root, const void *va_space);

/* UVM takes memory of the card in chunks of 2 MiB: what a place may come to take, and what is certainly given back when a
 * piece goes. */
u64 live_chunk_bytes(u64 start, u64 end);
u64 live_chunk_bytes_inside(u64 start, u64 end);

#endif
