// SPDX-License-Identifier: Apache-2.0
/*
 * first_thread [--dev DIR] BYTES: one thread maps memory by UVM, frees its handle and ends, and so does the first thread of
 * the process. Another one prints "alone", and ends the process when a line comes.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client.h"
#include "uvm_probe.h"

static struct uvm uvm;
static uint64_t size;

static void *map(void *unused)
{
	if (uvm_map(&uvm, uvm.last.handle) != NV_OK || session_free(&uvm.session, uvm.last.handle) != NV_OK)
		exit(1);
	return unused;
}

static void *stay(void *unused)
{
	(void)unused;
	usleep(100000);
	printf("alone\n");
	client_next();
	exit(0);
}

int main(int argc, char **argv)
{
	pthread_t mapping, staying;
	struct settings settings;

	client_begin(&settings, &argc, &argv, 1);
	size = strtoull(argv[0], NULL, 0);
	if (uvm_open(&uvm, &settings) != NV_OK || memory_alloc(&uvm.session, size, &uvm.last) != NV_OK ||
		uvm_range(&uvm, size) != NV_OK)
		return 1;
	if (pthread_create(&mapping, NULL, map, NULL) != 0 || pthread_join(mapping, NULL) != 0 ||
		pthread_create(&staying, NULL, stay, NULL) != 0)
		return 1;
	syscall(SYS_exit, 0);
	return 0;
}
