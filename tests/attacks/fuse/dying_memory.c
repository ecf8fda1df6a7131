// SPDX-License-Identifier: Apache-2.0
/*
 * dying_memory [--dev DIR] FOLDER: has the engine, which reads a process's memory, be its last user, and so take it
 * apart. The arguments of a driver call lie in a page of a file of FOLDER, whose file system this program serves; that
 * is filled in once the caller has been killed. Also mapped is a changed page, whose change is never taken. Prints
 * "caught" when that is waited for; ends with standard input, and with it all that waits.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "client.h"
#include "fuse_file.h"

/* Far enough from the changed page: the kernel's read-ahead reaches none of these arguments. */
#define ARGUMENTS_AT (FILE_BYTES / 2)

static const char *folder;
static pid_t caller;

static void unmount(void)
{
	umount2(folder, MNT_DETACH | MNT_FORCE);
}

/* The engine reads the arguments, and so uses the memory: that is the last one to do so then. */
static void end_caller(void)
{
	siginfo_t info;

	kill(caller, SIGKILL);
	waitid(P_PID, (id_t)caller, &info, WEXITED | WNOWAIT);
}

static void serve(const struct fuse_in_header *in)
{
	static const char zeros[4096];
	const struct fuse_read_in *asked = (const void *)(in + 1);

	if (answer_opening(in, FUSE_WRITEBACK_CACHE))
		return;
	switch (in->opcode) {
	case FUSE_READ:
		if (asked->offset + asked->size > ARGUMENTS_AT)
			end_caller();
		return answer(in, 0, zeros, sizeof(zeros));
	case FUSE_WRITE:
	case FUSE_SETATTR:
		printf("caught\n");
		fflush(stdout);
		return;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return;
	default:
		return answer(in, in->opcode == FUSE_FLUSH || in->opcode == FUSE_RELEASE ? 0 : ENOSYS, NULL, 0);
	}
}

static void call(const struct settings *settings)
{
	char path[4096];
	volatile uint8_t *changed;
	void *arguments;
	int node, file;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(device);
	snprintf(path, sizeof(path), "%s/nvidiactl", settings->dev);
	node = open(path, O_RDWR);
	snprintf(path, sizeof(path), "%s/file", folder);
	file = open(path, O_RDWR);
	changed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	arguments = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, ARGUMENTS_AT);
	close(file);
	changed[0] = 1;
	ioctl(node, _IOC(3u, NV_IOCTL_MAGIC, NV_ESC_RM_ALLOC, 32), arguments);
	_exit(1);
}

int main(int argc, char **argv)
{
	struct settings settings;

	client_begin(&settings, &argc, &argv, 0);
	if (argc < 1 || mount_file(argv[0]) < 0)
		return 2;
	folder = argv[0];
	atexit(unmount);
	caller = fork();
	if (caller == 0)
		call(&settings);
	serve_all(serve);
	return 0;
}
