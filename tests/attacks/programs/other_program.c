// SPDX-License-Identifier: Apache-2.0
/*
 * other_program [--dev DIR]: has the engine write the answer of a driver call into another program. The first nested buffer
 * lies in memory whose writing is held up (userfaultfd, write protection) by a child, until another thread has executed
 * another program in the place of this one: it has the same number, and memory of its own where the call's structure was.
 * Prints "resting", with whether that memory was changed: that of the other program.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client.h"

#define PAGE 4096ul
#define AIM ((uint8_t *)0x500000000000ul) /* place of the call's structure, and of the other program's data */
#define HELD ((uint8_t *)0x510000000000ul)
#define MARK 0xa5
#define WATCH_US 3000000

static uint8_t *page_at(uint8_t *at)
{
	uint8_t *page =
		mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (page != at) {
		perror("mmap");
		exit(1);
	}
	return page;
}

/* The other program. */
static int be_the_other(void)
{
	uint8_t *page = page_at(AIM);
	unsigned int i, changed = 0, waited;

	memset(page, MARK, PAGE);
	for (waited = 0; waited < WATCH_US && !changed; waited += 10000) {
		usleep(10000);
		for (i = 0; i < PAGE; i++)
			changed += page[i] != MARK;
	}
	printf("resting changed=%u\n", changed);
	fflush(stdout);
	client_next();
	return 0;
}

/* In a child: let the write go on when the program is another one. */
static void hold_up(int fd, int told)
{
	struct uffdio_writeprotect free_again = { .range = { (uintptr_t)HELD, PAGE }, .mode = 0 };
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	struct uffd_msg message;

	if (poll(&wait, 1, 5000) == 1 && read(fd, &message, sizeof(message)) == sizeof(message)) {
		/* The other thread executes now. */
		if (write(told, "x", 1) != 1)
			_exit(1);
		usleep(500000);
		ioctl(fd, UFFDIO_WRITEPROTECT, &free_again);
	} else if (write(told, "x", 1) != 1) {
		_exit(1);
	}
	sleep(3);
	_exit(0);
}

/* Executes in the place of the whole process: the number of its first thread, which makes the call, is the other program's. */
static void *execute(void *arg)
{
	char byte;

	if (read(*(int *)arg, &byte, 1) == 1)
		execl("/proc/self/exe", "other_program", "other", NULL);
	_exit(1);
}

/* A question about sizes, which the engine asks the driver itself: the list is the nested buffer. */
static struct rm_ioctl prepare(const struct session *session)
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_V2_PARAMS *at =
		&session->settings->abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS;
	struct rm_ioctl io = rm_control_ioctl(session->settings->abi, session->client, session->subdevice,
		NV2080_CTRL_CMD_FB_GET_INFO_V2, HELD, at->bytes);

	memcpy(AIM, io.data, io.bytes);
	put32(HELD, at->fbInfoListSize, 1);
	return io;
}

int main(int argc, char **argv)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP };
	struct uffdio_register range = { .range = { (uintptr_t)HELD, PAGE }, .mode = UFFDIO_REGISTER_MODE_WP };
	struct uffdio_writeprotect protect = { .range = range.range, .mode = UFFDIO_WRITEPROTECT_MODE_WP };
	struct session session;
	struct settings settings;
	struct rm_ioctl io;
	pthread_t thread;
	int fd, told[2];

	if (argc == 2 && !strcmp(argv[1], "other"))
		return be_the_other();
	client_begin(&settings, &argc, &argv, 0);
	client_open(&session, &settings);
	fd = (int)syscall(SYS_userfaultfd, O_NONBLOCK);
	page_at(AIM);
	page_at(HELD);
	io = prepare(&session);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) < 0 || ioctl(fd, UFFDIO_REGISTER, &range) < 0 ||
		ioctl(fd, UFFDIO_WRITEPROTECT, &protect) < 0 || pipe(told) < 0) {
		perror("userfaultfd");
		return 1;
	}
	if (fork() == 0)
		hold_up(fd, told[1]);
	pthread_create(&thread, NULL, execute, &told[0]);
	ioctl(session.ctl, _IOC(3u, NV_IOCTL_MAGIC, io.nr, io.bytes), AIM);
	pause();
	return 1;
}
