// SPDX-License-Identifier: Apache-2.0
/*
 * alloc_fuzz SEED STEPS SECONDS: calls that could take memory of the card, at random: objects of the driver's classes
 * with random parents, flags and sizes; heap calls, mappings, duplicates, exports and imports; UVM's registrations,
 * external and managed ranges; frees. The calls are made by processes that end in all ways in the middle, two at a
 * time. STEPS are made, and more until SECONDS have passed; the steps are those of the seed, and their order between
 * the processes is not.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "uvm_probe.h"

#define OBJECTS 192u
#define FIRST_HANDLE 0x5e000001u
#define ROOM 4096u
#define LIVES_AT_ONCE 2
#define STEP_SECONDS 60
#define NVOS46_BYTES 56u /* up to 570; another driver answers that it does not know it */

struct life {
	uint64_t random;
	struct session session[2];
	struct uvm uvm;
	uint32_t handles; /* given out so far */
	uint32_t object[OBJECTS];
	uint32_t space; /* an address space, of those that were made last */
	int exported;
	uint8_t params[ROOM];
};

/* Progress of a life, for the process that waits for it. */
struct now {
	pid_t pid;
	uint64_t seed;
	uint32_t step;
	time_t began;
};

static struct settings settings;
static struct life life;

/* xorshift64* */
static uint64_t draw(void)
{
	life.random ^= life.random >> 12;
	life.random ^= life.random << 25;
	life.random ^= life.random >> 27;
	return life.random * 0x2545f4914f6cdd1dull;
}

static uint32_t below(uint32_t most)
{
	return (uint32_t)(draw() >> 33) % most;
}

static bool one_in(uint32_t many)
{
	return below(many) == 0;
}

/* A power of two between two others, or a little more. */
static uint64_t size_between(uint32_t low, uint32_t high)
{
	uint64_t size = 1ull << (low + below(high - low + 1));

	return one_in(3) ? size + below(1u << 20) : size;
}

static struct session *any_session(void)
{
	return &life.session[one_in(4)];
}

static uint32_t fresh_handle(void)
{
	return one_in(32) ? life.object[below(OBJECTS)] : FIRST_HANDLE + life.handles++;
}

static uint32_t any_object(const struct session *session)
{
	switch (below(8)) {
	case 0:
		return session->client;
	case 1:
		return session->subdevice;
	case 2:
	case 3:
		return life.object[below(OBJECTS)];
	case 4:
		return life.space;
	default:
		return session->device;
	}
}

static void keep(uint32_t status, uint32_t handle)
{
	if (status == NV_OK)
		life.object[below(OBJECTS)] = handle;
}

/* --- objects --- */

static uint32_t memory_attr(void)
{
	static const uint32_t pages[] = { NVOS32_ATTR_PAGE_SIZE_DEFAULT, NVOS32_ATTR_PAGE_SIZE_4KB,
		NVOS32_ATTR_PAGE_SIZE_BIG, NVOS32_ATTR_PAGE_SIZE_HUGE };
	return pages[below(4)] << NVOS32_ATTR_PAGE_SIZE_SHIFT;
}

static void fill_memory_params(uint64_t size, uint32_t flags)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &settings.abi->NV_MEMORY_ALLOCATION_PARAMS;

	rm_memory_params(life.params, settings.abi, memory_attr(), size);
	/* One or two of the flags of the lower half. */
	flags |= one_in(2) ? 1u << below(16) : 0;
	flags |= one_in(4) ? 1u << below(16) : 0;
	put32(life.params, at->flags, flags);
	put32(life.params, at->hVASpace, one_in(4) ? 0 : life.space);
	if (one_in(6))
		put64(life.params, at->alignment, size_between(12, 40));
	if (one_in(6))
		put64(life.params, at->offset, size_between(16, 46));
}

static uint32_t make(struct session *session, uint32_t parent, uint32_t class)
{
	uint32_t handle = fresh_handle(), status;

	status = session_alloc(session, parent, class, life.params, 0, &handle);
	keep(status, handle);
	return status == NV_OK ? handle : 0;
}

static void make_memory(void)
{
	struct session *session = any_session();

	/* The machine has little memory for the host's. */
	bool host = one_in(5);

	fill_memory_params(size_between(12, host ? 22 : 30), 0);
	make(session, one_in(8) ? any_object(session) : session->device,
		host ? NV01_MEMORY_SYSTEM : NV01_MEMORY_LOCAL_USER);
}

static void make_reservation(void)
{
	struct session *session = any_session();

	/* Page tables of the large ones would be made one by one, in the host's memory where the card has none for them. */
	bool large = one_in(6);

	fill_memory_params(large ? size_between(31, 43) : size_between(16, 30),
		NVOS32_ALLOC_FLAGS_VIRTUAL | (large ? NVOS32_ALLOC_FLAGS_LAZY : 0));
	make(session, session->device, one_in(6) ? NV01_MEMORY_VIRTUAL : NV50_MEMORY_VIRTUAL);
}

