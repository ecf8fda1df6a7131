// SPDX-License-Identifier: Apache-2.0
/* Finds a process's control group, and tells which processes a group has. */
#define _GNU_SOURCE
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgpu_core.h"
#include "cgroup.h"
#include "processes.h"

#define CGROUP_ROOT "/sys/fs/cgroup"
#define CGROUP_TEXT 16384
#define CGROUP_ENTRIES_MAX 4096 /* files looked at below one group */

/* The path that a process has in one hierarchy ("" names the unified one); NULL when it has none. */
static const char *path_in(char *text, const char *controller, size_t *bytes)
{
	size_t want = strlen(controller);
	char *line = text;

	while (line && *line) {
		char *names = strchr(line, ':');
		char *path = names ? strchr(names + 1, ':') : NULL;
		char *end = path ? strchr(path, '\n') : NULL;

		if (!end)
			return NULL;
		if ((size_t)(path - names - 1) == want && !strncmp(names + 1, controller, want)) {
			*bytes = (size_t)(end - path - 1);
			return path + 1;
		}
		line = end + 1;
	}
	return NULL;
}

/* A hierarchy in which the process shares its group with this daemon says nothing of its container. */
static int tells(const char *path, size_t n, const char *own, size_t own_n)
{
	if (!path || n < 2)
		return 0;
	return !own || n != own_n || memcmp(path, own, n) != 0;
}

int cgroup_name(s32 pid, char *name, size_t bytes)
{
	static const char *const order[] = { "", "pids", "devices", "freezer", "memory", "cpu,cpuacct", "cpu",
		"name=systemd" };
	char path[64], text[CGROUP_TEXT], own[CGROUP_TEXT];
	size_t i;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	if (pid <= 0 || read_text(path, text, sizeof(text)) <= 0)
		return -ESRCH;
	if (read_text("/proc/self/cgroup", own, sizeof(own)) < 0)
		own[0] = 0;
	for (i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		size_t n = 0, own_n = 0;
		const char *at = path_in(text, order[i], &n);
		const char *mine = path_in(own, order[i], &own_n);

		if (!tells(at, n, mine, own_n) || n + strlen(order[i]) + 2 > bytes)
			continue;
		snprintf(name, bytes, "%s%s%.*s", order[i], order[i][0] ? ":" : "", (int)n, at);
		return 0;
	}
	snprintf(name, bytes, "/");
	return 0;
}

/* Directory of a group in the file system. */
static int cgroup_directory(const char *name, char *path, size_t bytes)
{
	const char *colon = strchr(name, ':');
	int n;

	if (!strcmp(name, "/") || strstr(name, "/../") || strlen(name) > CGPU_CGROUP_BYTES)
		return -EINVAL;
	if (name[0] == '/') {
		int whole = access(CGROUP_ROOT "/cgroup.controllers", F_OK) == 0;

		n = snprintf(path, bytes, CGROUP_ROOT "%s%s", whole ? "" : "/unified", name);
	} else if (!strncmp(name, "name=", 5)) {
		n = colon ? snprintf(path, bytes, CGROUP_ROOT "/%.*s%s", (int)(colon - name - 5), name + 5, colon + 1) :
			    -1;
	} else {
		n = colon ? snprintf(path, bytes, CGROUP_ROOT "/%.*s%s", (int)(colon - name), name, colon + 1) : -1;
	}
	return n < 0 || (size_t)n >= bytes ? -EINVAL : 0;
}

/* Version 1 has no sum over the groups below: look into each. */
static int walk_populated(char *directory)
{
	char *const paths[] = { directory, NULL };
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV | FTS_NOSTAT, NULL);
	FTSENT *entry;
	int found = 0, seen = 0;

	if (!fts)
		return -EINVAL;
	while (!found && (entry = fts_read(fts))) {
		char text[32];

		if (++seen > CGROUP_ENTRIES_MAX)
			found = 1;
		else if (!strcmp(entry->fts_name, "cgroup.procs"))
			found = read_text(entry->fts_accpath, text, sizeof(text)) > 0;
	}
	fts_close(fts);
	return found;
}

int cgroup_populated(const char *name)
{
	char path[PATH_MAX], events[PATH_MAX + 32], text[1024];
	int r = cgroup_directory(name, path, sizeof(path));

	if (r < 0)
		return r;
	if (access(path, F_OK) < 0)
		return access(CGROUP_ROOT, F_OK) < 0 ? -EINVAL : 0;
	snprintf(events, sizeof(events), "%s/cgroup.events", path);
	if (read_text(events, text, sizeof(text)) > 0)
		return strstr(text, "populated 1") != NULL;
	return walk_populated(path);
}

int cgroup_holds(const char *name, s32 pid)
{
	const char *colon = strchr(name, ':');
	const char *group = colon && name[0] != '/' ? colon + 1 : name;
	char controller[64] = "", path[64], text[CGROUP_TEXT];
	size_t n = 0, want = strlen(group);
	const char *at;

	if (group != name)
		snprintf(controller, sizeof(controller), "%.*s", (int)(colon - name), name);
	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	if (read_text(path, text, sizeof(text)) <= 0)
		return 0;
	if (!strcmp(name, "/"))
		return 1;
	at = path_in(text, controller, &n);
	return at && n >= want && !memcmp(at, group, want) && (n == want || at[want] == '/');
}
