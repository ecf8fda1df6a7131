// SPDX-License-Identifier: Apache-2.0
/*
 * keeper FILE: keeps the first card started, and known to UVM, as nvidia-persistenced --uvm-persistence-mode does. Writes its
 * process's number to FILE once that is so.
 */
#include <stdio.h>
#include <unistd.h>

#include "client.h"
#include "uvm_probe.h"

int main(int argc, char **argv)
{
	struct settings settings;
	uint32_t status;
	struct uvm uvm;
	FILE *file;

	client_begin(&settings, &argc, &argv, 1);
	status = uvm_open(&uvm, &settings);
	if (status != NV_OK || driver_open(&settings, "nvidia0") < 0) {
		fprintf(stderr, "keeper: status 0x%x\n", status);
		return 1;
	}
	/* The keeper is no client of the driver. */
	session_drop(&uvm.session);
	file = fopen(argv[0], "w");
	if (!file || fprintf(file, "%d\n", getpid()) < 0 || fclose(file) != 0)
		return 1;
	client_rest();
}
