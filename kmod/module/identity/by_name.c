// SPDX-License-Identifier: GPL-2.0
/*
 * Registrations without a process: inst_ctl's old form names none. Their tasks are known by the name of a cgroup, which
 * is searched at the first call or open of each group. One such registration may have several groups.
 */
#include <linux/cgroup.h>
#include <linux/ctype.h>
#include <linux/hash.h>
#include <linux/pid_namespace.h>
#include <linux/random.h>
#include <linux/siphash.h>
#include <linux/slab.h>

#include "identity/records.h"

/* --- Whether a cgroup is named after a container, as container runtimes name theirs --- */

struct groups {
	struct cgroup *at[KM_HIERARCHIES];
};

#define SHORT_ID 12u /* characters of a long id that name its directory in the tree */
#define LONG_ID 64u
#define NAME_BYTES 128u /* a longer name is none of those below */

static const char *const prefixes[] = { "", "docker-", "cri-containerd-", "libpod-", "crio-" };
static const char suffix[] = ".scope";
static siphash_key_t mark_key;

void km_names_init(void)
{
	get_random_bytes(&mark_key, sizeof(mark_key));
}

/* The whole id, or a long one that the tree shows by this short name. */
static bool is_id(const char *text, size_t length, const char *id)
{
	size_t own = strlen(id);
	size_t i;

	if (length < own || memcmp(text, id, own))
		return false;
	for (i = own; i < length; i++) {
		if (!isxdigit(text[i]))
			return false;
	}
	return length == own || (own == SHORT_ID && length == LONG_ID);
}

static bool name_fits(const char *name, const char *id)
{
	size_t length, before;
	u32 i;

	for (i = 0; i < ARRAY_SIZE(prefixes); i++) {
		before = strlen(prefixes[i]);
		if (strncmp(name, prefixes[i], before))
			continue;
		length = strlen(name + before);
		if (before && length > strlen(suffix) && !strcmp(name + before + length - strlen(suffix), suffix))
			length -= strlen(suffix);
		if (is_id(name + before, length, id))
			return true;
	}
	return false;
}

/* Whether only root can make groups in a directory. */
static bool is_of_root(const struct kernfs_node *directory)
{
	/* Made at the first change of an owner or a time. Its form is the kernel's own; the owner comes first. */
	const kuid_t *owner = (const void *)READ_ONCE(directory->iattr);

	if (READ_ONCE(directory->mode) & (S_IWGRP | S_IWOTH))
		return false;
	return !owner || uid_eq(*owner, GLOBAL_ROOT_UID);
}

/*
 * A user to whom a part of the hierarchy was delegated can name groups as he likes. What tells is the owner of the
 * directory above: runtimes give the group itself to the container's own root.
 */
static bool group_is_named(const struct cgroup *group, const char *id)
{
	const struct cgroup *above = group->ancestors[group->level - 1];
	char name[NAME_BYTES];
	int length = kernfs_path_from_node(group->kn, above->kn, name, sizeof(name));

	/* Some kernels answer with a part of what does not fit. */
	if (length < 1 || length >= (int)sizeof(name) - 1)
		return false;
	return name_fits(name + 1, id) && is_of_root(above->kn);
}

/* Under RCU, and good as long. */
static void groups_of_current(struct groups *groups)
{
	u32 i;

	for (i = 0; i < KM_HIERARCHIES; i++)
		groups->at[i] = km_cgroup_in(current, i);
}

/* One value for all of them and another number; others have another one. Under RCU. */
static u64 groups_mark(const struct groups *groups, u64 salt)
{
	u64 part[KM_HIERARCHIES + 1] __aligned(SIPHASH_ALIGNMENT);
	u32 i;

	for (i = 0; i < KM_HIERARCHIES; i++)
		part[i] = groups->at[i] ? cgroup_id(groups->at[i]) : 0;
	part[i] = salt;
	return siphash(part, sizeof(part), &mark_key);
}

static bool is_within(struct task_struct *task, const struct km_keys *keys)
{
	struct cgroup *own;
	u32 i, k;

	for (i = 0; i < KM_HIERARCHIES; i++) {
		own = km_cgroup_in(task, i);
		for (k = 0; own && k < keys->count; k++) {
			if (cgroup_is_descendant(own, keys->cgroup[k]))
				return true;
		}
	}
	return false;
}

/* A namespace whose first process is in one of the groups is the container's own. The outermost has all others in it. */
static void take_pid_ns(struct km_keys *keys)
{
	struct pid_namespace *ns, *own = NULL;
	struct pid *first, *init = NULL;
	struct task_struct *task;

	for (ns = task_active_pid_ns(current); ns && ns->level; ns = ns->parent) {
		first = find_pid_ns(1, ns);
		task = first ? pid_task(first, PIDTYPE_PID) : NULL;
		if (!task || !is_within(task, keys))
			continue;
		own = ns;
		init = first;
	}
	if (own) {
		keys->pid_ns = get_pid_ns(own);
		keys->init = get_pid(init);
	}
}

