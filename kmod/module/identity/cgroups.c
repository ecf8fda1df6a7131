// SPDX-License-Identifier: GPL-2.0-only
/*
 * The keys of a container's tasks: its cgroups, in version 2 and in the hierarchies of version 1, and its pid namespace where
 * it has one of its own. Another process with the right to can move a task to another cgroup, but not to another pid
 * namespace.
 */
#include <linux/cgroup.h>
#include <linux/pid_namespace.h>
#include <linux/slab.h>

#include "identity/identity.h"

/* Controllers whose hierarchy may be a version 1 one. Container runtimes make a group in each. */
static const struct {
	int id;
	const char *name;
} controllers[] = {
#if IS_ENABLED(CONFIG_CGROUP_PIDS)
	{ pids_cgrp_id, "pids" },
#endif
#if IS_ENABLED(CONFIG_CGROUP_DEVICE)
	{ devices_cgrp_id, "devices" },
#endif
#if IS_ENABLED(CONFIG_CGROUP_FREEZER)
	{ freezer_cgrp_id, "freezer" },
#endif
#if IS_ENABLED(CONFIG_MEMCG)
	{ memory_cgrp_id, "memory" },
#endif
};

/* Version 2, and each of the controllers'. */
#define HIERARCHIES (ARRAY_SIZE(controllers) + 1)

/* The task's group where the controller has a hierarchy of its own; NULL in version 2. Under RCU. */
static struct cgroup *old_cgroup(struct task_struct *task, u32 index)
{
	struct cgroup *cgroup = task_css_check(task, controllers[index].id, true)->cgroup;

	return cgroup->root == &cgrp_dfl_root ? NULL : cgroup;
}

/* A task's group in version 2 (0) and where a controller has a hierarchy of version 1; NULL: it has none there. Under
 * RCU. */
static struct cgroup *cgroup_in(struct task_struct *task, u32 hierarchy)
{
	return hierarchy ? old_cgroup(task, hierarchy - 1) : task_dfl_cgroup(task);
}

static bool cgroup_walk_up(struct cgroup *cgroup, bool (*visit)(const void *key, void *context), void *context)
{
	int level;

	for (level = cgroup->level; level > 0; level--) {
		if (visit(cgroup->ancestors[level], context))
			return true;
	}
	return false;
}

bool km_keys_walk(struct task_struct *task, bool (*visit)(const void *key, void *context), void *context)
{
	struct pid_namespace *ns;
	struct cgroup *cgroup;
	bool found = false;
	u32 i;

	rcu_read_lock();
	for (ns = task_active_pid_ns(task); ns && ns->level && !found; ns = ns->parent)
		found = visit(ns, context);
	for (i = 0; i < HIERARCHIES && !found; i++) {
		cgroup = cgroup_in(task, i);
		if (cgroup)
			found = cgroup_walk_up(cgroup, visit, context);
	}
	rcu_read_unlock();
	return found;
}

static bool pid_ns_holds_current(struct pid_namespace *ns)
{
	struct pid_namespace *own;

	for (own = task_active_pid_ns(current); own; own = own->parent) {
		if (own == ns)
			return true;
	}
	return false;
}

static void keys_put_name(char *name, size_t bytes, u32 index, struct cgroup *cgroup)
{
	int used = index ? scnprintf(name, bytes, "%s:", controllers[index - 1].name) : 0;

	if (cgroup_path(cgroup, name + used, bytes - used) >= (int)(bytes - used))
		name[0] = 0;
}

/* Groups that the caller is not in as well: where it is, they would slice the caller too. */
static void keys_take_cgroups(struct task_struct *task, struct km_keys *keys, char *name, size_t bytes)
{
	struct cgroup *cgroup, *own;
	u32 i;

	rcu_read_lock();
	for (i = 0; i < HIERARCHIES && keys->count < KM_KEYS; i++) {
		cgroup = cgroup_in(task, i);
		own = cgroup_in(current, i);
		if (!cgroup || cgroup->level == 0 || (own && cgroup_is_descendant(own, cgroup)))
			continue;
		if (!css_tryget(&cgroup->self))
			continue;
		keys->cgroup[keys->count++] = cgroup;
		if (!name[0])
			keys_put_name(name, bytes, i, cgroup);
	}
	rcu_read_unlock();
}

int km_keys_of(s32 pid, struct km_keys *keys, char *name, size_t bytes)
{
	struct task_struct *task;
	struct pid_namespace *ns;

	memset(keys, 0, sizeof(*keys));
	name[0] = 0;
	rcu_read_lock();
	keys->init = get_pid(find_pid_ns(pid, &init_pid_ns));
	rcu_read_unlock();
	task = keys->init ? get_pid_task(keys->init, PIDTYPE_PID) : NULL;
	if (!task || task->exit_state) {
		if (task)
			put_task_struct(task);
		km_keys_put(keys);
		return -ESRCH;
	}
	rcu_read_lock();
	ns = task_active_pid_ns(task);
	/* A namespace that its first process has joined tells nothing: others are in there as well. */
	if (ns && ns->level && is_child_reaper(keys->init) && !pid_ns_holds_current(ns))
		keys->pid_ns = get_pid_ns(ns);
	rcu_read_unlock();
	keys_take_cgroups(task, keys, name, bytes);
	put_task_struct(task);
	if (!name[0])
		strscpy(name, "/", bytes);
	if (keys->count || keys->pid_ns)
		return 0;
	scnprintf(name, bytes,
		"process %d shares its cgroups and its pid namespace with the caller, so nothing would tell its container; "
		"give it a cgroup or a pid namespace of its own",
		pid);
	pr_warn("%s\n", name);
	km_keys_put(keys);
	return -EINVAL;
}

void km_keys_put(struct km_keys *keys)
{
	u32 i;

	for (i = 0; i < keys->count; i++)
		css_put(&keys->cgroup[i]->self);
	if (keys->pid_ns)
		put_pid_ns(keys->pid_ns);
	put_pid(keys->init);
	memset(keys, 0, sizeof(*keys));
}

static bool keys_init_lives(const struct km_keys *keys)
{
	struct task_struct *task;
	bool lives;

	rcu_read_lock();
	task = keys->init ? pid_task(keys->init, PIDTYPE_PID) : NULL;
	lives = task && !READ_ONCE(task->exit_state);
	rcu_read_unlock();
	return lives;
}

bool km_keys_populated(const struct km_keys *keys)
{
	u32 i;

	if (keys_init_lives(keys))
		return true;
	for (i = 0; i < keys->count; i++) {
		if (cgroup_is_populated(keys->cgroup[i]))
			return true;
	}
	/* A namespace ends with its first process; without groups it is all there is to ask. */
	return keys->count == 0 && keys->pid_ns && (READ_ONCE(keys->pid_ns->pid_allocated) & ~PIDNS_ADDING) > 1;
}
