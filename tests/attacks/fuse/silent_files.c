// SPDX-License-Identifier: Apache-2.0
/*
 * silent_files DIR: mounts a FUSE file system there with one file, "file", and never answers a reader. A close is
 * answered unless the caller's program is called cgpud-something. Prints "serving"; ends with standard input, and with
 * it all that waits for it.
 */
#define _GNU_SOURCE

#include "fuse_file.h"

static int is_of_the_engine(uint32_t pid)
{
	char path[64], name[64] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, name, sizeof(name) - 1) < 0)
		name[0] = 0;
	if (fd >= 0)
		close(fd);
	return !strncmp(name, "cgpud", 5) || !strncmp(name, "python", 6);
}

static void serve(const struct fuse_in_header *in)
{
	if (answer_opening(in, 0))
		return;
	switch (in->opcode) {
	case FUSE_FLUSH:
		if (!is_of_the_engine(in->pid))
			answer(in, 0, NULL, 0);
		return;
	case FUSE_READ:
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return;
	case FUSE_RELEASE:
		return answer(in, 0, NULL, 0);
	default:
		return answer(in, ENOSYS, NULL, 0);
	}
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	if (mount_file(argv[1]) < 0)
		return 1;
	printf("serving\n");
	fflush(stdout);
	serve_all(serve);
	umount2(argv[1], MNT_DETACH | MNT_FORCE);
	return 0;
}
