// SPDX-License-Identifier: Apache-2.0
/* uvm-probe [--dev DIR] STEP… */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"
#include "uvm_probe.h"

static const char help[] =
	"usage: uvm-probe [--dev DIR] STEP...\n"
	"Uses nvidia-uvm and dma-bufs as CUDA does, and prints one line per step with the driver's status.\n"
	"  gpu=N       the card, before everything else\n"
	"  uvm         initialize nvidia-uvm, register the card and an address space\n"
	"  initialize=FLAGS  another file of nvidia-uvm\n"
	"  register=UUID  initialize nvidia-uvm and register that card; pageable: whether HMM is on for this process\n"
	"  attach=N    attach card N to a control file of its own\n"
	"  alloc=SIZE  memory of the card; rm-free gives the handle back, whatever still refers to the memory\n"
	"  range=SIZE  an external range; map: the last memory into the last range; fork-map: from another process;\n"
	"              map-at=OFFSET: the whole of the last memory into the last range, there; sparse: the last range without\n"
	"              memory\n"
	"  map-beside=ROUNDS  maps while another thread unmaps, each time with other memory, and frees its handle\n"
	"  p2p=SIZE    the last memory for other devices, in a range of its own\n"
	"  unmap-far free-far  the same calls as unmap and uvm-free for the last range, a page too far\n"
	"  keep=SECONDS  a child has all files for so long; quit: end at once\n"
	"  swap        the last range and the one before change places\n"
	"  unmap       the last range; uvm-free: give the last range back; uvm-close: close nvidia-uvm\n"
	"  managed=SIZE  managed memory; touch=SIZE writes to so much of it; munmap=SIZE: unmap its start; munmap;\n"
	"              migrate: to the card, with NVIDIA's driver only\n"
	"  over-range  an external range in the place of the managed memory\n"
	"  pool=SIZE   a pool of semaphores, mapped and written to\n"
	"  dmabuf      export the last memory; dmabuf=N: the last N; dmabuf-first, dmabuf-second: the last one, at that\n"
	"              place of a buffer for two; dmabuf-add: at the second place of the buffer; dmabuf-close.\n"
	"              its descriptor is 100\n"
	"  channel     a group with a channel that UVM is told of; group-free: give the group back; unregister: the channel;\n"
	"              unregister-space: UVM's address space on the card; retain=ROUNDS: channel and group-free so often\n"
	"  used        bytes used on the card, as the card says\n"
	"  hold=SECONDS; wait: for a line on stdin\n"
	"  expect=STATUS  the next step must answer this; a step that fails with errno N answers 0x80000000+N\n"
	"exit status: 0 all as expected, 3 not, 2 a step not understood, 1 no driver\n";

static void __attribute__((format(printf, 2, 3))) report(uint32_t status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	printf(" status=0x%x\n", status);
}

static uint32_t fork_map(struct uvm *uvm)
{
	int result[2];
	uint32_t status = RM_ERRNO;
	pid_t child;

	if (pipe(result))
		return RM_ERRNO;
	child = fork();
	if (child == 0) {
		status = uvm_map(uvm, uvm->last.handle);
		if (write(result[1], &status, sizeof(status)) != sizeof(status))
			_exit(1);
		_exit(0);
	}
	if (child < 0 || read(result[0], &status, sizeof(status)) != sizeof(status))
		status = RM_ERRNO;
	waitpid(child, NULL, 0);
	close(result[0]);
	close(result[1]);
	return status;
}

static uint32_t uvm_far(struct uvm *uvm, bool by_free)
{
	struct range last = uvm->ranges[uvm->count - 1];
	uint32_t status;

	if (uvm->count == 0)
		return NV_ERR_INVALID_ADDRESS;
	/* A length counts in all versions of the one call, and an address in all of the other. */
	if (by_free)
		uvm->ranges[uvm->count - 1].base += 4096;
	else
		uvm->ranges[uvm->count - 1].length += 4096;
	status = by_free ? uvm_free(uvm) : uvm_unmap(uvm);
	if (status != NV_OK)
		uvm->ranges[uvm->count - 1] = last;
	return status;
}

/* In a session of its own, without our output. */
static uint32_t keep(unsigned int seconds)
{
	pid_t child = fork();

	if (child == 0) {
		setsid();
		close(STDOUT_FILENO);
		close(STDERR_FILENO);
		sleep(seconds);
		_exit(0);
	}
	return child < 0 ? RM_ERRNO : NV_OK;
}

