// SPDX-License-Identifier: Apache-2.0
/*
 * own_table [--dev DIR]: makes a client from the first thread, from one that shares its descriptors, and from one that has a table
 * of its own. Prints the errno of each call, 0 where it was made.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "client.h"

static struct session session;

static int make_client(void)
{
	struct session other = session;

	other.client = 0;
	errno = 0;
	return session_alloc(&other, 0, NV01_ROOT_CLIENT, NULL, 0, &other.client) ? errno : 0;
}

static void *shared(void *result)
{
	*(int *)result = make_client();
	return NULL;
}

static void *own(void *result)
{
	*(int *)result = unshare(CLONE_FILES) ? -1 : make_client();
	return NULL;
}

int main(int argc, char **argv)
{
	void *(*const bodies[])(void *) = { shared, own };
	int results[2] = { -1, -1 }, i;
	struct settings settings;
	pthread_t thread;

	client_begin(&settings, &argc, &argv);
	client_open(&session, &settings);
	printf("first=%d ", make_client());
	for (i = 0; i < 2; i++) {
		if (pthread_create(&thread, NULL, bodies[i], &results[i]) == 0)
			pthread_join(thread, NULL);
	}
	printf("shared=%d own=%d\n", results[0], results[1]);
	return 0;
}
