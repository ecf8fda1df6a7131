/* SPDX-License-Identifier: Apache-2.0 */
/* The node nvidia-uvm: open files, the ranges of their address spaces, and memory that is mapped there. */
#ifndef CGPU_SIM_UVM_H
#define CGPU_SIM_UVM_H

#include "sim.h"

enum uvm_type { UVM_UNINITIALIZED, UVM_VA_SPACE, UVM_MM };

/* A duplicate of memory: it stays until the last piece of its mapping goes (uvm_map_external.c, mem_handle). */
struct uvm_hold {
	uint32_t refs;
	/* NULL: memory of the host. */
	struct memory *memory;
	struct backing *backing;
};

struct uvm_mapping {
	struct uvm_mapping *next;
	struct uvm_hold *hold;
	uint64_t start;
	/* The last byte. */
	uint64_t end;
	uint64_t offset; /* in the memory */
	uint32_t card;
};

/*
 * Uses of a range. A pool of semaphores is memory of the host, in the process that asked for it; windows are the
 * graphics engine's own, with nothing in them.
 */
enum uvm_kind { UVM_EXTERNAL, UVM_P2P, UVM_POOL, UVM_WINDOW };

struct uvm_range {
	struct uvm_range *next;
	uint64_t start;
	uint64_t end;
	/* Mappings of an external range. */
	struct uvm_mapping *mappings;
	/* Memory for other devices, which takes the whole range. */
	struct uvm_hold *p2p;
	enum uvm_kind kind;
};

/* One open file description. */
struct uvm_file {
	struct uvm_file *next;
	uint64_t id; /* of the same numbers as those of struct open_file */
	enum uvm_type type;
	uint64_t flags;
	bool registered[SIM_MAX_CARDS];
	bool has_va_space[SIM_MAX_CARDS];
	uint64_t va_space_client[SIM_MAX_CARDS]; /* by number */
	uint32_t va_space[SIM_MAX_CARDS];
	struct uvm_range *ranges;
	uint64_t last_group;
	/* The other file, which a file of type UVM_MM keeps open. */
	intptr_t target;
};

/* One call: how its parameters lie, and the function that answers it. */
struct uvm_call;
struct uvm_route {
	uint32_t command;
	bool of_card; /* the layout is in struct card_abi, else in struct nv_abi */
	size_t bytes_at;
	size_t status_at;
	uint32_t (*run)(struct uvm_call *call);
	/* For uvm_policy(): place of a span, and of the processor or card that the call names, or 0. */
	size_t base_at;
	size_t length_at;
	size_t place_at;
};

/* A call that has been copied in, with the process that makes it. */
struct uvm_call {
	const struct uvm_route *route;
	struct sim *sim;
	struct uvm_file *file;
	struct caller caller;
	pid_t process;
	uint8_t *params;
};

/* uvm_external.c: with the lock held; each answers with the driver's status. */
/* The number of a registered card; SIM_NO_CARD: none with this name. */
uint32_t uvm_card(const struct uvm_call *call, const uint8_t *uuid);
/* An object as a process of the user names it to UVM (src/nvidia/src/kernel/rmapi/nv_gpu_ops.c, client_resource.c:220). */
uint32_t uvm_find_object(struct uvm_call *call, uint32_t client, uint32_t handle, struct object **object);
uint32_t uvm_create_external_range(struct uvm_call *call);
uint32_t uvm_map_external_allocation(struct uvm_call *call);
uint32_t uvm_unmap_external(struct uvm_call *call);
uint32_t uvm_free(struct uvm_call *call);
uint32_t uvm_alloc_device_p2p(struct uvm_call *call);
uint32_t uvm_alloc_semaphore_pool(struct uvm_call *call);
uint32_t uvm_map_window(struct uvm_call *call);
/* uvm_api_range_invalid_4k() */
bool uvm_is_span(uint64_t base, uint64_t length);
bool uvm_is_pool(struct uvm_file *file, uint64_t address);
void uvm_drop_card(struct sim *sim, struct uvm_file *file, uint32_t card);
void uvm_drop_all(struct sim *sim, struct uvm_file *file);

/* uvm_managed.c: with the lock held, but uvm_migrate() */
uint32_t uvm_create_range_group(struct uvm_call *call);
uint32_t uvm_destroy_range_group(struct uvm_call *call);
uint32_t uvm_set_range_group(struct uvm_call *call);
uint32_t uvm_policy(struct uvm_call *call);
uint32_t uvm_validate_va_range(struct uvm_call *call);
uint32_t uvm_pageable_access_on_gpu(struct uvm_call *call);
uint32_t uvm_migrate(struct uvm_call *call);

/* uvm.c: files of its node, without the lock. NULL: no memory. */
struct uvm_file *uvm_open(struct sim *sim);
void uvm_release(struct sim *sim, struct uvm_file *file);
/* One ioctl. 0 or -errno. */
int uvm_ioctl(struct sim *sim, struct uvm_file *file, pid_t thread, uint32_t command, uint64_t argument);

#endif
