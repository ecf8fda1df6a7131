// SPDX-License-Identifier: Apache-2.0
/* Samples the driver's figures of each card, and finds processes with memory that the ledger does not have. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroup.h"
#include "clock.h"
#include "engine.h"

#define PROCESSES_MAX 950 /* NV2080_CTRL_GPU_GET_PIDS_MAX_COUNT, ctrl2080gpu.h */
#define DRIVER_FILES_MAX 256 /* of one process are looked at */
#define INSPECTIONS_MS 200 /* no inspection begins later in a sample */
#define RESTLESS_MS 60000
/* A process was unseen in the sample before. */
#define UNSEEN_FROM_MS 500
#define UNSEEN_TO_MS 5000

/* Descriptors of a process that lead to the driver. */
struct driver_files {
	struct devices *devices;
	u32 count;
	int number[DRIVER_FILES_MAX];
};

static void note_driver_file(void *ctx, const struct look_file *file)
{
	struct driver_files *files = ctx;
	enum cgpu_device kind;
	u32 gpu;

	if (files->count < DRIVER_FILES_MAX && devices_identify(files->devices, &file->identity, &kind, &gpu))
		files->number[files->count++] = file->number;
}

/* 1 when a process has a file of the driver open that was opened through a mount which the process itself does not have:
 * in another container, which has handed it out. 0 also where that cannot be told. */
static int handed_files(struct cgpud *d, s32 tgid)
{
	struct driver_files files = { .devices = &d->devices };
	struct asker asker = asker_soon(&d->looks, CGPU_ORPHANS, 0);
	int handed = 0;
	u32 i;

	look_files(&asker, tgid, note_driver_file, &files);
	for (i = 0; i < files.count && handed == 0; i++)
		handed = look_foreign(&asker, tgid, files.number[i]);
	return handed > 0;
}

/* 0: there is no such process. */
static ino_t pid_namespace(s32 pid)
{
	char path[32];
	struct stat found;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	return stat(path, &found) ? 0 : found.st_ino;
}

/* Processes outside of containers may share a cgroup, but not a pid namespace of a container's own. */
static int is_inside(const struct cgpu_container_info *info, s32 tgid)
{
	ino_t inside = pid_namespace(info->pid);

	return inside && inside != pid_namespace(getpid()) && inside == pid_namespace(tgid);
}

/* A process that did not stand still is not inspected again at once: others of its container have their turn before. */
static int is_restless(struct cgpud *d, const struct asker *asker, s32 tgid)
{
	const struct inspections *inspections = &d->reaper.inspections;
	u64 now = clock_ms();
	u32 i;

	for (i = 0; i < RESTLESS_MAX; i++)
		if (inspections->restless[i].tgid == tgid && now < inspections->restless[i].until)
			return look_mark(asker, tgid) == inspections->restless[i].mark;
	return 0;
}

static void note_restless(struct cgpud *d, const struct asker *asker, s32 tgid)
{
	struct inspections *inspections = &d->reaper.inspections;
	u32 i = inspections->next++ % RESTLESS_MAX;

	inspections->restless[i].tgid = tgid;
	inspections->restless[i].mark = look_mark(asker, tgid);
	inspections->restless[i].until = clock_ms() + RESTLESS_MS;
}

static int is_known(struct cgpud *d, s32 tgid)
{
	u32 cursor = 0, client;

	return cgpu_client_next(&d->core, tgid, &cursor, &client) == 0;
}

/* A client is in the ledger before it can have memory, and until the driver has freed that. The process may have freed one, and
 * made another, since the driver was asked: neither can be between these three. */
static int has_unseen_memory(struct cgpud *d, u32 gpu, s32 tgid)
{
	u64 bytes = 0;

	return !is_known(d, tgid) && driver_process_bytes(&d->driver, gpu, tgid, &bytes) == 0 && bytes &&
		!is_known(d, tgid);
}

/* Whether the sample before has found the same. */
static int was_unseen(struct cgpud *d, const struct asker *asker, s32 tgid)
{
	struct inspections *inspections = &d->reaper.inspections;
	u32 mark = look_mark(asker, tgid), i;
	u64 now = clock_ms(), since;

	for (i = 0; i < UNSEEN_MAX; i++) {
		since = inspections->unseen[i].since;
		if (mark && inspections->unseen[i].tgid == tgid && inspections->unseen[i].mark == mark &&
			now < since + UNSEEN_TO_MS)
			return now >= since + UNSEEN_FROM_MS;
	}
	i = inspections->next_unseen++ % UNSEEN_MAX;
	inspections->unseen[i].tgid = tgid;
	inspections->unseen[i].mark = mark;
	inspections->unseen[i].since = now;
	return 0;
}

