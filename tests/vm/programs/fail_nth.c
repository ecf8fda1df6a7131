// SPDX-License-Identifier: Apache-2.0
/*
 * fail_nth inside | fail_nth outside [NODE...]  carries out steps with the first, the second, the third of the kernel's
 * fallible operations made to fail, each on and on until one passes whole. /proc/thread-self/fail-nth does that:
 * Documentation/fault-injection/fault-injection.rst. Ends with "done" and waits for its standard input to end.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "probe.h"

#define TRIES_MAX 500u
#define MEMORY_BYTES 1048576u

static struct settings settings = { .dev = "/dev", .magic = NV_IOCTL_MAGIC, .direction = 3, .own_handles = true };
static struct session session;
static struct grant grant;
static const char *node;

void report(uint32_t status, const char *format, ...)
{
	(void)status;
	(void)format;
}

struct step {
	const char *name;
	enum via via;
	bool opened; /* the step begins with what an open session has */
	uint32_t (*run)(void);
};

static uint32_t run_open(void)
{
	return session_open(&session);
}

static uint32_t run_alloc(void)
{
	return memory_alloc(&session, MEMORY_BYTES, &grant);
}

static uint32_t run_free(void)
{
	uint32_t status = memory_alloc(&session, MEMORY_BYTES, &grant);

	return status != NV_OK ? status : memory_free_at(&session, session.count - 1);
}

static uint32_t run_dup(void)
{
	uint32_t status = memory_alloc(&session, MEMORY_BYTES, &grant);

	return status != NV_OK ? status : memory_dup(&session, &grant);
}

static uint32_t run_info(void)
{
	struct card_info info;

	return info_read(&session, &info);
}

static uint32_t run_pids(void)
{
	uint32_t pids[950], count;

	return info_pids(&session, pids, 950, &count);
}

static uint32_t run_close(void)
{
	session_drop(&session);
	return NV_OK;
}

static uint32_t run_read(void)
{
	char text[4096];
	int fd = open(node, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

	if (fd >= 0)
		close(fd);
	return n < 0 ? PROBE_ERRNO : NV_OK;
}

static uint32_t tree_write(const char *text)
{
	int fd = open("/proc/cgpu_km/inst_ctl", O_WRONLY);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

	if (fd >= 0)
		close(fd);
	return n < 0 ? PROBE_ERRNO : NV_OK;
}

static uint32_t run_create(void)
{
	char line[128];

	snprintf(line, sizeof(line), "create id=nth pid=%s gpu=0:1048576", node);
	return tree_write(line);
}

/* What a session leaves when its end was disturbed is closed here. */
static void clean(void)
{
	session_drop(&session);
	session_init(&session, &settings, 0);
}

static bool arm(int counter, unsigned int nth)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%u", nth);

	return pwrite(counter, text, (size_t)length, 0) == length;
}

/* Whether none has failed: the count was not used up. What asks for it copies, too, and can be what fails. */
static bool disarm(int counter)
{
	char text[16] = "";
	bool left = pread(counter, text, sizeof(text) - 1, 0) <= 0 || atoi(text) > 0;
	int tries;

	for (tries = 0; tries < 3; tries++) {
		if (pwrite(counter, "0", 1, 0) == 1)
			return left;
	}
	perror("fail-nth");
	exit(2);
}

static bool try_step(const struct step *step, unsigned int nth, uint32_t *status)
{
	static int counter = -1;

	if (counter < 0)
		counter = open("/proc/thread-self/fail-nth", O_RDWR);
	clean();
	settings.via = step->via;
	if (step->opened)
		*status = session_open(&session);
	if (step->opened && *status != NV_OK) {
		fprintf(stderr, "%s: no session without a failure: %#x: %s\n", step->name, *status, strerror(errno));
		exit(3);
	}
	if (!arm(counter, nth))
		exit(2);
	*status = step->run();
	return disarm(counter);
}

static void repeat(const struct step *step)
{
	unsigned int nth, failed = 0;
	uint32_t status = 0;
	bool whole = false;

	for (nth = 1; nth < TRIES_MAX && !whole; nth++) {
		whole = try_step(step, nth, &status);
		failed += status != NV_OK;
		if (node && strcmp(step->name, "create") == 0)
			tree_write("destroy id=nth");
	}
	printf("step name=%s tries=%u failed=%u whole=%d status=%#x\n", step->name, nth - 1, failed, whole, status);
}

static const struct step inside[] = {
	{ "open", VIA_RM64, false, run_open },
	{ "alloc", VIA_RM64, true, run_alloc },
	{ "alloc-narrow", VIA_RM21, true, run_alloc },
	{ "heap", VIA_HEAP, true, run_alloc },
	{ "free", VIA_RM64, true, run_free },
	{ "heap-free", VIA_HEAP, true, run_free },
	{ "dup", VIA_RM64, true, run_dup },
	{ "info", VIA_RM64, true, run_info },
	{ "pids", VIA_RM64, true, run_pids },
	{ "close", VIA_RM64, true, run_close },
};
static const struct step create = { "create", VIA_RM64, false, run_create };

int main(int argc, char **argv)
{
	static const struct step look = { "read", VIA_RM64, false, run_read };
	unsigned int i;
	int ctl, k;

	setvbuf(stdout, NULL, _IOLBF, 0);
	ctl = driver_open(&settings, "nvidiactl");
	if (argc < 2 || ctl < 0 || !driver_version(&settings, ctl))
		return fprintf(stderr, "usage: fail_nth inside | fail_nth outside PID NODE...\n"), 2;
	close(ctl);
	session_init(&session, &settings, 0);
	if (strcmp(argv[1], "inside") == 0) {
		for (i = 0; i < sizeof(inside) / sizeof(inside[0]); i++)
			repeat(&inside[i]);
	}
	for (k = 2; k < argc; k++) {
		node = argv[k];
		repeat(k == 2 ? &create : &look);
	}
	clean();
	printf("done\n");
	return getchar() == EOF ? 0 : 1;
}
