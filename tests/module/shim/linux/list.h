/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's lists, of which each step through a bucket is counted. */
#ifndef SHIM_LIST_H
#define SHIM_LIST_H

#include "types.h"

extern u64 shim_steps;

#define container_of(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

struct list_head {
	struct list_head *next, *prev;
};

#define list_next_entry(at, member) container_of((at)->member.next, __typeof__(*(at)), member)
#define list_prev_entry(at, member) container_of((at)->member.prev, __typeof__(*(at)), member)

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	list->next = list->prev = list;
}

static inline void list_add_tail(struct list_head *node, struct list_head *list)
{
	node->prev = list->prev;
	node->next = list;
	list->prev->next = node;
	list->prev = node;
}

static inline void list_del(struct list_head *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
}

struct hlist_node {
	struct hlist_node *next, **pprev;
};

struct hlist_head {
	struct hlist_node *first;
};

static inline bool hlist_unhashed(const struct hlist_node *node)
{
	return !node->pprev;
}

static inline void shim_insert(struct hlist_node *node, struct hlist_node **at)
{
	node->next = *at;
	node->pprev = at;
	if (node->next)
		node->next->pprev = &node->next;
	*at = node;
}

static inline void hlist_add_head_rcu(struct hlist_node *node, struct hlist_head *head)
{
	shim_insert(node, &head->first);
}

static inline void hlist_add_behind_rcu(struct hlist_node *node, struct hlist_node *before)
{
	shim_insert(node, &before->next);
}

static inline void hlist_del_init_rcu(struct hlist_node *node)
{
	*node->pprev = node->next;
	if (node->next)
		node->next->pprev = node->pprev;
	node->pprev = NULL;
}

#define shim_entry(node, type, member) ((node) ? shim_steps++, container_of(node, type, member) : NULL)
#define hlist_for_each_entry_rcu(at, head, member, condition)                                            \
	for (at = shim_entry((head)->first, __typeof__(*(at)), member); ((void)(condition), at) != NULL; \
		at = shim_entry((at)->member.next, __typeof__(*(at)), member))

#endif
