// SPDX-License-Identifier: Apache-2.0
/*
 * cgpu-witness BYTES…: loads the program that counts the pages of cards (witness.bpf.c), one size for each card, and obeys
 * lines of its input until that ends. An answer is one line for each line, but for `show`, whose answer ends with a line
 * `end`. Between the answers come lines that begin with `excess`, `processors` and `lost`.
 *
 *   code ADDRESS BYTES                       code of the kernel, in hexadecimal digits
 *   attach ENTRY FREE BEGIN END RETURN…      begin to count; BEGIN to END is the code that takes UVM's chunks
 *   bind CARD PROCESS                        forget the card's pages; the process's next one is of the card, which has started
 *   watch OWNER CGROUP · unwatch CGROUP      whose pages are a cgroup's and of those below; by its id
 *   worker PLACE TASK · act PLACE OWNER      a thread that takes pages for others; for whom it does now, 0: for itself
 *   limit CARD OWNER BYTES                   say when it has more; 0: never
 *   show                                     what owners have
 */
#include <errno.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "breakpoints.h"

#define LINE_BYTES 4096
#define AGAIN_MS 1000 /* until registers that others have are tried again */
#define UEVENTS_GROUP 1

/* What the kernel asks for: programs, perf events, and breakpoints in its own code (kernel/events/hw_breakpoint.c). The last
 * includes the others. */
#define NEEDED ((1ull << CAP_BPF) | (1ull << CAP_PERFMON) | (1ull << CAP_SYS_ADMIN))

extern const char program_begin[], program_end[];
__asm__(".section .rodata\n.balign 8\n.global program_begin, program_end\n"
	"program_begin: .incbin \"" WITNESS_OBJECT "\"\nprogram_end:\n.previous");

static struct bpf_object *object;
static struct witness_state *state;
static union witness_frame *owners;
static struct witness_count *counts;
static struct ring_buffer *events;
static struct breakpoints_state placed;
static bool attached;

/* --- capabilities --- */

static uint64_t privileges; /* of NEEDED, those that there are */

static int capabilities_set(uint64_t effective)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { .permitted = (uint32_t)privileges,
							  .effective = (uint32_t)effective },
		{ .permitted = (uint32_t)(privileges >> 32), .effective = (uint32_t)(effective >> 32) } };

	return syscall(SYS_capset, &head, data) ? -errno : 0;
}

static void privilege_raise(void)
{
	capabilities_set(privileges);
}

static void privilege_lower(void)
{
	capabilities_set(0);
}

/* Give up all other capabilities, for good. */
static int privileges_keep(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct have[2] = { { 0 } };

	if (syscall(SYS_capget, &head, have))
		return -errno;
	privileges = (have[0].permitted | (uint64_t)have[1].permitted << 32) & NEEDED;
	return capabilities_set(privileges);
}

/* --- what is loaded --- */

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	fflush(stdout);
}

static int map_fd(const char *name)
{
	return bpf_object__find_map_fd_by_name(object, name);
}

static void *map_share(const char *name, size_t bytes)
{
	long page = sysconf(_SC_PAGESIZE);
	void *at = mmap(NULL, (bytes + page - 1) & ~(page - 1), PROT_READ | PROT_WRITE, MAP_SHARED, map_fd(name), 0);

	return at == MAP_FAILED ? NULL : at;
}

static int on_event(void *ctx, void *data, size_t size)
{
	const struct witness_event *event = data;

	(void)ctx;
	(void)size;
	say("excess card=%u owner=%u used=%llu limit=%llu bytes=%llu process=%u task=%u command=%.16s", event->card,
		event->owner, event->used, event->limit, event->bytes, event->process, event->task, event->command);
	return 0;
}

