// SPDX-License-Identifier: Apache-2.0
/*
 * keeper FILE: keeps the first card started, and known to UVM, as nvidia-persistenced --uvm-persistence-mode does. Writes its
 * process's number to FILE once that is so.
 */
#include <stdio.h>
#include <unistd.h>

#include "uvm_probe.h"

int main(int argc, char **argv)
{
	struct uvm uvm = { .settings = { .dev = "/dev", .magic = NV_IOCTL_MAGIC, .direction = 3, .own_handles = true },
		.fd = -1,
		.mm_fd = -1,
		.dmabuf = -1 };
	uint32_t status;
	FILE *file;

	if (argc != 2 || !driver_version(&uvm.settings, driver_open(&uvm.settings, "nvidiactl")))
		return 2;
	session_init(&uvm.session, &uvm.settings, 0);
	status = session_open(&uvm.session);
	if (status == NV_OK)
		status = uvm_start(&uvm);
	if (status != NV_OK || driver_open(&uvm.settings, "nvidia0") < 0) {
		fprintf(stderr, "keeper: status 0x%x\n", status);
		return 1;
	}
	/* Of the driver's clients it is none. */
	session_drop(&uvm.session);
	file = fopen(argv[1], "w");
	if (!file || fprintf(file, "%d\n", getpid()) < 0 || fclose(file) != 0)
		return 1;
	for (;;)
		pause();
}
