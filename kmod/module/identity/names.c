// SPDX-License-Identifier: GPL-2.0
/* Whether a cgroup is named after a container, as container runtimes name theirs. */
#include <linux/cgroup.h>
#include <linux/ctype.h>
#include <linux/pid_namespace.h>
#include <linux/random.h>
#include <linux/siphash.h>

#include "identity/identity.h"

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

void km_groups_of_current(struct km_groups *groups)
{
	u32 i;

	for (i = 0; i < KM_HIERARCHIES; i++)
		groups->at[i] = km_cgroup_in(current, i);
}

u64 km_groups_mark(const struct km_groups *groups, u64 salt)
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

bool km_keys_named(const struct km_groups *groups, const char *id, struct km_keys *keys)
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
