/* SPDX-License-Identifier: GPL-2.0-only */
/* A fake GSP: it answers the driver's messages to the processor on the card that runs most of its resource manager. */
#ifndef GSP_H
#define GSP_H

#include <linux/types.h>

/* As many bytes of parameters are kept: FIFO_DISABLE_CHANNELS has 536. */
#define GSP_PARAMS_KEPT 544u

/* One control that the driver hands to its GSP. */
struct gsp_order {
	u64 time; /* ns of the monotonic clock */
	u32 client;
	u32 object;
	u32 command;
	u32 bytes; /* of parameters, all of them */
	u8 params[GSP_PARAMS_KEPT];
};

/* gsp_answers.c: fills in a message's result, in the driver's own buffer. Called where nothing may sleep. */
void gsp_answer(u8 *rpc);

/* gsp_orders.c: /proc/opencgpu_gsp, a line for each control since the last write to it. */
int gsp_orders_init(void);
void gsp_orders_exit(void);
void gsp_orders_add(const struct gsp_order *order);

/* witness.c: /proc/opencgpu_card, while the module is loaded; and its source of figures, while the driver is. */
int witness_init(void);
void witness_exit(void);
int witness_place(void);
void witness_remove(void);

#endif