static int map_cards(unsigned int count, char **sizes)
{
	const uint64_t frame = 1ull << WITNESS_FRAME_SHIFT;
	struct bpf_map *map = bpf_object__find_map_by_name(object, "owners");
	struct witness_card *card;
	uint32_t first = 0;
	unsigned int i;

	for (i = 0; i < count; i++)
		first += (uint32_t)((strtoull(sizes[i], NULL, 0) + frame - 1) / frame);
	if (bpf_map__set_max_entries(map, first) || bpf_object__load(object))
		return -errno;
	state = map_share(".bss", sizeof(*state));
	counts = map_share("counts", sizeof(*counts) * WITNESS_CARDS * WITNESS_OWNERS);
	owners = map_share("owners", sizeof(*owners) * first);
	if (!state || !counts || !owners)
		return -ENOMEM;
	for (i = 0, first = 0; i < count; i++, first += card->frames) {
		card = &state->card[i];
		card->first = first;
		card->frames = (uint32_t)((strtoull(sizes[i], NULL, 0) + frame - 1) / frame);
	}
	return 0;
}

static int load(unsigned int count, char **sizes)
{
	int err;

	object = bpf_object__open_mem(program_begin, (size_t)(program_end - program_begin), NULL);
	if (!object)
		return -errno;
	err = map_cards(count, sizes);
	events = err ? NULL : ring_buffer__new(map_fd("events"), on_event, NULL, NULL);
	return err ? err : events ? 0 : -errno;
}

static int program_fd(const char *name)
{
	return bpf_program__fd(bpf_object__find_program_by_name(object, name));
}

/* --- orders --- */

static void order_code(char *words)
{
	struct bpf_test_run_opts options = { .sz = sizeof(options) };
	unsigned long long address;
	unsigned int bytes, i;
	unsigned char *code;
	int err;

	if (sscanf(words, "%llx %u", &address, &bytes) != 2 || !bytes || bytes > WITNESS_CODE_BYTES) {
		say("error: code: expected an address and up to %u bytes", WITNESS_CODE_BYTES);
		return;
	}
	state->code_address = address;
	state->code_bytes = bytes;
	privilege_raise();
	err = bpf_prog_test_run_opts(program_fd("read_code"), &options);
	privilege_lower();
	code = map_share("code", WITNESS_CODE_BYTES);
	if (err || options.retval || !code) {
		say("error: code: %s", strerror(err ? errno : EFAULT));
		return;
	}
	fputs("code ", stdout);
	for (i = 0; i < bytes; i++)
		printf("%02x", code[i]);
	say("%s", "");
	munmap(code, WITNESS_CODE_BYTES);
}

static void say_processors(void)
{
	if (placed.error)
		say("processors watched=%u online=%u missing=%u: %s", placed.watched, placed.online, placed.processor,
			strerror(-placed.error));
	else
		say("processors watched=%u online=%u", placed.watched, placed.online);
}

static void place(void)
{
	privilege_raise();
	breakpoints_place(&placed);
	privilege_lower();
}

static void order_attach(char *words)
{
	struct breakpoint wanted[BREAKPOINTS_MAX] = { { .place = WITNESS_FREEING, .program = program_fd("on_free") } };
	unsigned int count = 1;
	unsigned long long entry, begin, end, at;
	int used, err;

	if (attached || sscanf(words, "%llx %lx %llx %llx%n", &entry, &wanted[0].address, &begin, &end, &used) != 4) {
		say("error: attach: expected once ENTRY FREE BEGIN END RETURN");
		return;
	}
	for (words += used; sscanf(words, "%llx%n", &at, &used) == 1 && count < BREAKPOINTS_MAX - 1; words += used)
		wanted[count++] = (struct breakpoint){ at, WITNESS_RETURN, program_fd("on_return") };
	wanted[count++] = (struct breakpoint){ entry, WITNESS_ENTRY, program_fd("on_allocate") };
	state->chunks_begin = begin;
	state->chunks_end = end;
	err = sscanf(words, "%llx", &at) == 1 ? -ENOSPC : breakpoints_init(wanted, count);
	if (err) {
		say("error: attach: %s", strerror(-err));
		return;
	}
	attached = true;
	place();
	say_processors();
}