static void make_space(void)
{
	struct session *session = any_session();
	uint32_t made;

	if (one_in(3))
		put32(life.params, settings.abi->NV_VASPACE_ALLOCATION_PARAMETERS.flags, 1u << below(10));
	made = make(session, session->device, FERMI_VASPACE_A);
	if (made)
		life.space = made;
}

/* Handle of a group's or channel's notifier: none, or any object. */
static uint32_t any_notifier(void)
{
	return one_in(2) ? 0 : any_object(&life.session[0]);
}

static void make_group(void)
{
	const struct nv_layout_NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS *at =
		&settings.abi->NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS;
	struct session *session = any_session();

	put32(life.params, at->engineType, one_in(3) ? below(24) : 1);
	put32(life.params, at->hVASpace, one_in(2) ? 0 : life.space);
	put32(life.params, at->hObjectError, any_notifier());
	make(session, one_in(6) ? any_object(session) : session->device, KEPLER_CHANNEL_GROUP_A);
}

static void make_channel(void)
{
	const struct nv_layout_NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS *at =
		&settings.abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS;
	struct session *session = any_session();

	put32(life.params, at->engineType, one_in(3) ? below(24) : 1);
	put32(life.params, at->gpFifoEntries, 1u << below(16));
	put32(life.params, at->hVASpace, one_in(2) ? 0 : life.space);
	put32(life.params, at->hUserdMemory, one_in(2) ? 0 : life.object[below(OBJECTS)]);
	put32(life.params, at->hObjectError, any_notifier());
	put32(life.params, at->hObjectEccError, any_notifier());
	make(session, any_object(session), TURING_CHANNEL_GPFIFO_A);
}

/* Any class of the driver's headers, with a number or two in its parameters. */
static void make_any(void)
{
	struct session *session = any_session();
	uint32_t i;

	for (i = below(4); i > 0; i--)
		put32(life.params, (uint16_t)(4 * below(24)), one_in(2) ? below(64) : any_object(session));
	make(session, any_object(session), nv_classes[below(nv_class_count)].id);
}

static void free_any(void)
{
	struct session *session = any_session();

	session_free(session, one_in(12) ? any_object(session) : life.object[below(OBJECTS)]);
}

static void take_heap(void)
{
	struct session *session = any_session();
	struct rm_ioctl io = rm_heap_alloc_ioctl(settings.abi, one_in(2) ? VIA_HEAP : VIA_RANGE, session->client,
		session->device, fresh_handle(), memory_attr(), size_between(12, 30));

	if (one_in(3))
		put32(io.data, settings.abi->NVOS32_PARAMETERS.data_AllocSize_flags, 1u << below(20));
	keep(driver_make(&settings, session->ctl, &io), get32(io.data, io.handle));
}

static void map_to_addresses(void)
{
	const struct session *session = any_session();
	uint8_t call[NVOS46_BYTES] = { 0 };

	put32(call, 0, session->client);
	put32(call, 4, session->device);
	put32(call, 8, life.object[below(OBJECTS)]);
	put32(call, 12, life.object[below(OBJECTS)]);
	put64(call, 24, size_between(12, 30));
	put32(call, 32, one_in(2) ? 0 : 1u << below(24));
	driver_call(&settings, session->ctl, NV_ESC_RM_MAP_MEMORY_DMA, call, sizeof(call));
}

/* --- duplicates and exports --- */

static void duplicate(void)
{
	const struct session *to = any_session(), *from = any_session();
	struct rm_ioctl io = rm_dup_ioctl(settings.abi, to->client, one_in(8) ? life.space : to->device, fresh_handle(),
		from->client, life.object[below(OBJECTS)]);

	keep(driver_make(&settings, to->ctl, &io), get32(io.data, io.handle));
}

static void transfer(bool out)
{
	struct session *session = any_session();
	uint32_t handle = out ? life.object[below(OBJECTS)] : fresh_handle(), status;
	struct rm_transfer call;

	if (life.exported < 0)
		life.exported = driver_open(&settings, "nvidiactl");
	call = out ? rm_export(settings.abi, session->device, &handle, one_in(3), life.exported) :
		     rm_import(settings.abi, session->device, &handle, one_in(3), life.exported);
	status = session_control(session, session->client, call.command, call.params, call.bytes);
	if (!out)
		keep(status, handle);
	if (one_in(4)) {
		close(life.exported);
		life.exported = -1;
	}
}

/* --- UVM --- */

