// SPDX-License-Identifier: Apache-2.0
/*
 * repeats [--dev DIR]: a thread repeats its own call to the last byte, after another thread has undone what that
 * did. Prints the status of every step; then holds what it has until the end of standard input.
 */
#include <pthread.h>
#include <stdio.h>

#include "client.h"

#define OBJECT 0x500u
#define BYTES (64ull << 20)

static struct settings settings;
static struct session session;

static uint32_t make(struct rm_ioctl *io)
{
	return driver_make(&settings, session.ctl, io);
}

static void *other_allocates(void *unused)
{
	printf("other-alloc status=0x%x\n", client_memory(&session, OBJECT, BYTES));
	return unused;
}

static void *other_frees(void *unused)
{
	printf("other-free status=0x%x\n", session_free(&session, OBJECT));
	return unused;
}

static void by_another_thread(void *(*what)(void *))
{
	pthread_t thread;

	pthread_create(&thread, NULL, what, NULL);
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	struct rm_ioctl free_object, alloc;
	uint8_t params[CLIENT_PARAMS] = { 0 };

	client_begin(&settings, &argc, &argv, 0);
	client_open(&session, &settings);
	free_object = rm_free_ioctl(settings.abi, session.client, session.device, OBJECT);
	by_another_thread(other_allocates);
	printf("free status=0x%x\n", make(&free_object));
	by_another_thread(other_allocates);
	printf("free-again status=0x%x\n", make(&free_object));
	/* Shows whether the handle is free. */
	alloc = client_memory_ioctl(&session, OBJECT, params, BYTES);
	printf("alloc status=0x%x\n", make(&alloc));
	by_another_thread(other_frees);
	printf("alloc-again status=0x%x\n", make(&alloc));
	by_another_thread(other_frees);
	printf("done\n");
	client_next();
	return 0;
}