static void card_forget(unsigned int number)
{
	struct witness_card *card = &state->card[number];
	struct witness_count *count = &counts[number * WITNESS_OWNERS];
	unsigned int i;

	card->allocator = 0;
	memset(&owners[card->first], 0, card->frames * sizeof(*owners));
	for (i = 0; i < WITNESS_OWNERS; i++)
		count[i].back = count[i].given;
}

static void order_bind(char *words)
{
	unsigned int card, process;

	if (sscanf(words, "%u %u", &card, &process) != 2 || card >= WITNESS_CARDS) {
		say("error: bind: expected a card and a process");
		return;
	}
	card_forget(card);
	state->binding_card = card;
	__atomic_store_n(&state->binding_process, process, __ATOMIC_RELEASE);
	say("ok");
}

static void order_watch(char *words)
{
	unsigned long long cgroup;
	unsigned int owner;
	int err;

	if (sscanf(words, "%u %llu", &owner, &cgroup) != 2 || owner < WITNESS_CONTAINERS || owner >= WITNESS_OWNERS) {
		say("error: watch: expected an owner from %u to %u and the id of a cgroup", WITNESS_CONTAINERS,
			WITNESS_OWNERS - 1);
		return;
	}
	privilege_raise();
	err = bpf_map_update_elem(map_fd("cgroups"), &cgroup, &owner, BPF_ANY);
	privilege_lower();
	say("%s%s", err ? "error: watch: " : "ok", err ? strerror(errno) : "");
}

static void order_worker(char *words)
{
	unsigned int place, task;
	int err;

	if (sscanf(words, "%u %u", &place, &task) != 2 || place >= WITNESS_WORKERS) {
		say("error: worker: expected a place below %u and a task", WITNESS_WORKERS);
		return;
	}
	privilege_raise();
	err = bpf_map_update_elem(map_fd("workers"), &task, &place, BPF_ANY);
	privilege_lower();
	say("%s%s", err ? "error: worker: " : "ok", err ? strerror(errno) : "");
}

static void order_act(char *words)
{
	unsigned int place, owner;

	if (sscanf(words, "%u %u", &place, &owner) != 2 || place >= WITNESS_WORKERS || owner >= WITNESS_OWNERS) {
		say("error: act: expected a place below %u and an owner", WITNESS_WORKERS);
		return;
	}
	__atomic_store_n(&state->acting[place], owner, __ATOMIC_RELEASE);
	say("ok");
}

static void order_unwatch(char *words)
{
	unsigned long long cgroup = strtoull(words, NULL, 10);

	privilege_raise();
	bpf_map_delete_elem(map_fd("cgroups"), &cgroup);
	privilege_lower();
	say("ok");
}

static void order_limit(char *words)
{
	unsigned int card, owner;
	unsigned long long bytes;

	if (sscanf(words, "%u %u %llu", &card, &owner, &bytes) != 3 || card >= WITNESS_CARDS ||
		owner >= WITNESS_OWNERS) {
		say("error: limit: expected a card, an owner and bytes");
		return;
	}
	counts[card * WITNESS_OWNERS + owner].limit = bytes;
	say("ok");
}

/* Hits for which no program ran. The first figure is read first: what comes meanwhile is in the second alone. */
static uint64_t missed(void)
{
	uint64_t sum = 0, hits;
	unsigned int i;

	for (i = 0; i < WITNESS_PLACES; i++) {
		hits = breakpoints_hits((enum witness_place)i);
		sum += hits > state->runs[i] ? hits - state->runs[i] : 0;
	}
	return sum;
}

