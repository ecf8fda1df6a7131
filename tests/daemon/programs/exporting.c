// SPDX-License-Identifier: Apache-2.0
/*
 * exporting --dev DIR ROUNDS: exports one object on a new file each time, and imports it again, while signals keep
 * coming in the midst of the calls, which the kernel starts anew. Prints how many calls did not succeed.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "rm_calls.h"

#define OBJECT 0x500u
#define IMPORT 0x600u
#define MICROSECONDS 150

static void ignore(int number)
{
	(void)number;
}

static void rain(int microseconds)
{
	struct sigaction action = { .sa_handler = ignore, .sa_flags = SA_RESTART };
	struct itimerval timer = { 0 };

	sigaction(SIGALRM, &action, NULL);
	timer.it_interval.tv_usec = microseconds;
	timer.it_value = timer.it_interval;
	setitimer(ITIMER_REAL, &timer, NULL);
}

static uint32_t control(const struct rm *rm, uint32_t command, uint8_t *params, uint32_t bytes)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &rm->abi->NVOS54_PARAMETERS;
	uint64_t pointer = (uintptr_t)params;
	uint8_t data[64] = { 0 };

	put32(data, at->hClient, rm->client);
	put32(data, at->hObject, rm->client);
	put32(data, at->cmd, command);
	put32(data, at->paramsSize, bytes);
	memcpy(data + at->params, &pointer, sizeof(pointer));
	return rm_ioctl(rm, NV_ESC_RM_CONTROL, data, at->bytes) < 0 ? ~0u : get32(data, at->status);
}

static uint32_t export(const struct rm *rm, int fd)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS *at =
		&rm->abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS;
	uint8_t params[64] = { 0 };

	put32(params, at->object_type, NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM);
	put32(params, at->object_data_rmObject_hDevice, DEVICE);
	put32(params, at->object_data_rmObject_hParent, DEVICE);
	put32(params, at->object_data_rmObject_hObject, OBJECT);
	put32(params, at->fd, (uint32_t)fd);
	return control(rm, NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, params, at->bytes);
}

static uint32_t import(const struct rm *rm, int fd)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS *at =
		&rm->abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS;
	uint8_t params[64] = { 0 };

	put32(params, at->fd, (uint32_t)fd);
	put32(params, at->object_type, NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM);
	put32(params, at->object_data_rmObject_hDevice, DEVICE);
	put32(params, at->object_data_rmObject_hParent, DEVICE);
	put32(params, at->object_data_rmObject_hObject, IMPORT);
	return control(rm, NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD, params, at->bytes);
}

int main(int argc, char **argv)
{
	uint8_t data[64] = { 0 }, params[256] = { 0 };
	int rounds = argc == 4 ? atoi(argv[3]) : 0, failed = 0, fd;
	char path[4096], line[16];
	struct rm rm;

	if (argc != 4 || rm_open(&rm, argv[2]))
		return 1;
	memory_fill(&rm, params, 1 << 20);
	alloc_fill(&rm, data, DEVICE, OBJECT, NV01_MEMORY_LOCAL_USER, params);
	if (alloc_call(&rm, data))
		return 1;
	snprintf(path, sizeof(path), "%s/nvidiactl", argv[2]);
	rain(MICROSECONDS);
	while (rounds--) {
		uint8_t free[64] = { 0 };

		fd = open(path, O_RDWR);
		failed += export(&rm, fd) != 0;
		failed += import(&rm, fd) != 0;
		free_fill(&rm, free, IMPORT);
		failed += free_call(&rm, free) != 0;
		close(fd);
	}
	rain(0);
	printf("done failed=%d\n", failed);
	fflush(stdout);
	return fgets(line, sizeof(line), stdin) == NULL;
}
