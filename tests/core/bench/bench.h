/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the core's test programs: a core with callbacks, and a driver of a few lines. */
#ifndef CGPU_TEST_BENCH_H
#define CGPU_TEST_BENCH_H

#include "call/call.h"
#include "check_fact.h"
#include "state/state.h"

#define MIB (1ull << 20)
#define CARD_BYTES (15109 * MIB)
#define OUTSIDE 0x7f0000000000ull /* an address in the caller, never dereferenced */

struct bench {
	struct bench *next; /* of those that are not freed yet */
	struct cgpu_core core;
	struct cgpu_ops ops;
	int locked;
	int process_missing; /* cgroup_of answers -ESRCH */
	const char *unknown; /* cgroup_of answers -EINVAL, and this */
	void (*at_orphans)(struct bench *bench); /* what the transport does about orphans, if anything */
	void (*at_cgroup)(struct bench *bench); /* something that happens while the lock is not held */
	struct cgpu_refusal why; /* of the last line for inst_ctl; empty: it was accepted */
	char log[512]; /* last line */
	u32 logged;
	char event[1024]; /* last line for the event log */
	u32 events;
	u64 now; /* of ops->clock */
	u32 turned; /* GPUs that a turn was asked for, until a test clears it */
	/* The driver's answer to the next call. */
	u32 driver_status;
	int driver_result;
	u64 driver_size; /* 0: as asked, rounded up to driver_page */
	u64 driver_page;
	u32 driver_handle; /* given out when the caller names none */
	void (*at_execute)(struct bench *bench);
	u32 question_status; /* of the driver's answers to questions before a call; 0: the object is there */
	u32 asked; /* how many questions there were */
	/* Handles that the driver knows when it is asked; all others are not there. */
	struct {
		u32 handle, class, parent;
	} named[4];
	u32 notifier[2]; /* which bench_channel() names */
	u32 userd;
	u32 channel_flags; /* of the channels that it makes */
	u32 keeps_descriptors; /* the transport does not say what a descriptor leads to */
	u64 target; /* the file that it leads to */
	/* Results of the last call. */
	enum cgpu_verdict verdict;
	struct cgpu_call call;
	u8 top[256];
	u8 segment[CGPU_MAX_SEGMENTS][CGPU_SEGMENT_MAX];
	u32 undone; /* how many objects of the last call were taken back */
};

/* Caller of the core: a container, a process, a device node. */
struct caller {
	u32 slot;
	u64 generation;
	s32 tgid;
	enum cgpu_device device;
	u32 gpu;
	u64 file;
};

/* With one card at index 0 and one at index 1, and settings with enforcement. */
struct bench *bench_new(const char *driver);
/* A number below another one, by whatever the seed is; it is another one then. */
u32 bench_chance(u64 *seed, u32 below);
void bench_free(struct bench *bench);
void bench_settings(struct bench *bench, u32 enforce, u32 allow_zero_weight);
int bench_ctl(struct bench *bench, const char *text);
struct caller bench_caller(struct bench *bench, const char *id, s32 tgid);
/* The text of a node, or the error as a number in text. */
long bench_read(struct bench *bench, const char *path, char *text, size_t bytes);
int bench_write(struct bench *bench, const char *path, const char *value);
/* The text of a node is exactly this. */
int bench_is(struct bench *bench, const char *path, const char *text);
/* Recompute every sum and chain from the records; exits when one is wrong. */
void bench_invariants(const struct cgpu_state *state);

/* One call to its end, the undo included: the driver's status, or a negative errno; CONTINUE is 0x10000. */
#define CONTINUED 0x10000
long bench_call(struct bench *bench, const struct caller *caller, u32 nr, u32 bytes);

