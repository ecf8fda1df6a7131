/* SPDX-License-Identifier: Apache-2.0 */
/* Between the core and the cards: open files, and the steps of a call. */
#ifndef TEST_LAYOUTS_TRANSPORT_H
#define TEST_LAYOUTS_TRANSPORT_H

#include "cards.h"
#include "cgpu_core.h"

struct file {
	struct file *next;
	uint64_t id;
	enum device_node node;
	uint32_t card;
	struct open_file *open;
	bool closed; /* but kept by a card's file that was registered with it */
};

struct transport {
	struct cgpu_core core;
	struct sim *sim;
	struct file *files;
	bool finds_files; /* as the kernel module does, and the daemon cannot */
};

/* Adds the simulated cards to the core. 0 or negative errno. */
int transport_add_cards(struct transport *transport);
/* NULL: none is left. */
const struct file *transport_open(struct transport *transport, enum device_node node, uint32_t card);
const struct file *transport_find(const struct transport *transport, uint64_t id);
void transport_close(struct transport *transport, uint64_t id);
/* Drops all files; the core is not told. */
void transport_forget_files(struct transport *transport);

/* A call as the core wants it. */
struct cgpu_call transport_call(const struct transport *transport, const struct file *file,
	const struct cgpu_container_info *slice, const struct driver_call *given);
enum cgpu_verdict transport_judge(struct transport *transport, const struct driver_call *given, struct cgpu_call *call);
/* Settle a call. result: the return value of ioctl. */
void transport_settle(struct transport *transport, const struct file *file, struct cgpu_call *call, int result);
/* Free what a settled call has allocated. */
void transport_take_back(struct transport *transport, const struct file *file, struct cgpu_call *done);

#endif
