/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's interface of search trees, over one that is not balanced: lookups find the same. */
#ifndef SHIM_RBTREE_H
#define SHIM_RBTREE_H

#include "types.h"

struct rb_node {
	struct rb_node *rb_parent, *rb_left, *rb_right;
};

struct rb_root {
	struct rb_node *rb_node;
};

#define RB_ROOT ((struct rb_root){ NULL })
#define rb_entry(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

static inline void rb_link_node(struct rb_node *node, struct rb_node *parent, struct rb_node **link)
{
	*node = (struct rb_node){ .rb_parent = parent };
	*link = node;
}

static inline void rb_insert_color(struct rb_node *node, struct rb_root *root)
{
	(void)node;
	(void)root;
}

/* Put another subtree in the place of one. */
static inline void shim_replace(struct rb_root *root, struct rb_node *old, struct rb_node *now)
{
	struct rb_node *parent = old->rb_parent;

	if (!parent)
		root->rb_node = now;
	else if (parent->rb_left == old)
		parent->rb_left = now;
	else
		parent->rb_right = now;
	if (now)
		now->rb_parent = parent;
}

static inline void rb_erase(struct rb_node *node, struct rb_root *root)
{
	struct rb_node *next = node->rb_right;

	if (!node->rb_left || !next) {
		shim_replace(root, node, next ? next : node->rb_left);
		return;
	}
	while (next->rb_left)
		next = next->rb_left;
	if (next != node->rb_right) {
		shim_replace(root, next, next->rb_right);
		next->rb_right = node->rb_right;
		next->rb_right->rb_parent = next;
	}
	shim_replace(root, node, next);
	next->rb_left = node->rb_left;
	next->rb_left->rb_parent = next;
}

#endif