/* What tells the current task's container, when one of its groups or of those above is named after it. Under RCU. */
static bool keys_named(const struct groups *groups, const char *id, struct km_keys *keys)
{
	struct cgroup *at;
	int level;
	u32 i;

	memset(keys, 0, sizeof(*keys));
	for (i = 0; i < KM_HIERARCHIES; i++) {
		for (level = 1; groups->at[i] && level <= groups->at[i]->level; level++) {
			at = groups->at[i]->ancestors[level];
			if (!group_is_named(at, id) || !css_tryget(&at->self))
				continue;
			keys->cgroup[keys->count++] = at;
			break;
		}
	}
	if (keys->count)
		take_pid_ns(keys);
	return keys->count > 0;
}

/* --- The registrations, and the groups of none --- */

#define UNNAMED_BITS 8

struct expected {
	struct list_head list;
	u32 slot;
	u64 generation;
	char id[CGPU_ID_BYTES];
};

static LIST_HEAD(expectations);
static atomic_t expected_count;
/* Goes up with each change by which an unnamed group may have got a name. */
static atomic64_t epoch;
/* Marks of groups that are named after no container, in this epoch: for their tasks neither lock nor names are needed. */
static u64 unnamed[1 << UNNAMED_BITS];

static u64 *unnamed_place(u64 mark)
{
	return &unnamed[hash_64(mark, UNNAMED_BITS)];
}

static bool current_is_unnamed(void)
{
	struct groups groups;
	u64 mark;

	rcu_read_lock();
	groups_of_current(&groups);
	mark = groups_mark(&groups, atomic64_read(&epoch));
	rcu_read_unlock();
	return READ_ONCE(*unnamed_place(mark)) == mark;
}

bool expected_any(void)
{
	return atomic_read(&expected_count) > 0;
}

bool km_identity_unbound(void)
{
	return expected_any() && !(current->flags & PF_KTHREAD) && !current_is_unnamed();
}

int expected_find_current(void)
{
	s64 now = atomic64_read(&epoch);
	struct expected *expected;
	struct groups groups;
	struct km_keys keys;
	bool found = false;
	u64 mark;
	int err;

	lockdep_assert_held(&identity_lock);
	rcu_read_lock();
	groups_of_current(&groups);
	list_for_each_entry(expected, &expectations, list) {
		found = keys_named(&groups, expected->id, &keys);
		if (found)
			break;
	}
	mark = groups_mark(&groups, now);
	rcu_read_unlock();
	if (!found) {
		WRITE_ONCE(*unnamed_place(mark), mark);
		return 0;
	}
	err = record_start_named(&keys, expected->slot, expected->generation, expected->id);
	km_keys_put(&keys);
	return err;
}

static struct expected *expected_of(u32 slot, u64 generation)
{
	struct expected *expected;

	list_for_each_entry(expected, &expectations, list) {
		if (expected->slot == slot && expected->generation == generation)
			return expected;
	}
	return NULL;
}

static int expected_add(u32 slot, u64 generation, const char *id)
{
	struct expected *expected = kzalloc(sizeof(*expected), GFP_KERNEL_ACCOUNT);

	lockdep_assert_held(&identity_lock);
	if (!expected)
		return -ENOMEM;
	if (km_engine_pin(KM_PIN_CONTAINERS)) {
		kfree(expected);
		return -ENODEV;
	}
	expected->slot = slot;
	expected->generation = generation;
	strscpy(expected->id, id, sizeof(expected->id));
	list_add(&expected->list, &expectations);
	atomic_inc(&expected_count);
	atomic64_inc(&epoch);
	return records_renew(slot, generation, id);
}

bool km_identity_expects(u32 slot, u64 generation)
{
	bool expected;

	lockdep_assert_held(&km_control_lock);
	mutex_lock(&identity_lock);
	expected = expected_of(slot, generation) != NULL;
	mutex_unlock(&identity_lock);
	return expected;
}

int km_identity_expect(u32 slot, u64 generation, const char *id)
{
	int err;

	lockdep_assert_held(&km_control_lock);
	mutex_lock(&identity_lock);
	err = expected_add(slot, generation, id);
	mutex_unlock(&identity_lock);
	return err;
}

static void expected_remove(struct expected *expected)
{
	list_del(&expected->list);
	atomic_dec(&expected_count);
	kfree(expected);
}

void expected_sweep(struct km_engine *engine)
{
	struct expected *expected, *next;

	lockdep_assert_held(&identity_lock);
	/* A group of version 1 may have been given another name. */
	atomic64_inc(&epoch);
	list_for_each_entry_safe(expected, next, &expectations, list) {
		if (!container_registered(engine, expected->slot, expected->generation))
			expected_remove(expected);
	}
}

void expected_exit(void)
{
	struct expected *expected, *next;

	list_for_each_entry_safe(expected, next, &expectations, list)
		expected_remove(expected);
}
