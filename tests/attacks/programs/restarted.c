// SPDX-License-Identifier: Apache-2.0
/*
 * restarted [--dev DIR] restart|interrupt|mapping PIECE, or export ROUNDS: takes memory in pieces until it is refused, while signals keep coming in
 * the midst of its calls: the kernel starts each anew, or it ends with EINTR and is made anew here. Rests with what it got.
 *   restart    allocates; each piece is duplicated, and its first handle freed
 *   interrupt  allocates, and makes interrupted calls anew. The driver chooses the handles, so that what a call made that is told
 *              to have failed is known to nobody
 *   mapping    maps by UVM, and frees the handles; after a line it gives all ranges back
 *   export     exports one object on a new file each time, and imports it again
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client.h"
#include "uvm_probe.h"

#define MICROSECONDS 300
#define MOST 100000
#define EXPORTED (1ull << 20)

/* Calls that go on reach a simulated driver as requests, which end with EINTR while they wait for their turn. */
static uint32_t range(struct uvm *uvm, uint64_t size)
{
	uint32_t status;

	while ((status = uvm_range(uvm, size)) == RM_ERRNO && errno == EINTR)
		;
	return status;
}

static uint32_t map(struct uvm *uvm, uint32_t handle)
{
	uint32_t status;

	while ((status = uvm_map(uvm, handle)) == RM_ERRNO && errno == EINTR)
		;
	return status;
}

static uint32_t fill_by_mappings(struct uvm *uvm, uint64_t piece)
{
	struct grant grant;
	uint32_t status;

	for (;;) {
		status = memory_alloc(&uvm->session, piece, &grant);
		if (status == NV_OK)
			status = range(uvm, piece);
		if (status == NV_OK)
			status = map(uvm, grant.handle);
		if (status == NV_OK)
			status = session_free(&uvm->session, grant.handle);
		if (status != NV_OK)
			return status;
	}
}

static void by_mappings(struct settings *settings, uint64_t piece)
{
	uint32_t status;
	struct uvm uvm;

	if (uvm_open(&uvm, settings) != NV_OK) {
		perror("nvidia-uvm");
		exit(1);
	}
	client_rain(SA_RESTART, MICROSECONDS);
	status = fill_by_mappings(&uvm, piece);
	client_rain(SA_RESTART, 0);
	printf("resting ranges=%u alarms=%ld status=0x%x\n", uvm.count, client_alarms(), status);
	client_next();
	client_rain(SA_RESTART, MICROSECONDS);
	for (status = NV_OK; status == NV_OK && uvm.count > 0;)
		status = uvm_free(&uvm);
	client_rain(SA_RESTART, 0);
	printf("freed left=%u status=0x%x\n", uvm.count, status);
}

static void by_exports(const struct settings *settings, uint64_t rounds)
{
	struct session session;
	struct grant grant;
	int failed, fd;

	client_open(&session, settings);
	failed = memory_alloc(&session, EXPORTED, &grant) != NV_OK;
	client_rain(SA_RESTART, MICROSECONDS / 2);
	for (; rounds > 0 && !failed; rounds--) {
		failed += export_memory(&session, 0, &fd) != NV_OK;
		failed += import_memory(&session, fd, 0) != NV_OK;
		failed += memory_free_at(&session, session.count - 1) != NV_OK;
		close(fd);
	}
	client_rain(0, 0);
	printf("resting failed=%d\n", failed);
	client_next();
}

static void by_allocations(struct settings *settings, uint64_t piece, bool restart)
{
	uint64_t bytes = 0, interrupted = 0;
	uint32_t status = NV_OK;
	struct session session;
	struct grant grant;

	client_open(&session, settings);
	settings->own_handles = false;
	client_rain(restart ? SA_RESTART : 0, MICROSECONDS);
	while (session.count < MOST) {
		status = memory_alloc(&session, piece, &grant);
		if (status == RM_ERRNO && errno == EINTR && ++interrupted < MOST)
			continue;
		if (status != NV_OK)
			break;
		bytes += grant.size;
		if (restart && memory_dup(&session, &grant) == NV_OK)
			memory_free_at(&session, session.count - 2);
	}
	client_rain(SA_RESTART, 0);
	printf("resting bytes=%llu interrupted=%llu alarms=%ld status=0x%x\n", (unsigned long long)bytes,
		(unsigned long long)interrupted, client_alarms(), status);
}

int main(int argc, char **argv)
{
	struct settings settings;
	uint64_t piece;

	client_begin(&settings, &argc, &argv, 2);
	piece = strtoull(argv[1], NULL, 0);
	if (strcmp(argv[0], "mapping") == 0)
		by_mappings(&settings, piece);
	else if (strcmp(argv[0], "export") == 0)
		by_exports(&settings, piece);
	else
		by_allocations(&settings, piece, strcmp(argv[0], "restart") == 0);
	client_next();
	return 0;
}
