// SPDX-License-Identifier: Apache-2.0
/*
 * fail_nth inside | fail_nth outside PID [NODE...] | fail_nth load EVERY MODULE...  carries out steps with the first, the
 * second, the third of the kernel's fallible operations made to fail, each on and on until one passes whole; `load` takes
 * every so manieth only. /proc/thread-self/fail-nth does that: Documentation/fault-injection/fault-injection.rst. Ends with
 * "done" and waits for its standard input to end.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client.h"
#include "uvm_probe.h"

#define NTH_MAX 500u
#define NTH_MAX_LOAD 20000u
#define MEMORY_BYTES 1048576u

static struct settings settings;
static struct uvm uvm;
static struct session *const session = &uvm.session;
static struct grant grant;
static const char *node;
static char **modules;

struct step {
	const char *name;
	enum via via;
	bool opened; /* the step begins with what an open session has */
	uint32_t (*run)(void);
	bool wrapped;
	uint32_t (*prepare)(void); /* what else it begins with */
};

static uint32_t run_open(void)
{
	return session_open(session);
}

static uint32_t run_alloc(void)
{
	return memory_alloc(session, MEMORY_BYTES, &grant);
}

static uint32_t run_free(void)
{
	uint32_t status = memory_alloc(session, MEMORY_BYTES, &grant);

	return status != NV_OK ? status : memory_free_at(session, session->count - 1);
}

static uint32_t run_dup(void)
{
	uint32_t status = memory_alloc(session, MEMORY_BYTES, &grant);

	return status != NV_OK ? status : memory_dup(session, &grant);
}

static uint32_t run_info(void)
{
	struct card_info info;

	return info_read(session, &info);
}

static uint32_t run_pids(void)
{
	uint32_t pids[950], count;

	return info_pids(session, pids, 950, &count);
}

static uint32_t run_close(void)
{
	session_drop(session);
	return NV_OK;
}

static uint32_t prepare_buffer(void)
{
	return memory_alloc(session, MEMORY_BYTES, &uvm.granted[MAX_BUFFER - 1]);
}

static uint32_t run_buffer(void)
{
	return dmabuf_export(&uvm, &(struct buffer){ .count = 1, .total = 1 });
}

static uint32_t prepare_managed(void)
{
	uvm.fd = driver_open(&settings, "nvidia-uvm");
	uvm.managed = client_reserve(MEMORY_BYTES);
	uvm.managed_size = MEMORY_BYTES;
	return uvm.fd < 0 || !uvm.managed ? RM_ERRNO : NV_OK;
}

static uint32_t run_managed(void)
{
	return client_map_managed(&settings, uvm.fd, uvm.managed, MEMORY_BYTES) ? NV_OK : RM_ERRNO;
}

static uint32_t run_load(void)
{
	char **module;
	long result = 0;
	int fd;

	for (module = modules; *module && result == 0; module++) {
		fd = open(*module, O_RDONLY | O_CLOEXEC);
		result = fd < 0 ? -1 : syscall(SYS_finit_module, fd, "", 0);
		if (fd >= 0)
			close(fd);
	}
	return result ? RM_ERRNO : NV_OK;
}

/* The last one first; those that were not loaded are not there. */
static void unload(void)
{
	char **module, *name;

	for (module = modules; *module; module++)
		;
	while (module-- != modules) {
		name = strdup(strrchr(*module, '/') + 1);
		*strchr(name, '.') = '\0';
		if (syscall(SYS_delete_module, name, O_NONBLOCK) && errno != ENOENT) {
			perror(name);
			exit(4);
		}
		free(name);
	}
}

static uint32_t run_read(void)
{
	char text[4096];
	int fd = open(node, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

	if (fd >= 0)
		close(fd);
	return n < 0 ? RM_ERRNO : NV_OK;
}

static uint32_t tree_write(const char *text)
{
	int fd = open("/proc/cgpu_km/inst_ctl", O_WRONLY);
	ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));

	if (fd >= 0)
		close(fd);
	return n < 0 ? RM_ERRNO : NV_OK;
}

static uint32_t run_create(void)
{
	char line[128];

	snprintf(line, sizeof(line), "create id=nth pid=%s gpu=0:1048576", node);
	return tree_write(line);
}

