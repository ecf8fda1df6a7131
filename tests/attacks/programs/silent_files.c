// SPDX-License-Identifier: Apache-2.0
/*
 * silent_files DIR: mounts a FUSE file system there with one file, "file", and never answers who reads it. Who closes it is
 * answered unless its program is called cgpud-something. Prints "serving"; ends with standard input, and with it all that
 * waits for it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILE_NODE 2
#define FILE_BYTES (1u << 20)
#define REQUEST_BYTES (1u << 18)
#define FOREVER_S 3600

static int device;

static void answer(const struct fuse_in_header *in, int error, const void *data, size_t bytes)
{
	struct fuse_out_header out = { .len = (uint32_t)(sizeof(out) + bytes), .error = -error, .unique = in->unique };
	struct iovec part[2] = { { &out, sizeof(out) }, { (void *)(uintptr_t)data, bytes } };

	if (writev(device, part, bytes ? 2 : 1) < 0 && errno != ENOENT)
		perror("answer");
}

static struct fuse_attr attributes(uint64_t node)
{
	return (struct fuse_attr){ .ino = node,
		.size = node == FILE_NODE ? FILE_BYTES : 0,
		.mode = node == FILE_NODE ? S_IFREG | 0666 : S_IFDIR | 0777,
		.nlink = 1,
		.blksize = 4096 };
}

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

static void begin(const struct fuse_in_header *in)
{
	struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_write = 4096
	};

	answer(in, 0, &out, sizeof(out));
}

static void serve(const struct fuse_in_header *in)
{
	struct fuse_entry_out entry = {
		.nodeid = FILE_NODE, .entry_valid = FOREVER_S, .attr_valid = FOREVER_S, .attr = attributes(FILE_NODE)
	};
	struct fuse_attr_out attr = { .attr_valid = FOREVER_S, .attr = attributes(in->nodeid) };
	struct fuse_open_out opened = { .open_flags = FOPEN_KEEP_CACHE };

	switch (in->opcode) {
	case FUSE_INIT:
		return begin(in);
	case FUSE_LOOKUP:
		return answer(in, 0, &entry, sizeof(entry));
	case FUSE_GETATTR:
		return answer(in, 0, &attr, sizeof(attr));
	case FUSE_OPEN:
		return answer(in, 0, &opened, sizeof(opened));
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
	static char request[REQUEST_BYTES];
	char options[128];
	struct pollfd wait[2];

	if (argc < 2)
		return 2;
	device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40777,user_id=0,group_id=0,allow_other", device);
	if (device < 0 || mount("silent", argv[1], "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
		perror(argv[1]);
		return 1;
	}
	printf("serving\n");
	fflush(stdout);
	wait[0] = (struct pollfd){ .fd = device, .events = POLLIN };
	wait[1] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
	while (poll(wait, 2, -1) > 0 && !wait[1].revents) {
		if (read(device, request, sizeof(request)) >= (ssize_t)sizeof(struct fuse_in_header))
			serve((struct fuse_in_header *)request);
	}
	umount2(argv[1], MNT_DETACH | MNT_FORCE);
	return 0;
}
