/* SPDX-License-Identifier: Apache-2.0 */
/* A client of the driver's resource manager in plain system calls, for the probe, the check of drivers and programs of tests. */
#ifndef CGPU_RM_CLIENT_H
#define CGPU_RM_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rm_structs.h"

#define RM_MAX_GPUS 32u
/* No status of the driver: the call itself failed, and errno says why. */
#define RM_ERRNO 0x80000000u

/* Settings by which calls are made. */
struct settings {
	const char *dev;
	const struct nv_abi *abi;
	char version[64];
	uint32_t magic;
	uint32_t direction;
	bool wrapped;
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
	uint32_t client;
	uint32_t device;
	uint32_t subdevice;
	uint32_t next_handle;
	struct held *held;
	size_t count;
	size_t room;
};

static inline void put_pointer(uint8_t *data, uint16_t at, const void *pointer)
{
	put64(data, at, (uintptr_t)pointer);
}

/* ioctl.c: every function below answers NV_OK, a status of the driver, or RM_ERRNO with errno set. */
int driver_open(const struct settings *settings, const char *node);
uint32_t driver_call(const struct settings *settings, int fd, uint32_t nr, uint8_t *data, size_t size);
/* Makes a call, and returns the driver's status. */
uint32_t driver_make(const struct settings *settings, int fd, struct rm_ioctl *io);
/* Asks for the driver's version, and finds its tables. */
bool driver_version(struct settings *settings, int ctl);
/* Number of cards, and the gpu_id of each by minor number; 0: none there. */
uint32_t driver_cards(const struct settings *settings, int ctl, uint32_t ids[RM_MAX_GPUS], uint32_t *count);

/* session.c */
void session_init(struct session *session, const struct settings *settings, uint32_t gpu);
/* Opens the nodes and makes client, device and subdevice, unless that is done. */
uint32_t session_open(struct session *session);
/* A client with its objects on ctl and card, which are open. */
uint32_t session_begin(struct session *session);
/* Frees the objects and the client, then closes the nodes. */
void session_close(struct session *session);
/* Closes the nodes without a free: the driver frees everything. */
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
/* Allocates until the driver refuses; returns the refusal. */
uint32_t memory_fill(struct session *session, uint64_t size, uint64_t *bytes, uint64_t *count);
uint32_t memory_dup(struct session *session, struct grant *grant);
/* Duplicates another client's object. */
uint32_t memory_dup_of(struct session *session, uint32_t client, uint32_t object, struct grant *grant);
/* An empty channel group. No memory is noted for it: the driver's memory for its context shows nowhere. */
uint32_t group_alloc(struct session *session, uint32_t engine, uint32_t *handle);
uint32_t memory_free_at(struct session *session, size_t index);
/* Notes an object that was made, for session_close() to free. Returns the status of the call that made it, or RM_ERRNO. */
uint32_t memory_hold(struct session *session, uint32_t status, uint32_t handle, uint64_t size);
/* A handle for a new object; 0: the driver chooses. */
uint32_t session_handle(struct session *session);

/* export.c */
/* The last memory, or a list of the last `list`, on a new descriptor; and on one that is open already. */
uint32_t export_memory(struct session *session, uint32_t list, int *descriptor);
uint32_t export_to(struct session *session, int fd, uint32_t list);
/* One object, or a list of `list`. */
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

/* arguments.c */
bool parse_size(const char **text, uint64_t *size);
bool parse_number(const char *text, uint64_t *value);
/* A:B:C..., at most `most` numbers. Returns how many there are; 0 for any other text. */
unsigned int parse_numbers(const char *text, uint64_t *numbers, unsigned int most);
bool parse_page(const char *text, struct settings *settings);

#endif
