// SPDX-License-Identifier: Apache-2.0
/*
 * restarted_mapping [--dev DIR] PIECE: while signals keep coming in the midst of its calls, which the kernel starts anew,
 * maps memory by UVM and frees its handle, until it is refused; and after a line gives all ranges back.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "client.h"
#include "uvm_probe.h"

#define MICROSECONDS 300

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

static uint32_t fill(struct uvm *uvm, uint64_t piece)
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

int main(int argc, char **argv)
{
	struct settings settings;
	struct uvm uvm;
	uint32_t status;
	uint64_t piece;

	client_begin(&settings, &argc, &argv);
	if (argc != 1)
		return 2;
	piece = strtoull(argv[0], NULL, 0);
	if (uvm_open(&uvm, &settings) != NV_OK)
		return perror("nvidia-uvm"), 1;
	client_rain(SA_RESTART, MICROSECONDS);
	status = fill(&uvm, piece);
	client_rain(SA_RESTART, 0);
	printf("resting ranges=%u alarms=%ld status=0x%x\n", uvm.count, client_alarms(), status);
	client_next();
	client_rain(SA_RESTART, MICROSECONDS);
	for (status = NV_OK; status == NV_OK && uvm.count > 0;)
		status = uvm_free(&uvm);
	client_rain(SA_RESTART, 0);
	printf("freed left=%u status=0x%x\n", uvm.count, status);
	client_next();
	return 0;
}
