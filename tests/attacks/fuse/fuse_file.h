/* SPDX-License-Identifier: Apache-2.0 */
/* A FUSE file system with one file, for servers that do not answer all that the kernel asks. */
#ifndef ATTACK_FUSE_FILE_H
#define ATTACK_FUSE_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <stdio.h>
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

static inline void answer(const struct fuse_in_header *in, int error, const void *data, size_t bytes)
{
	struct fuse_out_header out = { .len = (uint32_t)(sizeof(out) + bytes), .error = -error, .unique = in->unique };
	struct iovec part[2] = { { &out, sizeof(out) }, { (void *)(uintptr_t)data, bytes } };

	if (writev(device, part, bytes ? 2 : 1) < 0 && errno != ENOENT)
		perror("answer");
}

static inline struct fuse_attr attributes(uint64_t node)
{
	return (struct fuse_attr){ .ino = node,
		.size = node == FILE_NODE ? FILE_BYTES : 0,
		.mode = node == FILE_NODE ? S_IFREG | 0666 : S_IFDIR | 0777,
		.nlink = 1,
		.blksize = 4096 };
}

/* Answer requests that find and open the file, as every server does. flags: of FUSE_INIT. 0: it is another request. */
static inline int answer_opening(const struct fuse_in_header *in, uint32_t flags)
{
	struct fuse_init_out begin = {
		.major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_write = 4096, .flags = flags
	};
	struct fuse_entry_out entry = {
		.nodeid = FILE_NODE, .entry_valid = FOREVER_S, .attr_valid = FOREVER_S, .attr = attributes(FILE_NODE)
	};
	struct fuse_attr_out attr = { .attr_valid = FOREVER_S, .attr = attributes(in->nodeid) };
	struct fuse_open_out opened = { .open_flags = FOPEN_KEEP_CACHE };

	switch (in->opcode) {
	case FUSE_INIT:
		answer(in, 0, &begin, sizeof(begin));
		return 1;
	case FUSE_LOOKUP:
		answer(in, 0, &entry, sizeof(entry));
		return 1;
	case FUSE_GETATTR:
		answer(in, 0, &attr, sizeof(attr));
		return 1;
	case FUSE_OPEN:
		answer(in, 0, &opened, sizeof(opened));
		return 1;
	default:
		return 0;
	}
}

/* 0 when it is mounted there. */
static inline int mount_file(const char *folder)
{
	char options[128];

	device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40777,user_id=0,group_id=0,allow_other", device);
	if (device >= 0 && mount("silent", folder, "fuse", MS_NOSUID | MS_NODEV, options) == 0)
		return 0;
	perror(folder);
	return -1;
}

/* The next request; NULL: there is none. */
static inline const struct fuse_in_header *next_request(void)
{
	static _Alignas(8) char request[REQUEST_BYTES];

	return read(device, request, sizeof(request)) < (ssize_t)sizeof(struct fuse_in_header) ?
		NULL :
		(const struct fuse_in_header *)(const void *)request;
}

/* Serve requests until the standard input ends. */
static inline void serve_all(void (*serve)(const struct fuse_in_header *in))
{
	struct pollfd wait[2] = { { .fd = device, .events = POLLIN }, { .fd = STDIN_FILENO, .events = POLLIN } };
	const struct fuse_in_header *in;

	while (poll(wait, 2, -1) > 0 && !wait[1].revents) {
		in = next_request();
		if (in)
			serve(in);
	}
}

#endif