static void use_uvm(void)
{
	uint64_t size = size_between(16, 30) & ~0xffffull;

	if (life.uvm.fd < 0 && uvm_open(&life.uvm, &settings) != NV_OK)
		return;
	switch (below(7)) {
	case 0:
	case 1:
		uvm_managed(&life.uvm, size_between(12, 29) & ~0xfffull);
		break;
	case 2:
		if (life.uvm.managed)
			uvm_migrate(&life.uvm);
		break;
	case 3:
		uvm_range(&life.uvm, size);
		break;
	case 4:
		if (memory_alloc(&life.uvm.session, size, &life.uvm.last) == NV_OK &&
			uvm_range(&life.uvm, size) == NV_OK)
			uvm_map(&life.uvm, life.uvm.last.handle);
		break;
	case 5:
		uvm_unmap(&life.uvm);
		break;
	default:
		uvm_free(&life.uvm);
	}
}

/* --- lives --- */

static void export_any(void)
{
	transfer(true);
}

static void import_any(void)
{
	transfer(false);
}

/* clang-format off */
static void (*const steps[])(void) = {
	make_memory, make_memory, make_memory, make_memory, make_reservation, make_reservation, make_space, make_space,
	make_group, make_channel, make_any, make_any, free_any, free_any, free_any, take_heap, take_heap, map_to_addresses,
	map_to_addresses, duplicate, duplicate, export_any, import_any, use_uvm, use_uvm, use_uvm,
};

/* Make the steps. The driver's answers are not checked: only what it gives out counts. */
static void live(uint64_t seed, uint32_t count, struct now *now)
{
	uint32_t i;

	*now = (struct now){ .pid = getpid(), .seed = seed, .began = time(NULL) };
	life.random = seed | 1;
	life.exported = -1;
	life.uvm.fd = -1;
	for (i = 0; i < 2; i++) {
		session_init(&life.session[i], &settings, 0);
		if (session_open(&life.session[i]) != NV_OK)
			_exit(1);
	}
	for (; count > 0; count--) {
		now->step = below(sizeof(steps) / sizeof(steps[0]));
		now->began = time(NULL);
		memset(life.params, 0, sizeof(life.params));
		steps[now->step]();
	}
	if (one_in(3))
		raise(SIGKILL);
	if (one_in(2))
		session_close(&life.session[0]);
	_exit(0);
}

/* A step that does not end is a finding: say which one, and where it is. */
static void give_up(const struct now *now)
{
	char path[64], text[4096];
	size_t bytes;
	FILE *stack;
	int i;

	for (i = 0; i < LIVES_AT_ONCE; i++) {
		fprintf(stderr, "seed %llu: a step of kind %u for %lld s\n", (unsigned long long)now[i].seed, now[i].step,
			(long long)(time(NULL) - now[i].began));
		snprintf(path, sizeof(path), "/proc/%d/stack", now[i].pid);
		stack = fopen(path, "r");
		bytes = stack ? fread(text, 1, sizeof(text) - 1, stack) : 0;
		text[bytes] = 0;
		fputs(text, stderr);
	}
	exit(1);
}

/* Waits until one of the lives has ended, and returns its place. */
static int end_one(struct now *now)
{
	pid_t ended;
	int i;

	for (;;) {
		ended = waitpid(-1, NULL, WNOHANG);
		for (i = 0; i < LIVES_AT_ONCE; i++) {
			if (ended > 0 && now[i].pid == ended) {
				now[i].pid = 0;
				return i;
			}
			if (now[i].pid && time(NULL) - now[i].began > STEP_SECONDS)
				give_up(now);
		}
		usleep(20000);
	}
}

/* A place for one more life. */
static int free_place(struct now *now)
{
	int i;

	for (i = 0; i < LIVES_AT_ONCE; i++) {
		if (!now[i].pid)
			return i;
	}
	return end_one(now);
}

int main(int argc, char **argv)
{
	struct now *now = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t left, made = 0, lives = 0;
	time_t until;
	int i;

	client_begin(&settings, &argc, &argv, 0);
	if (argc != 3 || now == MAP_FAILED)
		return 2;
	life.random = strtoull(argv[0], NULL, 0) * 2 + 1;
	left = strtoull(argv[1], NULL, 0);
	until = time(NULL) + (time_t)strtoul(argv[2], NULL, 0);
	while (made < left || time(NULL) < until) {
		uint32_t count = 10 + below(50);
		uint64_t seed = draw();
		pid_t child;

		i = free_place(now);
		now[i].began = time(NULL);
		child = fork();
		if (child == 0)
			live(seed, count, &now[i]);
		if (child < 0)
			return 1;
		now[i].pid = child;
		made += count;
		lives++;
	}
	for (i = 0; i < LIVES_AT_ONCE; i++) {
		while (now[i].pid)
			end_one(now);
	}
	printf("resting lives=%llu steps=%llu\n", (unsigned long long)lives, (unsigned long long)made);
	client_rest();
}
