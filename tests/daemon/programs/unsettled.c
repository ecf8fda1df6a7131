// SPDX-License-Identifier: Apache-2.0
/*
 * unsettled [--dev DIR] free: frees memory on an open file that is not its client's, which the driver refuses.
 * unsettled [--dev DIR] alloc: allocates, and then has another open file under the descriptor of the call.
 * Each goes on with a line of standard input; prints the status of its call, and holds what it has.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

#define OBJECT 0x500u
#define BYTES (1ull << 30)

static struct settings settings;
static struct session session;

static void *allocate(void *unused)
{
	printf("alloc status=0x%x\n", client_memory(&session, OBJECT, BYTES));
	return unused;
}

static void free_elsewhere(int other)
{
	struct rm_ioctl io = rm_free_ioctl(settings.abi, session.client, session.device, OBJECT);

	client_memory(&session, OBJECT, BYTES);
	printf("ready\n");
	client_next();
	printf("free status=0x%x\n", driver_make(&settings, other, &io));
}

static void allocate_and_exchange(int other)
{
	int own = dup(session.ctl);
	pthread_t thread;

	printf("ready\n");
	client_next();
	pthread_create(&thread, NULL, allocate, NULL);
	client_next();
	dup2(other, session.ctl);
	printf("exchanged\n");
	client_next();
	dup2(own, session.ctl);
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	int other;

	client_begin(&settings, &argc, &argv, 1);
	client_open(&session, &settings);
	setvbuf(stdout, NULL, _IONBF, 0);
	other = driver_open(&settings, "nvidiactl");
	if (strcmp(argv[0], "free") == 0)
		free_elsewhere(other);
	else
		allocate_and_exchange(other);
	client_next();
	return 0;
}
