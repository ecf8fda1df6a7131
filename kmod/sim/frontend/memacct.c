// SPDX-License-Identifier: Apache-2.0
/* Charges to cgroups: memacctTryCharge() and memacctReleaseCharge(), see memacct.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memacct.h"
#include "sim.h"

static void take(struct memacct *table)
{
	if (pthread_mutex_lock(&table->lock) == EOWNERDEAD)
		pthread_mutex_consistent(&table->lock);
}

/* The cgroup of version 2 that a process is in; "" when it has ended. */
static void group_of(pid_t process, char *path, size_t room)
{
	char name[48], line[MEMACCT_PATH];
	FILE *file;

	path[0] = 0;
	snprintf(name, sizeof(name), "/proc/%d/cgroup", process);
	file = fopen(name, "re");
	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = 0;
		if (!strncmp(line, "0::", 3))
			snprintf(path, room, "%s", line + 3);
	}
	if (file)
		fclose(file);
}

static struct memacct_group *find(struct memacct *table, const char *path, uint32_t card)
{
	uint32_t i;

	for (i = 0; i < MEMACCT_GROUPS; i++)
		if (table->group[i].path[0] && table->group[i].card == card && !strcmp(table->group[i].path, path))
			return &table->group[i];
	return NULL;
}

/* The nearest group above that has limits, itself included: they do not nest. */
static struct memacct_group *limiting(struct memacct *table, char *path, uint32_t card)
{
	struct memacct_group *group = NULL;
	char *slash;

	while (path[0] && !(group = find(table, path, card))) {
		slash = strrchr(path, '/');
		if (!slash || !path[1])
			break;
		slash[slash == path] = 0;
	}
	return group;
}

static uint32_t charge_group(struct sim *sim, uint32_t card, pid_t process, uint64_t bytes, uint32_t *charge)
{
	struct memacct_group *group;
	char path[MEMACCT_PATH];
	uint32_t status = NV_OK;

	*charge = 0;
	/* Of the process that made the client. When that has ended nothing is charged. */
	group_of(process, path, sizeof(path));
	take(sim->memacct);
	group = limiting(sim->memacct, path, card);
	if (group && bytes > group->available) {
		status = NV_ERR_RESOURCE_ACCOUNTING_HARD_LIMIT_EXCEEDED;
	} else if (group) {
		group->available -= bytes;
		*charge = (uint32_t)(group - sim->memacct->group) + 1;
	}
	pthread_mutex_unlock(&sim->memacct->lock);
	return status;
}

static void release_group(struct sim *sim, uint32_t charge, uint64_t bytes)
{
	take(sim->memacct);
	sim->memacct->group[charge - 1].available += bytes;
	pthread_mutex_unlock(&sim->memacct->lock);
}

/* memacctSetLimits() */
static uint32_t limit_group(struct sim *sim, uint32_t card, pid_t process, uint64_t soft, uint64_t hard)
{
	struct memacct_group *group;
	uint32_t status = NV_OK, i;
	char path[MEMACCT_PATH];
	uint64_t used = 0;

	group_of(process, path, sizeof(path));
	if (!path[0] || !strcmp(path, "/"))
		return NV_ERR_NOT_SUPPORTED;
	take(sim->memacct);
	group = find(sim->memacct, path, card);
	if (group)
		used = group->hard - group->available;
	for (i = 0; !group && i < MEMACCT_GROUPS; i++)
		if (!sim->memacct->group[i].path[0])
			group = &sim->memacct->group[i];
	if (!group) {
		status = NV_ERR_NO_MEMORY;
	} else if (used > hard) {
		status = NV_ERR_INVALID_LIMIT;
	} else {
		snprintf(group->path, sizeof(group->path), "%s", path);
		group->card = card;
		group->soft = soft;
		group->hard = hard;
		group->available = hard - used;
	}
	pthread_mutex_unlock(&sim->memacct->lock);
	return status;
}

bool memacct_open(struct sim *sim, const char *path)
{
	pthread_mutexattr_t attr;
	struct memacct *table;
	uint32_t i;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, sizeof(*table)) < 0)
		return false;
	table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (table == MAP_FAILED)
		return false;
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&table->lock, &attr);
	snprintf(table->version, sizeof(table->version), "%s", sim->version);
	for (i = 0; i < sim->card_count; i++) {
		snprintf(table->card[i].uuid, sizeof(table->card[i].uuid), "%s", sim->cards[i].uuid_text);
		table->card[i].bytes = sim->cards[i].bytes;
	}
	table->cards = sim->card_count;
	sim->memacct = table;
	sim->charge = charge_group;
	sim->uncharge = release_group;
	sim->limit = limit_group;
	return true;
}