/* Close what a session leaves when its end was disturbed. */
static void clean(void)
{
	if (uvm.managed)
		munmap(uvm.managed, uvm.managed_size);
	if (uvm.fd > 0)
		close(uvm.fd);
	if (uvm.dmabuf > 0)
		close(uvm.dmabuf);
	session_drop(session);
	uvm = (struct uvm){ .settings = settings, .fd = -1, .mm_fd = -1, .dmabuf = -1 };
	session_init(session, &settings, 0);
	if (modules)
		unload();
}

static bool arm(int counter, unsigned int nth)
{
	char text[16];
	int length = snprintf(text, sizeof(text), "%u", nth);

	return pwrite(counter, text, (size_t)length, 0) == length;
}

/* Whether no call has failed: the count was not used up. The question itself copies, too, and can be what fails. */
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
	settings.wrapped = step->wrapped;
	*status = step->opened ? session_open(session) : NV_OK;
	if (*status == NV_OK && step->prepare)
		*status = step->prepare();
	if (*status != NV_OK) {
		fprintf(stderr, "%s: no session without a failure: %#x: %s\n", step->name, *status, strerror(errno));
		exit(3);
	}
	if (!arm(counter, nth))
		exit(2);
	*status = step->run();
	return disarm(counter);
}

static void repeat(const struct step *step, unsigned int every)
{
	unsigned int nth, tries = 0, failed = 0, most = modules ? NTH_MAX_LOAD : NTH_MAX;
	uint32_t status = 0;
	bool whole = false;

	for (nth = 1; nth < most && !whole; nth += every) {
		whole = try_step(step, nth, &status);
		tries++;
		failed += status != NV_OK;
		if (node && strcmp(step->name, "create") == 0)
			tree_write("destroy id=nth");
	}
	printf("step name=%s tries=%u failed=%u whole=%d status=%#x\n", step->name, tries, failed, whole, status);
}

#define STEP(title, way, what) .name = title, .via = way, .run = what
static const struct step inside[] = {
	{ STEP("open", VIA_RM64, run_open) },
	{ STEP("alloc", VIA_RM64, run_alloc), .opened = true },
	{ STEP("alloc-narrow", VIA_RM21, run_alloc), .opened = true },
	{ STEP("heap", VIA_HEAP, run_alloc), .opened = true },
	{ STEP("free", VIA_RM64, run_free), .opened = true },
	{ STEP("heap-free", VIA_HEAP, run_free), .opened = true },
	{ STEP("dup", VIA_RM64, run_dup), .opened = true },
	{ STEP("info", VIA_RM64, run_info), .opened = true },
	{ STEP("pids", VIA_RM64, run_pids), .opened = true },
	{ STEP("close", VIA_RM64, run_close), .opened = true },
	{ STEP("alloc-xfer", VIA_RM64, run_alloc), .opened = true, .wrapped = true },
	{ STEP("heap-xfer", VIA_HEAP, run_alloc), .opened = true, .wrapped = true },
	{ STEP("free-xfer", VIA_RM64, run_free), .opened = true, .wrapped = true },
	{ STEP("dup-xfer", VIA_RM64, run_dup), .opened = true, .wrapped = true },
	{ STEP("info-xfer", VIA_RM64, run_info), .opened = true, .wrapped = true },
	{ STEP("buffer", VIA_RM64, run_buffer), .opened = true, .prepare = prepare_buffer },
	/* nvidia-uvm takes no calls of 32-bit programs. */
	{ STEP("managed", VIA_RM64, run_managed), .opened = true, .prepare = prepare_managed },
};
#define INSIDE (sizeof(inside) / sizeof(inside[0]) - (sizeof(void *) == 4))
static const struct step create = { STEP("create", VIA_RM64, run_create) };
static const struct step load = { STEP("load", VIA_RM64, run_load) };

int main(int argc, char **argv)
{
	static const struct step look = { STEP("read", VIA_RM64, run_read) };
	unsigned int i;
	int k;

	client_begin(&settings, &argc, &argv, 1);
	clean();
	if (strcmp(argv[0], "inside") == 0) {
		for (i = 0; i < INSIDE; i++)
			repeat(&inside[i], 1);
	}
	if (strcmp(argv[0], "load") == 0 && argc > 2) {
		modules = argv + 2;
		repeat(&load, (unsigned int)atoi(argv[1]));
	}
	for (k = 1; k < argc && !modules; k++) {
		node = argv[k];
		repeat(k == 1 ? &create : &look, 1);
	}
	clean();
	printf("done\n");
	return getchar() == EOF ? 0 : 1;
}
