/* SPDX-License-Identifier: Apache-2.0 */
/* cgpu-probe: a client of the NVIDIA driver in plain system calls, as CUDA makes them. */
#ifndef CGPU_PROBE_H
#define CGPU_PROBE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "fields.h"

#define PROBE_MAX_GPUS 32u
#define PROBE_MAX_MAPPINGS 16u
/* No status of the driver: the call itself failed, and errno says why. */
#define PROBE_ERRNO 0x80000000u

/* The heap in three forms: by size, in a range, by height and pitch. */
enum via { VIA_RM64, VIA_RM21, VIA_HEAP, VIA_RANGE, VIA_TILED };

/* How calls are made; settings stay until the next word that changes them. */
struct settings {
	const char *dev;
	const struct nv_abi *abi;
	char version[64];
	uint32_t magic;
	uint32_t direction;
	bool envelope;
	bool own_handles;
	enum via via;
	/* NVOS32_ATTR_PAGE_SIZE_*, and NVOS32_ATTR2_PAGE_SIZE_HUGE_* */
	uint32_t page;
	uint32_t huge;
};

struct held {
	uint32_t handle;
	uint64_t size;
};

/* One nvidiactl description with a client, a device and a subdevice on one card. */
struct session {
	const struct settings *settings;
	uint32_t gpu;
	int ctl;
	int card;
	/* Client and descriptor are another process's. */
	bool borrowed;
	uint32_t client;
	uint32_t device;
	uint32_t subdevice;
	uint32_t next_handle;
	struct held *held;
	size_t count;
	size_t room;
};

struct mapping {
	uint8_t *start;
	uint64_t size;
};

struct probe {
	struct settings settings;
	struct session sessions[PROBE_MAX_GPUS];
	uint32_t gpu;
	/* nvidia-uvm, -1 until it is wanted; and what is mapped of it */
	int uvm;
	struct mapping mapping[PROBE_MAX_MAPPINGS];
	size_t mappings;
	/* What the next step must answer; valid when expecting. */
	bool expecting;
	uint32_t expected;
	bool refused;
	/* The last descriptor that memory was exported on; -1: none. */
	int exported;
};

static inline void put_pointer(uint8_t *data, uint16_t at, const void *pointer)
{
	put64(data, at, (uintptr_t)pointer);
}

/* driver.c: every function below answers NV_OK, a status of the driver, or PROBE_ERRNO with errno set. */
int driver_open(const struct settings *settings, const char *node);
uint32_t driver_call(const struct settings *settings, int fd, uint32_t nr, uint8_t *data, size_t size);
bool driver_version(struct settings *settings, int ctl);
/* Number of cards, and the gpu_id of each by minor number; 0: none there. */
uint32_t driver_cards(const struct settings *settings, int ctl, uint32_t ids[PROBE_MAX_GPUS], uint32_t *count);

/* session.c */
void session_init(struct session *session, const struct settings *settings, uint32_t gpu);
/* Opens the nodes and makes client, device and subdevice, unless that is done. */
uint32_t session_open(struct session *session);
/* A client with its objects on ctl and card, which are open. */
uint32_t session_begin(struct session *session);
/* Frees what is held and the client, then closes. */
void session_close(struct session *session);
/* Closes the nodes and frees nothing by hand. */
void session_drop(struct session *session);
uint32_t session_alloc(struct session *session, uint32_t parent, uint32_t class_id, void *params, uint32_t params_size,
	uint32_t *handle);
uint32_t session_control(struct session *session, uint32_t object, uint32_t command, void *params, uint32_t size);
uint32_t session_free(struct session *session, uint32_t handle);

