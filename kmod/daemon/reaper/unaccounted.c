// SPDX-License-Identifier: Apache-2.0
/* Samples what the driver says of each card, and finds processes with memory that the ledger does not have. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroup.h"
#include "engine.h"

#define PROCESSES_MAX 950 /* NV2080_CTRL_GPU_GET_PIDS_MAX_COUNT, ctrl2080gpu.h */
#define DESCRIPTORS_MAX 4096 /* of one process are looked at */
#define NAME_BYTES 300

/*
 * Whether a process outside of containers uses files of the driver that it has not opened. No engine sees its calls,
 * but the kernel tells through which mount a file was opened (proc_pid_fdinfo(5), mnt_id), and which mounts a process has
 * (proc_pid_mountinfo(5)). A mount's number is of one mount namespace alone, and containers have their own.
 */

static FILE *open_below(s32 tgid, const char *directory, const char *name)
{
	char path[NAME_BYTES];

	snprintf(path, sizeof(path), "/proc/%d/%s%s", tgid, directory, name);
	return fopen(path, "re");
}

/* -1: it is not told. */
static int mount_of(s32 tgid, const char *number)
{
	FILE *file = open_below(tgid, "fdinfo/", number);
	char line[128];
	int mount = -1;

	while (file && mount < 0 && fgets(line, sizeof(line), file))
		sscanf(line, "mnt_id: %d", &mount);
	if (file)
		fclose(file);
	return mount;
}

/* Also when its mounts cannot be read. */
static int has_mount(s32 tgid, int mount)
{
	FILE *file = open_below(tgid, "mountinfo", "");
	char *line = NULL;
	size_t bytes = 0;
	int lines = 0, found = 0, number;

	while (file && !found && getline(&line, &bytes, file) > 0) {
		lines++;
		found = sscanf(line, "%d ", &number) == 1 && number == mount;
	}
	free(line);
	if (file)
		fclose(file);
	return found || lines == 0;
}

static int is_foreign(struct devices *devices, s32 tgid, const char *number)
{
	struct identity identity;
	enum cgpu_device kind;
	char path[NAME_BYTES];
	int mount;
	u32 gpu;

	snprintf(path, sizeof(path), "/proc/%d/fd/%s", tgid, number);
	if (identity_of(AT_FDCWD, path, &identity) < 0 || !devices_identify(devices, &identity, &kind, &gpu))
		return 0;
	mount = mount_of(tgid, number);
	return mount >= 0 && !has_mount(tgid, mount);
}

/* 1 when a process has a file of the driver open that was opened through a mount which the process itself does not have:
 * in another container, which has handed it out. 0 also where that cannot be told. */
static int handed_files(struct devices *devices, s32 tgid)
{
	const struct dirent *entry;
	char path[NAME_BYTES];
	int handed = 0, seen = 0;
	DIR *directory;

	snprintf(path, sizeof(path), "/proc/%d/fd", tgid);
	directory = opendir(path);
	if (!directory)
		return 0;
	while (!handed && seen++ < DESCRIPTORS_MAX && (entry = readdir(directory)))
		if (entry->d_name[0] != '.')
			handed = is_foreign(devices, tgid, entry->d_name);
	closedir(directory);
	return handed;
}

/* 0: there is no such process. */
static ino_t pid_namespace(s32 pid)
{
	char path[32];
	struct stat found;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	return stat(path, &found) ? 0 : found.st_ino;
}

/* A group may be shared with processes that are in no container. What is in a namespace of a container's own is not. */
static int is_inside(const struct cgpu_container_info *info, s32 tgid)
{
	ino_t inside = info->pid ? pid_namespace(info->pid) : 0;

	return inside && inside != pid_namespace(getpid()) && inside == pid_namespace(tgid);
}

