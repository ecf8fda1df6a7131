/* SPDX-License-Identifier: Apache-2.0 */
/* uvm-probe: CUDA's calls of nvidia-uvm and for dma-bufs, step by step. */
#ifndef UVM_PROBE_H
#define UVM_PROBE_H

#include "rm_client.h"

#define MAX_RANGES 64u
#define MAX_BUFFER 8u

struct range {
	uint64_t base;
	uint64_t length;
	uint32_t handle;
};

struct uvm {
	struct settings settings;
	struct session session;
	int fd;
	int mm_fd;
	uint8_t uuid[16];
	uint32_t va_space;
	struct grant last;
	struct grant granted[MAX_BUFFER]; /* the last ones, the last one last */
	struct range ranges[MAX_RANGES];
	unsigned int count;
	void *managed;
	size_t managed_size;
	int dmabuf;
	uint32_t group, channel; /* the last ones */
	uint64_t channels; /* how many UVM was told of */
};

/* uvm_calls.c: all answer NV_OK, a status of the driver, or RM_ERRNO with errno set. */
/* A call of a number: the status lies in the structure. */
uint32_t uvm_call(int fd, uint32_t number, uint8_t *params, uint16_t status_at);
/* The first: with a client of its own on the first card; by the second, with the client that there is. */
uint32_t uvm_open(struct uvm *uvm, const struct settings *settings);
uint32_t uvm_start(struct uvm *uvm);
/* Another file, which is closed again. */
uint32_t uvm_initialize(struct uvm *uvm, uint64_t flags);
uint32_t uvm_register(struct uvm *uvm, const char *name);
/* Whether UVM would move ordinary memory of this process to a card. */
uint32_t uvm_pageable(struct uvm *uvm, bool *pageable);
uint32_t attach_card(struct uvm *uvm, uint32_t card);
uint32_t uvm_range(struct uvm *uvm, uint64_t length);
uint32_t uvm_map(struct uvm *uvm, uint32_t handle);
/* Into a part of the last range. */
uint32_t uvm_map_part(struct uvm *uvm, uint32_t handle, uint64_t offset, uint64_t length);
/* Memory of the card for other devices, in a range of its own. */
uint32_t uvm_p2p(struct uvm *uvm, uint64_t length, uint32_t handle);
uint32_t uvm_unmap(struct uvm *uvm);
/* The last range, without memory: the card has page tables for it alone. */
uint32_t uvm_sparse(struct uvm *uvm);
/* uvm_beside.c: again and again on new memory; mapped memory then stays so. */
uint32_t map_beside_unmap(struct uvm *uvm, uint64_t rounds);
uint32_t uvm_free(struct uvm *uvm);
/* uvm_channels.c: a group with a channel that UVM is told of; the same so often, and each group freed. */
uint32_t uvm_channel(struct uvm *uvm);
uint32_t uvm_retain(struct uvm *uvm, uint64_t rounds);
uint32_t uvm_unregister_channel(struct uvm *uvm);
uint32_t uvm_unregister_space(struct uvm *uvm);
uint32_t uvm_range_at(struct uvm *uvm, uint64_t base, uint64_t length);
uint32_t uvm_pool(struct uvm *uvm, uint64_t size);
uint32_t uvm_managed(struct uvm *uvm, uint64_t size);
/* The managed memory, to the card. */
uint32_t uvm_migrate(struct uvm *uvm);
/* The last memories, at a place in a buffer of so many: a new one, or the one that there is. */
struct buffer {
	uint32_t count, index, total;
	bool again;
};
uint32_t dmabuf_export(struct uvm *uvm, const struct buffer *buffer);

#endif