static uint32_t release_managed(struct uvm *uvm)
{
	return munmap(uvm->managed, uvm->managed_size) == 0 ? NV_OK : RM_ERRNO;
}

static uint32_t release_start(struct uvm *uvm, uint64_t size)
{
	void *start = uvm->managed;

	if (size > uvm->managed_size)
		return NV_ERR_INVALID_ARGUMENT;
	uvm->managed = (uint8_t *)start + size;
	uvm->managed_size -= size;
	return munmap(start, size) == 0 ? NV_OK : RM_ERRNO;
}

static uint32_t swap_ranges(struct uvm *uvm)
{
	struct range *last = &uvm->ranges[uvm->count - 1], held;

	if (uvm->count < 2)
		return NV_ERR_INVALID_ADDRESS;
	held = *last;
	*last = last[-1];
	last[-1] = held;
	return NV_OK;
}

static uint32_t used(struct uvm *uvm)
{
	struct sizes sizes = { 0 };
	uint32_t status = info_v2(&uvm->session, &sizes);

	printf("bytes=%llu ", (unsigned long long)(sizes.total - sizes.free));
	return status;
}

static uint32_t pageable(struct uvm *uvm)
{
	bool is = false;
	uint32_t status = uvm_pageable(uvm, &is);

	printf("on=%d ", is);
	return status;
}

static uint32_t close_uvm(struct uvm *uvm)
{
	uvm->count = 0;
	if (uvm->mm_fd >= 0)
		close(uvm->mm_fd);
	return close(uvm->fd) == 0 ? NV_OK : RM_ERRNO;
}

static uint32_t buffer_step(struct uvm *uvm, const char *which, bool *known)
{
	if (strcmp(which, "") == 0)
		return dmabuf_export(uvm, &(struct buffer){ .count = 1, .total = 1 });
	if (strcmp(which, "-first") == 0)
		return dmabuf_export(uvm, &(struct buffer){ .count = 1, .total = 2 });
	if (strcmp(which, "-second") == 0)
		return dmabuf_export(uvm, &(struct buffer){ .count = 1, .index = 1, .total = 2 });
	if (strcmp(which, "-add") == 0)
		return dmabuf_export(uvm, &(struct buffer){ .count = 1, .index = 1, .total = 2, .again = true });
	if (strcmp(which, "-close") == 0)
		return close(uvm->dmabuf) == 0 ? NV_OK : RM_ERRNO;
	*known = false;
	return NV_OK;
}

static uint32_t take_memory(struct uvm *uvm, uint64_t size)
{
	uint32_t status = memory_alloc(&uvm->session, size, &uvm->last);

	if (status != NV_OK)
		return status;
	memmove(uvm->granted, uvm->granted + 1, sizeof(uvm->granted) - sizeof(uvm->granted[0]));
	uvm->granted[MAX_BUFFER - 1] = uvm->last;
	return status;
}

static const struct {
	const char *name;
	uint32_t (*run)(struct uvm *uvm);
} plain_steps[] = {
	{ "uvm", uvm_start },
	{ "pageable", pageable },
	{ "sparse", uvm_sparse },
	{ "swap", swap_ranges },
	{ "fork-map", fork_map },
	{ "unmap", uvm_unmap },
	{ "uvm-free", uvm_free },
	{ "uvm-close", close_uvm },
	{ "channel", uvm_channel },
	{ "unregister", uvm_unregister_channel },
	{ "unregister-space", uvm_unregister_space },
	{ "migrate", uvm_migrate },
	{ "munmap", release_managed },
	{ "used", used },
};

static uint32_t run_plain(struct uvm *uvm, const char *name, bool *known)
{
	size_t i;

	for (i = 0; i < sizeof(plain_steps) / sizeof(plain_steps[0]); i++) {
		if (strcmp(name, plain_steps[i].name) == 0)
			return plain_steps[i].run(uvm);
	}
	if (strcmp(name, "map") == 0)
		return uvm_map(uvm, uvm->last.handle);
	if (strcmp(name, "unmap-far") == 0 || strcmp(name, "free-far") == 0)
		return uvm_far(uvm, name[0] == 'f');
	if (strcmp(name, "rm-free") == 0)
		return session_free(&uvm->session, uvm->last.handle);
	if (strcmp(name, "group-free") == 0)
		return session_free(&uvm->session, uvm->group);
	if (strcmp(name, "over-range") == 0)
		return uvm_range_at(uvm, (uintptr_t)uvm->managed, uvm->managed_size);
	if (strncmp(name, "dmabuf", 6) == 0)
		return buffer_step(uvm, name + 6, known);
	if (strcmp(name, "wait") == 0)
		return getchar() == EOF ? RM_ERRNO : NV_OK;
	if (strcmp(name, "quit") == 0)
		_exit(0);
	*known = false;
	return NV_OK;
}