static void order_show(char *words)
{
	unsigned int card, owner;

	(void)words;
	for (card = 0; card < WITNESS_CARDS && state->card[card].frames; card++) {
		say("card=%u known=%d", card, state->card[card].allocator != 0);
		for (owner = 0; owner < WITNESS_OWNERS; owner++) {
			const struct witness_count *count = &counts[card * WITNESS_OWNERS + owner];

			if (count->given)
				say("card=%u owner=%u given=%llu back=%llu", card, owner, count->given, count->back);
		}
	}
	say("missed=%lu lost=%llu lost_events=%llu", attached ? missed() : 0ul, state->lost, state->lost_events);
	say("end");
}

static const struct {
	const char *name;
	void (*obey)(char *words);
} orders[] = { { "code", order_code }, { "attach", order_attach }, { "bind", order_bind }, { "watch", order_watch },
	{ "unwatch", order_unwatch }, { "worker", order_worker }, { "act", order_act }, { "limit", order_limit },
	{ "show", order_show } };

static void obey(char *line)
{
	size_t length = strcspn(line, " \n"), i;

	line[strcspn(line, "\n")] = 0;
	for (i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		if (strlen(orders[i].name) == length && memcmp(orders[i].name, line, length) == 0) {
			orders[i].obey(line + length);
			return;
		}
	}
	say("error: %.*s: not an order", (int)length, line);
}

/* --- main --- */

/* Processors that come and go. */
static int uevents_open(void)
{
	struct sockaddr_nl address = { .nl_family = AF_NETLINK, .nl_groups = UEVENTS_GROUP };
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool uevents_of_processors(int fd)
{
	char text[LINE_BYTES];
	bool found = false;
	ssize_t got;

	while ((got = recv(fd, text, sizeof(text) - 1, 0)) > 0 || (got < 0 && errno == ENOBUFS)) {
		text[got > 0 ? got : 0] = 0;
		found |= got < 0 || strstr(text, "/devices/system/cpu/cpu") != NULL;
	}
	return found;
}

static void look_after_processors(bool changed)
{
	const struct breakpoints_state before = placed;

	if (!attached || (!changed && placed.watched == placed.online))
		return;
	place();
	if (placed.again || placed.watched != before.watched || placed.online != before.online)
		say_processors();
}

/* False: the input has ended. */
static bool obey_input(void)
{
	static char input[LINE_BYTES];
	static size_t have;
	ssize_t got = read(STDIN_FILENO, input + have, sizeof(input) - 1 - have);
	char *end;

	if (got <= 0)
		return false;
	have += (size_t)got;
	input[have] = 0;
	while ((end = strchr(input, '\n')) != NULL) {
		*end = 0;
		obey(input);
		have -= (size_t)(end + 1 - input);
		memmove(input, end + 1, have + 1);
	}
	return have < sizeof(input) - 1;
}

static void serve(void)
{
	struct pollfd polled[] = { { .fd = STDIN_FILENO, .events = POLLIN }, { .fd = uevents_open(), .events = POLLIN },
		{ .fd = ring_buffer__epoll_fd(events), .events = POLLIN } };
	bool open = true;

	while (open) {
		int ready = poll(polled, 3, AGAIN_MS);

		if (ready < 0 && errno != EINTR)
			return;
		ring_buffer__consume(events);
		look_after_processors(ready > 0 && polled[1].revents && uevents_of_processors(polled[1].fd));
		if (ready > 0 && polled[0].revents)
			open = obey_input();
	}
}

int main(int argc, char **argv)
{
	int err;

	if (argc < 2 || argc - 1 > (int)WITNESS_CARDS) {
		fprintf(stderr, "usage: cgpu-witness BYTES..., the size of each card\n");
		return 2;
	}
	err = privileges_keep();
	if (err == 0)
		err = load((unsigned int)(argc - 1), argv + 1);
	privilege_lower();
	if (err) {
		fprintf(stderr, "cgpu-witness: the program is not loaded: %s\n", strerror(-err));
		return 1;
	}
	say("loaded");
	serve();
	return 0;
}
