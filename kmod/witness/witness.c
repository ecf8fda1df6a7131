// SPDX-License-Identifier: Apache-2.0
/*
 * cgpu-witness BYTES…: loads the program that counts the pages of cards (witness.bpf.c), one size for each card, and obeys
 * lines of its input until that ends. First it says `processors watched=N online=N`, or `refused WORD TEXT` and ends. Each line
 * has a line for an answer, `ok` or `error: …`; that to `show` ends with a line `end`. Between them come lines that begin with
 * `excess` and `processors`.
 *
 *   bind CARD TASK                           forget the card's pages; the thread's next one is of the card, which has started
 *   watch OWNER CGROUP                       whose pages are a cgroup's and of those below; by its id
 *   unwatch CGROUP
 *   worker PLACE TASK · act PLACE OWNER      a thread that takes pages for others; for whom it does now, 0: for itself
 *   limit CARD OWNER BYTES                   say when it gets so much more than it has; 0: never. CARD 32: of unknown cards
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
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "breakpoints.h"
#include "places.h"

#define LINE_BYTES 4096
#define AGAIN_MS 1000 /* until registers that others have are tried again */
#define CHECK_MS 10000 /* until all processors are looked at: another network namespace than the first hears of none */
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
	char command[sizeof(event->command) + 1] = "";
	unsigned int i;

	(void)ctx;
	(void)size;
	/* The process has chosen it. */
	for (i = 0; i < sizeof(event->command) && event->command[i]; i++)
		command[i] = event->command[i] > ' ' && event->command[i] <= '~' ? event->command[i] : '?';
	say("excess card=%u owner=%u used=%llu limit=%llu bytes=%llu ns=%llu process=%u task=%u command=%s",
		event->card, event->owner, event->used, event->limit, event->bytes, event->time, event->process,
		event->task, command);
	return 0;
}

/* The frames that so many bytes of a card take. */
static uint32_t count_frames(const char *bytes)
{
	const uint64_t frame = 1ull << WITNESS_FRAME_SHIFT;

	return (uint32_t)((strtoull(bytes, NULL, 0) + frame - 1) / frame);
}

