/* SPDX-License-Identifier: Apache-2.0 */
/* Control calls, and the functions that answer them. */
#ifndef CGPU_SIM_CONTROL_H
#define CGPU_SIM_CONTROL_H

#include "sim.h"

struct control_entry;

/* A control call; card is a copy, and SIM_NO_CARD stands for the client object. */
struct control {
	bool waits; /* before it returns, until the engines have carried its commands out */
	struct call *call;
	struct sim *sim; /* of the call, with its layouts: */
	const struct nv_abi *abi;
	const struct card_abi *card_abi;
	const struct control_entry *entry;
	uint32_t card_index;
	bool denied; /* mig_denies() */
	struct card card;
	uint8_t *params;
	uint32_t size; /* of these */
	/* For controls with `descriptor_at`: the caller, and the descriptor's nvidiactl of this driver, or NULL. */
	pid_t process;
	struct open_file *file;
};

/* Rights that the caller needs (g_*_nvoc.c, flags and access rights of each control). The kernel has them all. */
enum rights { RIGHTS_NONE, RIGHTS_NICE, RIGHTS_ADMIN };

/*
 * One control: the layout of its parameters, and the function that answers it. The upper half of its number is the
 * class of its objects.
 */
struct control_entry {
	uint32_t command;
	bool of_card; /* the parameters' layout is in struct card_abi, else in struct nv_abi */
	size_t bytes_at;
	/* Function that runs without the lock. */
	uint32_t (*answer)(struct control *control);
	/* Function that runs with the lock held and the engines up to date. Neither: the control does nothing. */
	uint32_t (*run)(struct control *control, struct object *object);
	enum rights rights;
	/* For `run`: the layout's place of the field that has a descriptor, or 0. */
	size_t descriptor_at;
	/* For control_constant(): a field, and its constant value. */
	size_t value_at;
	uint32_t value;
};
#define NV_PARAMS(name) .bytes_at = offsetof(struct nv_abi, name.bytes)
#define NO_PARAMS .bytes_at = SIZE_MAX
#define CARD_PARAMS(name) .of_card = true, .bytes_at = offsetof(struct card_abi, name.bytes)
/* A control and its parameters by the name that both have. Where the names differ, a row says both. */
#define NV_CONTROL(class, name) class##_CTRL_CMD_##name, NV_PARAMS(class##_CTRL_##name##_PARAMS)
#define CARD_CONTROL(class, name) class##_CTRL_CMD_##name, CARD_PARAMS(class##_CTRL_##name##_PARAMS)

/* The controls of one subject, each in the file of that name. */
struct control_set {
	const struct control_entry *entries;
	size_t count;
};
#define CONTROL_SET(entries)                                    \
	{                                                       \
		entries, sizeof(entries) / sizeof((entries)[0]) \
	}
extern const struct control_set controls_card;
extern const struct control_set controls_graphics;
extern const struct control_set controls_root;
extern const struct control_set controls_channel;
extern const struct control_set controls_process;
extern const struct control_set controls_memory;
extern const struct control_set controls_export;
extern const struct control_set controls_nothing;

/* info_list.c: lists of NVXXXX_CTRL_XXX_INFO, which has other names too. The value of an index, or why there is none: that ends the call. */
typedef uint32_t (*info_value)(const struct control *control, uint32_t index, uint32_t *value);
/* Answer a list of at most so many, in the parameters or in the caller's memory. */
uint32_t info_list_inside(struct control *control, uint16_t list, uint32_t count, uint32_t most, info_value value);
uint32_t info_list_outside(struct control *control, uint64_t address, uint32_t count, uint32_t most, info_value value);

#endif
