/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's hash tables of fixed size. */
#ifndef SHIM_HASHTABLE_H
#define SHIM_HASHTABLE_H

#include "list.h"

#define DEFINE_HASHTABLE(name, bits) struct hlist_head name[1 << (bits)]
#define shim_bucket(table, key) (&(table)[(key)*0x61c8864680b583ebull % (sizeof(table) / sizeof(*(table)))])
#define hash_add_rcu(table, node, key) hlist_add_head_rcu(node, shim_bucket(table, key))
#define hash_del_rcu hlist_del_init_rcu
#define hash_for_each_possible_rcu(table, at, member, key, condition) \
	hlist_for_each_entry_rcu(at, shim_bucket(table, key), member, condition)
#define hash_for_each_safe(table, bucket, after, at, member)                  \
	for (bucket = 0; bucket < sizeof(table) / sizeof(*(table)); bucket++) \
		for (after = (table)[bucket].first;                           \
			after && (at = container_of(after, __typeof__(*(at)), member), after = after->next, 1);)

#endif