static int map_cards(unsigned int count, char **sizes)
{
	struct bpf_map *map = bpf_object__find_map_by_name(object, "owners");
	struct witness_card *card;
	uint32_t first = 0;
	unsigned int i;

	for (i = 0; i < count; i++)
		first += count_frames(sizes[i]);
	if (bpf_map__set_max_entries(map, first) || bpf_object__load(object))
		return -errno;
	state = map_share(".bss", sizeof(*state));
	counts = map_share("counts", sizeof(*counts) * WITNESS_COUNTS);
	owners = map_share("owners", sizeof(*owners) * first);
	if (!state || !counts || !owners)
		return -ENOMEM;
	for (i = 0, first = 0; i < count; i++, first += card->frames) {
		card = &state->card[i];
		card->first = first;
		card->frames = count_frames(sizes[i]);
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

#define NUMBERS_MAX 8u

static void answer(int err)
{
	say("%s%s", err < 0 ? "error: " : "ok", err < 0 ? strerror(-err) : "");
}

/* A change of a map, which only a privileged task may make. value NULL: the key goes. */
static int map_change(const char *name, const void *key, const void *value)
{
	int err;

	privilege_raise();
	err = value ? bpf_map_update_elem(map_fd(name), key, value, BPF_ANY) : bpf_map_delete_elem(map_fd(name), key);
	err = err ? -errno : 0;
	privilege_lower();
	return err;
}

/* Code of the driver; NULL where it cannot be read. */
static uint8_t *copy_code(const struct span *span)
{
	struct bpf_test_run_opts options = { .sz = sizeof(options) };
	uint8_t *code = map_share("code", WITNESS_CODE_BYTES);
	int err;

	if (!code || span->end - span->begin > WITNESS_CODE_BYTES)
		return NULL;
	state->code_address = span->begin;
	state->code_bytes = (uint32_t)(span->end - span->begin);
	privilege_raise();
	err = bpf_prog_test_run_opts(program_fd("read_code"), &options);
	privilege_lower();
	return err || options.retval ? NULL : code;
}

static void say_processors(void)
{
	printf("processors watched=%u online=%u", placed.watched, placed.online);
	if (placed.error)
		printf(" missing=%u: %s", placed.processor, strerror(-placed.error));
	say("%s", "");
}

static void place(void)
{
	privilege_raise();
	breakpoints_place(&placed);
	privilege_lower();
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

static void order_bind(const uint64_t *number, unsigned int count)
{
	(void)count;
	if (number[0] >= WITNESS_CARDS) {
		answer(-EINVAL);
		return;
	}
	card_forget((unsigned int)number[0]);
	state->binding_card = (uint32_t)number[0];
	__atomic_store_n(&state->binding_task, (uint32_t)number[1], __ATOMIC_RELEASE);
	answer(0);
}

static void order_watch(const uint64_t *number, unsigned int count)
{
	const uint32_t owner = (uint32_t)number[0];

	(void)count;
	answer(owner < WITNESS_CONTAINERS || owner >= WITNESS_OWNERS ? -EINVAL :
								       map_change("cgroups", &number[1], &owner));
}

static void order_unwatch(const uint64_t *number, unsigned int count)
{
	(void)count;
	answer(map_change("cgroups", &number[0], NULL));
}

static void order_worker(const uint64_t *number, unsigned int count)
{
	const uint32_t place = (uint32_t)number[0], task = (uint32_t)number[1];

	(void)count;
	answer(place >= WITNESS_WORKERS ? -EINVAL : map_change("workers", &task, &place));
}

static void order_act(const uint64_t *number, unsigned int count)
{
	const bool fits = number[0] < WITNESS_WORKERS && number[1] < WITNESS_OWNERS;

	(void)count;
	if (fits)
		__atomic_store_n(&state->acting[number[0]], (uint32_t)number[1], __ATOMIC_RELEASE);
	answer(fits ? 0 : -EINVAL);
}

/* What an owner of this number has left behind is not the next one's. */
static void order_limit(const uint64_t *number, unsigned int count)
{
	const bool fits = number[0] <= WITNESS_CARDS && number[1] < WITNESS_OWNERS;
	struct witness_count *each;

	(void)count;
	if (fits) {
		each = &counts[number[0] * WITNESS_OWNERS + number[1]];
		each->limit = number[2] ? each->given - each->back + number[2] : 0;
	}
	answer(fits ? 0 : -EINVAL);
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

static void order_show(const uint64_t *number, unsigned int count)
{
	unsigned int card, owner;

	(void)number;
	(void)count;
	for (card = 0; card < WITNESS_CARDS && state->card[card].frames; card++) {
		say("card=%u known=%d", card, state->card[card].allocator != 0);
		for (owner = 0; owner < WITNESS_OWNERS; owner++) {
			const struct witness_count *each = &counts[card * WITNESS_OWNERS + owner];

			if (each->given)
				say("card=%u owner=%u given=%llu back=%llu", card, owner, each->given, each->back);
		}
	}
	say("missed=%lu lost=%llu lost_events=%llu", missed(), state->lost, state->lost_events);
	say("end");
}

static const struct order {
	const char *name;
	unsigned int least, most; /* numbers behind it */
	void (*obey)(const uint64_t *number, unsigned int count);
} orders[] = {
	{ "bind", 2, 2, order_bind },
	{ "watch", 2, 2, order_watch },
	{ "unwatch", 1, 1, order_unwatch },
	{ "worker", 2, 2, order_worker },
	{ "act", 2, 2, order_act },
	{ "limit", 3, 3, order_limit },
	{ "show", 0, 0, order_show },
};

static void obey(char *line)
{
	char *rest = line, *word = strsep(&rest, " "), *end;
	uint64_t number[NUMBERS_MAX];
	unsigned int count = 0, i;

	while (rest && *rest && count < NUMBERS_MAX) {
		number[count++] = strtoull(rest, &end, 0);
		rest = end == rest ? NULL : end;
	}
	for (i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		if (strcmp(orders[i].name, word) || count < orders[i].least || count > orders[i].most)
			continue;
		orders[i].obey(number, count);
		return;
	}
	say("error: %s with %u numbers: not an order", word, count);
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

static int64_t clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void look_after_processors(bool changed)
{
	static int64_t looked;
	const struct breakpoints_state before = placed;
	int64_t now = clock_ms();

	if (!changed && now - looked < (placed.watched == placed.online ? CHECK_MS : AGAIN_MS))
		return;
	looked = now;
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

/* Find the functions while CAP_SYSLOG is there: without it the kernel shows no addresses. */
static int find_symbols(struct symbols *symbols, struct obstacle *obstacle)
{
	FILE *table = fopen("/proc/kallsyms", "re");
	int err;

	if (!table) {
		*obstacle = (struct obstacle){ "addresses", "/proc/kallsyms cannot be opened" };
		return -1;
	}
	err = symbols_read(table, symbols, obstacle);
	fclose(table);
	return err;
}

/* Why the kernel does not take the program. */
static void explain_load(int err, struct obstacle *obstacle)
{
	char lockdown[128] = "";
	FILE *file = fopen("/sys/kernel/security/lockdown", "re");

	if (file && !fgets(lockdown, sizeof(lockdown), file))
		lockdown[0] = 0;
	if (file)
		fclose(file);
	obstacle->word = strstr(lockdown, "[confidentiality]") ? "lockdown" : err == -ENOSYS ? "bpf" : "kernel";
	snprintf(obstacle->text, sizeof(obstacle->text),
		"the kernel does not load the program: %s; it takes Linux 5.17, BPF with type information, and lockdown below "
		"confidentiality",
		strerror(-err));
}

/* The entry is placed last: no call may be seen without its end. */
static int begin(const struct symbols *symbols, struct obstacle *obstacle)
{
	struct breakpoint wanted[BREAKPOINTS_MAX] = { { symbols->free.begin, WITNESS_FREEING, program_fd("on_free") } };
	unsigned int i, used = 1;
	struct returns returns;
	uint8_t *code = copy_code(&symbols->allocate);
	int err;

	if (!code) {
		*obstacle = (struct obstacle){ "code", "the code of pmaAllocatePages cannot be read" };
		return -1;
	}
	if (returns_find(code, symbols, &returns, obstacle))
		return -1;
	for (i = 0; i < returns.count; i++)
		wanted[used++] = (struct breakpoint){ returns.address[i], WITNESS_RETURN, program_fd("on_return") };
	wanted[used++] = (struct breakpoint){ symbols->allocate.begin, WITNESS_ENTRY, program_fd("on_allocate") };
	state->chunks_begin = symbols->chunks.begin;
	state->chunks_end = symbols->chunks.end;
	err = breakpoints_init(wanted, used);
	if (!err)
		place();
	if (!err && placed.watched)
		return 0;
	obstacle->word = "registers";
	snprintf(obstacle->text, sizeof(obstacle->text), "no processor has breakpoints for it: %s",
		strerror(-(err ? err : placed.error)));
	return -1;
}

static int start(unsigned int count, char **sizes, struct obstacle *obstacle)
{
	struct symbols symbols;
	int err;

	if (find_symbols(&symbols, obstacle))
		return -1;
	err = privileges_keep();
	if (!err)
		err = load(count, sizes);
	privilege_lower();
	if (!err)
		return begin(&symbols, obstacle);
	explain_load(err, obstacle);
	return -1;
}

int main(int argc, char **argv)
{
	struct obstacle obstacle = { 0 };

	if (argc < 2 || argc - 1 > (int)WITNESS_CARDS) {
		fprintf(stderr, "usage: cgpu-witness BYTES..., the size of each card\n");
		return 2;
	}
	if (start((unsigned int)(argc - 1), argv + 1, &obstacle)) {
		say("refused %s %s", obstacle.word, obstacle.text);
		return 1;
	}
	say_processors();
	serve();
	return 0;
}