/* It has memory by calls that were not notified: a runtime may have started it without the filter that others have. */
static void see_filtered(struct cgpud *d, const struct cgpu_container_info *info, s32 tgid)
{
	int r;

	if (!is_inside(info, tgid)) {
		events_log(&d->events, LOG_LEVEL_WARNING,
			"container %s: process %d has memory by calls that were not seen: it is in the container's cgroup, but "
			"not in a pid namespace of the container",
			info->id, tgid);
		return;
	}
	r = cgpud_filtered(tgid, info->cgroup);
	if (r == 0)
		events_log(&d->events, LOG_LEVEL_ERROR,
			"container %s: process %d does not have the engine's filter, and was ended: the low-level runtime "
			"has started it without one",
			info->id, tgid);
	else if (r < 0 && r != -ESRCH)
		events_log(&d->events, LOG_LEVEL_WARNING,
			"container %s: process %d has memory by calls that were not seen, and its filter cannot be looked at (%s)",
			info->id, tgid, strerror(-r));
}

/* Whether what a process has is charged to a container, or was to one that is gone. */
static int is_contained(struct cgpud *d, u32 gpu, s32 tgid)
{
	struct cgpu_container_info info;
	u32 cursor = 0, client, at;

	/* Exported memory is in a client of ours, and is charged. */
	if (tgid == getpid())
		return 1;
	if (cgpu_client_next(&d->core, tgid, &cursor, &client) == 0)
		return 1;
	for (at = 0; cgpu_container_next(&d->core, at, &info) == 0; at = info.slot + 1) {
		if (!(cgpu_container_gpus(&d->core, info.slot, info.generation) >> gpu & 1))
			continue;
		/* A container without a group of its own does not tell which processes are its own. */
		if (strcmp(info.cgroup, "/") != 0 && cgroup_holds(info.cgroup, tgid)) {
			see_filtered(d, &info, tgid);
			return 1;
		}
	}
	return 0;
}

/* No container is charged for what one has handed out: it is unaccounted memory, which others cannot have. */
static int is_handed(struct cgpud *d, u32 gpu, s32 tgid, u64 bytes)
{
	if (!handed_files(&d->devices, tgid))
		return 0;
	events_log(&d->events, LOG_LEVEL_WARNING,
		"process %d: has %llu bytes of GPU %u, and is in no slice, by files of the driver that were opened in "
		"another container: they count as drift",
		tgid, (unsigned long long)bytes, gpu);
	return 1;
}

/* Negative: the driver does not say. */
static int view_processes(struct cgpud *d, u32 gpu, struct cgpu_card_view *view)
{
	s32 tgid[PROCESSES_MAX];
	int n = driver_gpu_processes(&d->driver, gpu, tgid, PROCESSES_MAX), i;
	u64 bytes;

	for (i = 0; i < n; i++) {
		/* One that has ended meanwhile has nothing. */
		if (driver_process_bytes(&d->driver, gpu, tgid[i], &bytes) < 0 || bytes == 0)
			continue;
		view->users++;
		if (is_contained(d, gpu, tgid[i]) || is_handed(d, gpu, tgid[i], bytes))
			continue;
		view->strangers++;
		view->outside += bytes;
	}
	return n;
}

void unaccounted_sample(struct cgpud *d)
{
	u64 total;
	u32 gpu;

	for (gpu = 0; gpu < d->driver.gpus; gpu++) {
		struct cgpu_card_view view = { 0 };
		int r = driver_gpu_memory(&d->driver, gpu, &total, &view.memfree);

		if (r == 0 || r == -ENXIO)
			cgpu_gpu_set_lost(&d->core, gpu, r == -ENXIO);
		if (r == -ENXIO)
			cgpu_gpu_reconcile(&d->core, gpu, NULL);
		if (r < 0)
			continue;
		if (view_processes(d, gpu, &view) < 0)
			cgpu_gpu_set_memfree(&d->core, gpu, view.memfree);
		else
			cgpu_gpu_reconcile(&d->core, gpu, &view);
	}
}
