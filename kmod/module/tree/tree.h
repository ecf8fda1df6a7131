/* SPDX-License-Identifier: GPL-2.0 */
/* Between tree.c, which reads and writes nodes, and entries.c, which makes and removes them. */
#ifndef CGPU_KM_TREE_H
#define CGPU_KM_TREE_H

struct proc_dir_entry;
struct proc_ops;

struct proc_dir_entry *km_tree_root(void);
const struct proc_ops *km_tree_node_ops(void);

#endif
