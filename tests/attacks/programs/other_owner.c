// SPDX-License-Identifier: Apache-2.0
/*
 * other_owner [--dev DIR] HOW BYTES: maps managed memory in an address space that the process which has mapped it leaves:
 *   sharing  a process with the same memory maps, and ends
 *   exec     it executes another program
 *   leader   another thread maps, and the first one ends
 * The other process prints "mapping" and its number. Prints "mapped", keeps it until a line comes, unmaps it and prints
 * "unmapped".
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client.h"

#define STACK (1ul << 20)

static struct settings settings;
static uint8_t *place;
static uint64_t size;
static int done[2];
static const char *how;

static void map(void)
{
	int uvm = driver_open(&settings, "nvidia-uvm");

	if (!client_map_managed(&settings, uvm, place, size)) {
		perror("nvidia-uvm");
		_exit(1);
	}
	close(uvm);
}

static void rest(void)
{
	printf("mapped\n");
	client_next();
	munmap(place, size);
	printf("unmapped\n");
	client_next();
	_exit(0);
}

/* In the other process. */
static int map_and_leave(void *unused)
{
	(void)unused;
	dprintf(STDOUT_FILENO, "mapping %d\n", (int)syscall(SYS_getpid));
	map();
	if (write(done[1], "", 1) != 1)
		return 1;
	if (strcmp(how, "exec") == 0)
		execl("/bin/sleep", "sleep", "1000", (char *)NULL);
	syscall(SYS_exit_group, 0);
	return 1;
}

static void *map_and_rest(void *unused)
{
	char nothing;

	map();
	/* The first thread has ended. */
	while (read(done[0], &nothing, 1) != 1)
		;
	usleep(100000);
	rest();
	return unused;
}

static void by_another_process(void)
{
	uint8_t *stack = malloc(STACK);
	char nothing;

	if (!stack || clone(map_and_leave, stack + STACK, CLONE_VM | SIGCHLD, NULL) < 0 ||
		read(done[0], &nothing, 1) != 1) {
		perror("clone");
		exit(1);
	}
	usleep(100000);
	rest();
}

int main(int argc, char **argv)
{
	pthread_t thread;

	client_begin(&settings, &argc, &argv, 0);
	if (argc != 2 || pipe(done) != 0)
		return 2;
	how = argv[0];
	size = strtoull(argv[1], NULL, 0);
	place = client_reserve(size);
	if (!place)
		return 1;
	/* The executed program ends with us. */
	signal(SIGCHLD, SIG_IGN);
	if (strcmp(how, "leader") != 0)
		by_another_process();
	if (pthread_create(&thread, NULL, map_and_rest, NULL) != 0 || write(done[1], "", 1) != 1)
		return 1;
	syscall(SYS_exit, 0);
	return 0;
}