/* memory.c */
struct grant {
	uint32_t handle;
	uint64_t size;
	uint64_t offset;
	uint64_t limit;
};
uint32_t memory_alloc(struct session *session, uint64_t size, struct grant *grant);
uint32_t memory_alloc_host(struct session *session, uint64_t size, struct grant *grant);
/* A semaphore surface of the last memory, which the driver keeps for it. */
uint32_t memory_surface(struct session *session, uint32_t *handle);
/* Memory of this process that the driver makes known to the card: through the heap, or by the older call. */
uint32_t memory_pin(struct session *session, uint64_t size, struct grant *grant);
/* Until refused; returns the refusal. */
uint32_t memory_fill(struct session *session, uint64_t size, uint64_t *bytes, uint64_t *count);
uint32_t memory_dup(struct session *session, struct grant *grant);
/* Of another client's object. */
uint32_t memory_dup_of(struct session *session, uint32_t client, uint32_t object, struct grant *grant);
/* What the driver takes for a context shows nowhere; it is held as nothing. */
uint32_t memory_context(struct session *session);
uint32_t memory_free_at(struct session *session, size_t index);
bool memory_hold(struct session *session, uint32_t handle, uint64_t size);

/* export.c */
/* The last memory, or so many of the last as a list, on a new descriptor. */
uint32_t export_memory(struct session *session, uint32_t list, int *descriptor);
/* So many of the last, as a list, on a descriptor that there is. */
uint32_t export_list_to(struct session *session, int fd, uint32_t count);
/* One, or a list of so many. */
uint32_t import_memory(struct session *session, int fd, uint32_t list);

/* info.c */
struct sizes {
	uint64_t total;
	uint64_t free;
};
struct card_info {
	struct sizes v1;
	struct sizes v2;
	struct sizes heap;
	uint64_t region;
	char name[65];
	char uuid[64];
};
uint32_t info_v2(struct session *session, struct sizes *sizes);
uint32_t info_read(struct session *session, struct card_info *info);
uint32_t info_pids(struct session *session, uint32_t *pids, uint32_t room, uint32_t *count);
uint32_t info_pid_memory(struct session *session, uint32_t pid, uint64_t *bytes);
/* The driver's own limit on the cgroup of this process, both soft and hard. */
uint32_t info_set_limit(struct session *session, uint64_t bytes);

/* managed.c */
uint32_t managed_run(struct probe *probe, const char *value, bool *understood);
/* The last one; NV_OK when there is none. */
uint32_t managed_drop(struct probe *probe);

/* parse.c */
bool parse_size(const char **text, uint64_t *size);
bool parse_number(const char *text, uint64_t *value);
/* A:B:C..., at most so many. Returns how many, 0 for anything else. */
unsigned int parse_numbers(const char *text, uint64_t *numbers, unsigned int most);
bool parse_page(const char *text, struct settings *settings);

/* crowd.c: processes and threads; storm.c; steps.c */
uint32_t crowd_run(struct probe *probe, const char *value, bool threads, bool *understood);
uint32_t unshare_run(struct probe *probe, const char *value, bool *understood);
uint32_t storm_run(struct probe *probe, const char *value, bool *understood);
uint32_t bench_run(struct probe *probe, const char *value, bool *understood);
/* export_steps.c */
uint32_t export_run(struct probe *probe, const char *name, const char *value, bool *understood);
/* borrow.c */
/* A copy of a descriptor of another process; -1 with errno. */
int fd_of_process(long pid, long number);
uint32_t borrow_run(struct probe *probe, const char *name, const char *value, bool *understood);
/* share.c */
uint32_t share_run(struct probe *probe, const char *name, const char *value, bool *understood);
/* work.c, levers.c: whether the name is one of theirs */
bool work_run(struct probe *probe, const char *name, const char *value, uint32_t *status, bool *understood);
/* hold.c */
void hold_run(const char *value, bool *understood);
/* settings.c: whether the word is right; *known says whether it is a setting at all. */
bool setting_run(struct probe *probe, const char *name, const char *value, bool *known);
/* One word of the command line; returns false when it is not understood. */
bool step_run(struct probe *probe, const char *word);

/* One line of a step: its words, then status= or errno=. */
void report(uint32_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
