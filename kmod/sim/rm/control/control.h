/* SPDX-License-Identifier: Apache-2.0 */
/* Control calls: what answers each. */
#ifndef CGPU_SIM_CONTROL_H
#define CGPU_SIM_CONTROL_H

#include "sim.h"

/* A control call; card is a copy, and SIM_NO_CARD stands for the client object. */
struct control {
	bool waits; /* before it returns, for what it has asked of the engines */
	struct call *call;
	uint32_t card_index;
	bool denied; /* mig_denies() */
	struct card card;
	uint8_t *params;
	uint32_t size; /* of these */
};

/* What the caller has to be allowed (g_*_nvoc.c, flags and access rights of each control). The kernel may do all. */
enum rights { RIGHTS_NONE, RIGHTS_NICE, RIGHTS_ADMIN };

/* One control: on which class of object, how its parameters lie, and one function that answers it. */
struct control_entry {
	uint32_t command;
	uint32_t class_id;
	bool of_card; /* the parameters' layout is in struct card_abi, else in struct nv_abi */
	size_t bytes_at;
	/* Runs without the lock. */
	uint32_t (*answer)(struct control *control);
	/* Or this, with the lock held, and the engines at the time of the call. */
	uint32_t (*run)(struct control *control, struct object *object);
	enum rights rights;
};
#define NV_PARAMS(name) false, offsetof(struct nv_abi, name.bytes)
#define NO_PARAMS false, SIZE_MAX
#define CARD_PARAMS(name) true, offsetof(struct card_abi, name.bytes)
#define ANSWER(function, rights) function, NULL, rights
#define OBJECT_CONTROL(function, rights) NULL, function, rights
/* Stands for channels of all generations. */
#define ANY_CHANNEL KEPLER_CHANNEL_GPFIFO_A

/* The controls of one subject, each in the file of that name. */
struct control_set {
	const struct control_entry *entries;
	size_t count;
};
#define CONTROL_SET(entries)                                    \
	{                                                       \
		entries, sizeof(entries) / sizeof((entries)[0]) \
	}
extern const struct control_set controls_memory;
extern const struct control_set controls_timer;
extern const struct control_set controls_board;
extern const struct control_set controls_pid;
extern const struct control_set controls_identity;
extern const struct control_set controls_bus;
extern const struct control_set controls_classes;
extern const struct control_set controls_state;
extern const struct control_set controls_system;
extern const struct control_set controls_limits;
extern const struct control_set controls_export;
extern const struct control_set controls_samples;
extern const struct control_set controls_fifo;
extern const struct control_set controls_group;
extern const struct control_set controls_nothing;
extern const struct control_set controls_graphics;
extern const struct control_set controls_client;
extern const struct control_set controls_channel;

/* info_list.c: lists of NVXXXX_CTRL_XXX_INFO, which has other names too. The value of an index, or why there is none: that ends the call. */
typedef uint32_t (*info_value)(const struct control *control, uint32_t index, uint32_t *value);
/* In the parameters, or in the caller's memory; at most so many. */
uint32_t info_list_inside(struct control *control, uint16_t list, uint32_t count, uint32_t most, info_value value);
uint32_t info_list_outside(struct control *control, uint64_t address, uint32_t count, uint32_t most, info_value value);

#endif