/* The filter holds calls of the driver, and none was seen: a listener of the container's own has had them answered. */
static void end_unseen(
	struct cgpud *d, u32 gpu, const struct cgpu_container_info *info, const struct asker *asker, s32 tgid)
{
	if (!atomic_load(&d->enforce) || !has_unseen_memory(d, gpu, tgid) || !was_unseen(d, asker, tgid))
		return;
	if (cgpud_end_process(tgid, info->cgroup) == 0)
		events_log(&d->events, LOG_LEVEL_ERROR,
			"container %s: process %d has memory by calls that were not seen, though its filter holds them, and was "
			"ended: another process has answered them",
			info->id, tgid);
}

/* The process has memory by calls that were not notified: a runtime may have started it without the filter. group: its
 * cgroup, or LOOK_BESIDE and a process. -ESRCH: it is gone, or not of the group. */
static int see_filtered(struct cgpud *d, u32 gpu, const struct cgpu_container_info *info, s32 tgid, const char *group)
{
	struct asker asker = asker_soon(&d->looks, info->slot, info->generation);
	int r;

	if (clock_ms() >= d->reaper.inspections.ends || is_restless(d, &asker, tgid))
		return -EAGAIN;
	r = look_filters(&asker, tgid, group);
	if (r == -ETIMEDOUT)
		note_restless(d, &asker, tgid);
	if (r > 0)
		end_unseen(d, gpu, info, &asker, tgid);
	else if (r == 0)
		events_log(&d->events, LOG_LEVEL_ERROR,
			"container %s: process %d does not have the engine's filter, and was ended: the low-level runtime "
			"has started it without one",
			info->id, tgid);
	else if (r < 0 && r != -ESRCH && r != -EAGAIN)
		events_log(&d->events, LOG_LEVEL_WARNING,
			"container %s: process %d has memory by calls that were not seen, and its filter cannot be looked at (%s)",
			info->id, tgid, strerror(-r));
	return r;
}

/* Whether a process with memory that the ledger does not have is a container's own; its filter is looked at then. */
static int is_of_container(struct cgpud *d, u32 gpu, const struct cgpu_container_info *info, s32 tgid)
{
	int inside = is_inside(info, tgid);
	char beside[32];

	/* A container without a group of its own does not tell which processes are its own. */
	if (strcmp(info->cgroup, "/") != 0 && cgroup_holds(info->cgroup, tgid)) {
		if (inside)
			see_filtered(d, gpu, info, tgid, info->cgroup);
		else
			events_log(&d->events, LOG_LEVEL_WARNING,
				"container %s: process %d has memory by calls that were not seen: it is in the container's "
				"cgroup, but not in a pid namespace of the container",
				info->id, tgid);
		return 1;
	}
	/* An exec that was taken over before the runtime put it into the cgroup. Containers may share a pid namespace, but
	 * each has its own mounts. */
	snprintf(beside, sizeof(beside), LOOK_BESIDE "%d", info->pid);
	return inside && see_filtered(d, gpu, info, tgid, beside) != -ESRCH;
}

/* Whether a process's memory is charged to a container, or was to one that is gone. */
static int is_contained(struct cgpud *d, u32 gpu, s32 tgid)
{
	struct cgpu_container_info info;
	u32 at;

	/* Exported memory is in a client of ours, and is charged. */
	if (tgid == getpid() || is_known(d, tgid))
		return 1;
	for (at = 0; cgpu_container_next(&d->core, at, &info) == 0; at = info.slot + 1) {
		if (!(cgpu_container_gpus(&d->core, info.slot, info.generation) >> gpu & 1))
			continue;
		if (is_of_container(d, gpu, &info, tgid))
			return 1;
	}
	return 0;
}

/* No container is charged for memory by handed-out files: it is unaccounted memory, which others cannot have. */
static int is_handed(struct cgpud *d, u32 gpu, s32 tgid, u64 bytes)
{
	if (!handed_files(d, tgid))
		return 0;
	events_log(&d->events, LOG_LEVEL_WARNING,
		"GPU %u: process %d has %llu bytes, and is in no slice, by files of the driver that were opened in another "
		"container: they count as drift",
		gpu, tgid, (unsigned long long)bytes);
	return 1;
}

/* Negative: the driver does not say. */
static int view_processes(struct cgpud *d, u32 gpu, struct cgpu_card_view *view)
{
	s32 tgid[PROCESSES_MAX];
	int n = driver_gpu_processes(&d->driver, gpu, tgid, PROCESSES_MAX), i;
	u64 bytes;

	for (i = 0; i < n; i++) {
		/* A process that has ended meanwhile has no memory. */
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

	d->reaper.inspections.ends = clock_ms() + INSPECTIONS_MS;
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
