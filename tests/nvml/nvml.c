/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fake of libnvidia-ml.so.1 of driver 615.71.09, no part of any release: what nvidia-ml-py 13.615 calls of it to
 * limit cgroups, with the structures of its nvmlSetMemoryLimits_v1_t and nvmlGetMemoryLimits_v1_t. Behaviour:
 * docs.nvidia.com/deploy/nvml-api, and the driver's src/nvidia/src/kernel/mem_mgr/memacct.c, whose table it shares with
 * cgpu-sim. How NVML turns the driver's status into its own is not public; the usual ones are taken.
 *
 * TABLE is the path of the table. With OLDER it is the library of a driver before 615: without the two functions.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "memacct.h"

#define CGROUP2_SUPER_MAGIC 0x63677270
#define ROOT "/sys/fs/cgroup"

enum code {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_MEMORY = 20,
};

struct set_limits {
	const char *name_space;
	unsigned long long soft, hard;
};

struct get_limits {
	const char *name_space;
	unsigned long long soft, hard, used;
};

static struct memacct *table;

int nvmlInitWithFlags(unsigned int flags)
{
	int fd = open(TABLE, O_RDWR | O_CLOEXEC);

	(void)flags;
	if (fd < 0)
		return NVML_ERROR_DRIVER_NOT_LOADED;
	table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (table != MAP_FAILED)
		return NVML_SUCCESS;
	table = NULL;
	return NVML_ERROR_MEMORY;
}

int nvmlInit_v2(void)
{
	return nvmlInitWithFlags(0);
}

int nvmlShutdown(void)
{
	return table ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

const char *nvmlErrorString(int code)
{
	(void)code;
	return "an error of the fake library";
}

int nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	if (!table)
		return NVML_ERROR_UNINITIALIZED;
	return (unsigned int)snprintf(version, length, "%s", table->version) < length ? NVML_SUCCESS :
											NVML_ERROR_INSUFFICIENT_SIZE;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct memacct_card **device)
{
	unsigned int i;

	if (!table)
		return NVML_ERROR_UNINITIALIZED;
	for (i = 0; uuid && device && i < table->cards; i++) {
		if (strcmp(table->card[i].uuid, uuid) != 0)
			continue;
		*device = &table->card[i];
		return NVML_SUCCESS;
	}
	return uuid && device ? NVML_ERROR_NOT_FOUND : NVML_ERROR_INVALID_ARGUMENT;
}

static int is_mig(const struct memacct_card *device)
{
	return table->faults.mig && table->faults.card == (unsigned int)(device - table->card);
}

int nvmlDeviceGetMigMode(const struct memacct_card *device, unsigned int *current, unsigned int *pending)
{
	/* A card that knows no MIG says so. */
	if (!is_mig(device))
		return NVML_ERROR_NOT_SUPPORTED;
	*current = *pending = 1;
	return NVML_SUCCESS;
}

#ifndef OLDER

/* The group that a path names, below the root: as cgroup_get_from_fd() in the driver. */
static int group_of(const char *name, char *path)
{
	struct statfs about;

	if (!name || strlen(name) >= MEMACCT_PATH || strncmp(name, ROOT, strlen(ROOT)) != 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (statfs(name, &about) < 0)
		return errno == ENOENT ? NVML_ERROR_NOT_FOUND : NVML_ERROR_INVALID_ARGUMENT;
	if (about.f_type != CGROUP2_SUPER_MAGIC)
		return NVML_ERROR_INVALID_ARGUMENT;
	snprintf(path, MEMACCT_PATH, "%s", name + strlen(ROOT));
	return NVML_SUCCESS;
}

static struct memacct_group *find(const char *path, unsigned int card)
{
	unsigned int i;

	for (i = 0; i < MEMACCT_GROUPS; i++)
		if (table->group[i].path[0] && table->group[i].card == card && !strcmp(table->group[i].path, path))
			return &table->group[i];
	return NULL;
}

static void take(void)
{
	if (pthread_mutex_lock(&table->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&table->lock);
}

static int fault(const struct memacct_card *device, unsigned int code)
{
	if (table->faults.delay_ms)
		usleep(table->faults.delay_ms * 1000);
	return table->faults.card == (unsigned int)(device - table->card) ? (int)code : NVML_SUCCESS;
}

/* memacctSetLimits() */
static int set(const char *path, unsigned int card, const struct set_limits *limits)
{
	struct memacct_group *group = find(path, card);
	unsigned long long used = group ? group->hard - group->available : 0;
	unsigned int i;

	if (!path[0] || !strcmp(path, "/"))
		return NVML_ERROR_NOT_SUPPORTED;
	if (used > limits->hard)
		return NVML_ERROR_INVALID_ARGUMENT; /* NV_ERR_INVALID_LIMIT */
	for (i = 0; !group && i < MEMACCT_GROUPS; i++)
		if (!table->group[i].path[0])
			group = &table->group[i];
	if (!group)
		return NVML_ERROR_MEMORY;
	snprintf(group->path, sizeof(group->path), "%s", path);
	group->card = card;
	group->soft = limits->soft;
	group->hard = limits->hard;
	group->available = limits->hard - used;
	return NVML_SUCCESS;
}

int nvmlDeviceSetMemoryLimits_v1(struct memacct_card *device, const struct set_limits *limits)
{
	char path[MEMACCT_PATH];
	int code;

	if (!table)
		return NVML_ERROR_UNINITIALIZED;
	if (geteuid() != 0)
		return NVML_ERROR_NO_PERMISSION;
	table->faults.sets++;
	table->faults.softs += limits->soft != 0;
	code = fault(device, table->faults.set_code);
	if (code != NVML_SUCCESS && table->faults.spared) {
		table->faults.spared--;
		code = NVML_SUCCESS;
	}
	if (code == NVML_SUCCESS && is_mig(device))
		code = NVML_ERROR_NOT_SUPPORTED;
	if (code == NVML_SUCCESS)
		code = group_of(limits->name_space, path);
	if (code != NVML_SUCCESS || table->faults.forgetful)
		return code;
	take();
	code = set(path, (unsigned int)(device - table->card), limits);
	pthread_mutex_unlock(&table->lock);
	return code;
}

/* memacctGetLimits(): of the nearest group above that has limits. */
int nvmlDeviceGetMemoryLimits_v1(struct memacct_card *device, struct get_limits *limits)
{
	struct memacct_group *group = NULL;
	char path[MEMACCT_PATH], *slash;
	int code;

	if (!table)
		return NVML_ERROR_UNINITIALIZED;
	table->faults.gets++;
	code = fault(device, table->faults.get_code);
	if (code == NVML_SUCCESS)
		code = group_of(limits->name_space, path);
	if (code != NVML_SUCCESS)
		return code;
	take();
	while (path[0] && !(group = find(path, (unsigned int)(device - table->card)))) {
		slash = strrchr(path, '/');
		if (!slash)
			break;
		*slash = 0;
	}
	if (group) {
		limits->soft = group->soft;
		limits->hard = group->hard;
		limits->used = group->hard - group->available;
	}
	pthread_mutex_unlock(&table->lock);
	return group ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

#endif