static uint32_t touch(struct uvm *uvm, uint64_t size)
{
	volatile uint8_t *at = uvm->managed;
	uint64_t i;

	for (i = 0; i < size && i < uvm->managed_size; i += 4096)
		at[i]++;
	return NV_OK;
}

static const struct {
	const char *name;
	uint32_t (*run)(struct uvm *uvm, uint64_t size);
} sized_steps[] = {
	{ "alloc", take_memory },
	{ "retain", uvm_retain },
	{ "range", uvm_range },
	{ "initialize", uvm_initialize },
	{ "map-beside", map_beside_unmap },
	{ "managed", uvm_managed },
	{ "touch", touch },
	{ "munmap", release_start },
	{ "pool", uvm_pool },
};

static uint32_t run_sized(struct uvm *uvm, const char *name, const char *value, bool *known)
{
	uint64_t size;
	size_t i;

	if (strcmp(name, "register") == 0)
		return uvm_register(uvm, value);
	*known = parse_size(&value, &size) && *value == '\0';
	if (!*known)
		return NV_OK;
	for (i = 0; i < sizeof(sized_steps) / sizeof(sized_steps[0]); i++) {
		if (strcmp(name, sized_steps[i].name) == 0)
			return sized_steps[i].run(uvm, size);
	}
	if (strcmp(name, "dmabuf") == 0 && size <= MAX_BUFFER)
		return dmabuf_export(uvm, &(struct buffer){ .count = (uint32_t)size, .total = (uint32_t)size });
	if (strcmp(name, "map-at") == 0)
		return uvm_map_part(uvm, uvm->last.handle, size, uvm->last.size);
	if (strcmp(name, "attach") == 0)
		return attach_card(uvm, (uint32_t)size);
	if (strcmp(name, "p2p") == 0)
		return uvm_p2p(uvm, size, uvm->last.handle);
	if (strcmp(name, "keep") == 0)
		return keep((unsigned int)size);
	if (strcmp(name, "hold") == 0)
		return sleep((unsigned int)size) == 0 ? NV_OK : RM_ERRNO;
	*known = false;
	return NV_OK;
}

static bool step(struct uvm *uvm, char *word, uint32_t *status)
{
	char *value = strchr(word, '=');
	bool known = true;

	if (value)
		*value++ = '\0';
	*status = session_open(&uvm->session);
	if (*status == NV_OK)
		*status = value ? run_sized(uvm, word, value, &known) : run_plain(uvm, word, &known);
	if (*status == RM_ERRNO)
		*status |= (uint32_t)errno;
	return known;
}

static int run_all(struct uvm *uvm, char **words)
{
	uint32_t status, expected = NV_OK;
	bool failed = false;

	for (; *words; words++) {
		if (strncmp(*words, "gpu=", 4) == 0) {
			session_init(&uvm->session, &uvm->settings, (uint32_t)strtoul(*words + 4, NULL, 10));
			continue;
		}
		if (strncmp(*words, "expect=", 7) == 0) {
			expected = (uint32_t)strtoul(*words + 7, NULL, 0);
			continue;
		}
		if (!step(uvm, *words, &status))
			return fprintf(stderr, "uvm-probe: %s: not understood; see uvm-probe --help\n", *words), 2;
		report(status, "%s", *words);
		failed |= status != expected;
		expected = NV_OK;
	}
	session_close(&uvm->session);
	return failed ? 3 : 0;
}

int main(int argc, char **argv)
{
	struct uvm uvm = { .fd = -1, .mm_fd = -1, .dmabuf = -1 };

	if (argc < 2 || strcmp(argv[argc - 1], "--help") == 0)
		return fputs(help, stdout), argc < 2 ? 2 : 0;
	client_begin(&uvm.settings, &argc, &argv, 1);
	session_init(&uvm.session, &uvm.settings, 0);
	return run_all(&uvm, argv);
}