struct memory_ask {
	u32 client, parent, object;
	u64 size;
	u32 attr, attr2, flags;
	u64 alignment;
	u32 function; /* of the heap; 0: ALLOC_SIZE */
};
long bench_device(struct bench *bench, const struct caller *caller, u32 client, u32 object, u32 instance);
/* A channel group, or a channel of any class. */
struct channel_ask {
	u32 client, parent, object, class;
	u32 engine, space;
};
long bench_channel(struct bench *bench, const struct caller *caller, const struct channel_ask *ask);
/* Addresses below the first device of bench_cuda_start(), in a space; by class, or through the heap. */
struct address_ask {
	u32 client, parent, object, space;
	u64 size;
	u32 attr, flags;
};
long bench_addresses(struct bench *bench, const struct caller *caller, const struct address_ask *ask);
long bench_heap_addresses(struct bench *bench, const struct caller *caller, const struct address_ask *ask);
long bench_range(struct bench *bench, const struct caller *caller, const struct address_ask *ask);
struct map_ask {
	u32 client, device, dma, memory;
	u64 length, address;
};
long bench_map(struct bench *bench, const struct caller *caller, const struct map_ask *ask);
long bench_unmap(struct bench *bench, const struct caller *caller, const struct map_ask *ask);
/* A VA space; flags: NV_VASPACE_ALLOCATION_FLAGS_*. */
long bench_space(struct bench *bench, const struct caller *caller, u32 client, u32 parent, u32 object, u32 flags);
long bench_subdevice(struct bench *bench, const struct caller *caller, u32 client, u32 parent, u32 object);
/* RM_ALLOC of class 0x40; wide: NVOS64, else NVOS21. */
long bench_vidmem(struct bench *bench, const struct caller *caller, int wide, const struct memory_ask *ask);
/* The same of class 0x3E, memory of the host. */
long bench_host(struct bench *bench, const struct caller *caller, u32 client, u32 parent, u32 object);
long bench_heap(struct bench *bench, const struct caller *caller, const struct memory_ask *ask);
/* A semaphore surface of one or two memories. */
long bench_surface(struct bench *bench, const struct caller *caller, u32 client, u32 first, u32 second);
/* An object of any class below the device that bench_cuda_start() makes, or below another parent. */
long bench_class(struct bench *bench, const struct caller *caller, u32 class);
long bench_class_below(struct bench *bench, const struct caller *caller, u32 parent, u32 class);
/* Memory below that device. */
long bench_take(struct bench *bench, const struct caller *caller, u32 client, u32 object, u64 size);
/* A control on any object; its parameters are in the first segment. */
long bench_control(struct bench *bench, const struct caller *caller, u32 client, u32 object, u32 cmd, u32 bytes);
long bench_rm_free(struct bench *bench, const struct caller *caller, u32 client, u32 object);
long bench_dup(struct bench *bench, const struct caller *caller, u32 client, u32 parent, u32 object, u32 from_client,
	u32 from_object);
/* Leave to duplicate, for one client; 0: for all. */
long bench_share(struct bench *bench, const struct caller *caller, u32 client, u32 object, u32 target);
/* Exports and imports by a descriptor of bench->target: of one, and of a list. */
long bench_export(struct bench *bench, const struct caller *caller, u32 client, u32 object);
long bench_import(struct bench *bench, const struct caller *caller, u32 client, u32 parent, u32 object);
struct list_ask {
	u32 client, parent, index, count;
	u32 object[512];
};
long bench_export_list(struct bench *bench, const struct caller *caller, const struct list_ask *ask);
long bench_import_list(struct bench *bench, const struct caller *caller, const struct list_ask *ask);
/* Client 0xc1, device 0xd0, subdevice 0xd1 on GPU 0. */
void bench_cuda_start(struct bench *bench, const struct caller *caller, u32 client);
/* The driver has dropped every client that a removed container left behind. */
void bench_orphans_gone(struct bench *bench);
u64 bench_used(struct bench *bench, u32 gpu, u32 slot);

/*
 * One fact: TEST(name_of_the_fact) and the body of a function. main() of bench.c runs one of them by its name, then frees
 * each bench that is left, which checks its sums.
 */
struct test {
	const char *name;
	void (*run)(void);
	struct test *next;
};
void bench_add(struct test *test);
#define TEST(fact)                                                \
	static void fact(void);                                   \
	static __attribute__((constructor)) void add_##fact(void) \
	{                                                         \
		static struct test test = { #fact, fact, NULL };  \
                                                                  \
		bench_add(&test);                                 \
	}                                                         \
	static void fact(void)

/* The same, on a bench for each version of the driver: the expression makes it of `version`, and may fill in who calls. */
#define TEST_ON_EACH(fact, setup, ...)                                            \
	static void fact##_on(struct bench *bench, struct caller caller);         \
	TEST(fact)                                                                \
	{                                                                         \
		static const char *const drivers[] = { __VA_ARGS__ };             \
		struct caller caller = { 0 };                                     \
		size_t i;                                                         \
                                                                                  \
		for (i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++) {      \
			__attribute__((unused)) const char *version = drivers[i]; \
			struct bench *bench = setup;                              \
                                                                                  \
			fact##_on(bench, caller);                                 \
		}                                                                 \
	}                                                                         \
	static void fact##_on(__attribute__((unused)) struct bench *bench, __attribute__((unused)) struct caller caller)

#define TEST_ON(fact, setup) TEST_ON_EACH(fact, setup, NULL)

#endif
