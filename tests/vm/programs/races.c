// SPDX-License-Identifier: Apache-2.0
/*
 * races LIMIT ATTEMPTS THREADS|killed|CGROUP: attempts to hold more than LIMIT bytes, by changing the arguments of calls
 * while they are under way. With "killed" the work is done by processes that die in the middle of it; with a cgroup a
 * second process works from there on the same files. Rests at the end, with what it holds, until it is killed.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "races.h"

#define WORKERS 3u
#define WORKERS_MAX 16u

static struct settings settings;

static bool goes_on(const struct shared *shared)
{
	return atomic_load(&shared->attempts) < shared->most;
}

static struct attacker attacker_of(struct shared *shared, uint64_t number)
{
	return (struct attacker){ .shared = shared,
		.settings = &settings,
		.random = (number + 1) * 0x9e3779b97f4a7c15ull ^ (uint64_t)getpid() };
}

static void *work(void *argument)
{
	static atomic_ullong numbers;
	struct attacker attacker = attacker_of(argument, atomic_fetch_add(&numbers, 1));
	uint32_t i;

	while (goes_on(attacker.shared)) {
		for (i = below(&attacker, 6); i > 0; i--)
			flip(&attacker);
		call_once(&attacker);
	}
	return NULL;
}

static void *only_flip(void *argument)
{
	struct attacker attacker = attacker_of(argument, 1000);

	while (goes_on(attacker.shared))
		flip(&attacker);
	return NULL;
}

static bool open_files(struct shared *shared)
{
	uint32_t i;

	for (i = 0; i < FILES; i++) {
		uint8_t data[4] = { 0 };

		shared->ctl[i] = driver_open(&settings, "nvidiactl");
		shared->card[i] = driver_open(&settings, "nvidia0");
		if (shared->ctl[i] < 0 || shared->card[i] < 0)
			return false;
		put32(data, settings.abi->nv_ioctl_register_fd_t.ctl_fd, (uint32_t)shared->ctl[i]);
		driver_call(&settings, shared->card[i], NV_ESC_REGISTER_FD, data, sizeof(data));
		/* Handles of the range that the driver takes its own from, so that a number comes again and again. */
		shared->client[i] = 0xc1d80000u + ((uint32_t)getpid() & 0xffu) * FILES + i;
	}
	return true;
}

/* On files that are open. */
static bool run_threads(struct shared *shared, uint32_t workers)
{
	pthread_t thread[WORKERS_MAX + 1];
	uint32_t i;

	for (i = 0; i <= workers; i++) {
		if (pthread_create(&thread[i], NULL, i < workers ? work : only_flip, shared))
			return false;
	}
	for (i = 0; i <= workers; i++)
		pthread_join(thread[i], NULL);
	return true;
}

static bool prepare(struct shared *shared)
{
	struct attacker attacker = attacker_of(shared, 2000);

	if (!open_files(shared))
		return false;
	flip_prepare(&attacker);
	call_make_clients(&attacker);
	return true;
}

static bool race(struct shared *shared, uint32_t workers)
{
	return prepare(shared) && run_threads(shared, workers);
}

static bool move_to(const char *cgroup)
{
	char path[4096];
	bool moved;
	FILE *file;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	file = fopen(path, "w");
	moved = file && fprintf(file, "%d", (int)getpid()) > 0;
	return file && fclose(file) == 0 && moved;
}

/* The child stays as it is, with the files, as the parent does. */
static bool race_shared(struct shared *shared, const char *cgroup)
{
	pid_t child;
	bool moved;

	if (!prepare(shared))
		return false;
	child = fork();
	if (child == 0) {
		moved = move_to(cgroup) && run_threads(shared, WORKERS - 1);
		atomic_store(&shared->second, moved ? 1 : -1);
		client_rest();
	}
	if (child < 0 || !run_threads(shared, WORKERS - 1))
		return false;
	while (atomic_load(&shared->second) == 0)
		usleep(10000);
	return atomic_load(&shared->second) > 0;
}

/* Processes one after another, each killed some hundred attempts after its start. */
static bool race_killed(struct shared *shared)
{
	struct attacker attacker = attacker_of(shared, 3000);

	while (goes_on(shared)) {
		uint64_t until = atomic_load(&shared->attempts) + 300 + below(&attacker, 700);
		pid_t child = fork();
		int status;

		if (child == 0)
			_exit(race(shared, WORKERS) ? 0 : 1);
		if (child < 0)
			return false;
		while (atomic_load(&shared->attempts) < until && waitpid(child, &status, WNOHANG) == 0)
			usleep(1000);
		kill(child, SIGKILL);
		if (waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) != 0)
			return false;
	}
	return true;
}

static bool by_mode(struct shared *shared, const char *mode)
{
	uint32_t workers = (uint32_t)strtoul(mode, NULL, 0);

	if (mode[0] == '/')
		return race_shared(shared, mode);
	return workers > 0 ? race(shared, workers > WORKERS_MAX ? WORKERS_MAX : workers) : race_killed(shared);
}

int main(int argc, char **argv)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	time_t start = time(NULL);

	client_begin(&settings, &argc, &argv, 0);
	settings.own_handles = false;
	if (argc != 3 || shared == MAP_FAILED)
		return 2;
	shared->limit = strtoull(argv[0], NULL, 0);
	shared->most = strtoull(argv[1], NULL, 0);
	if (!by_mode(shared, argv[2]))
		return perror("races"), 1;
	printf("resting attempts=%llu taken=%llu leaks=%llu seconds=%llu\n", atomic_load(&shared->attempts),
		atomic_load(&shared->taken), atomic_load(&shared->leaks), (unsigned long long)(time(NULL) - start));
	client_rest();
}
