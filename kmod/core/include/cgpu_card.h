/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The engine's own questions and orders to the driver about a card. The core fills in the parameters of each call and reads the
 * answer; the transport makes the call, by a client of its own and without anything from containers.
 */
#ifndef CGPU_CARD_H
#define CGPU_CARD_H

#include "cgpu_round.h"

/* Room for the parameters of all controls but the samples', which take abi->NV2080_CTRL_PERF_..._SAMPLES_V2_PARAMS.bytes. */
#define CGPU_CARD_ROOM 16384u

struct cgpu_card_client {
	const struct nv_abi *abi;
	void *ctx;
	u8 *params; /* of the control in hand, and its answer */
	u32 room; /* bytes of params */
	/* Make a control on the card's subdevice. 0 or a negative errno; -ENXIO: the driver has lost the card. */
	int (*control)(struct cgpu_card_client *card, u32 command, u32 bytes);
};

/* These return what control() has returned; -EPROTO: the parameters do not fit. */

/* Its uuid and name alone. */
int cgpu_card_names(struct cgpu_card_client *card, struct cgpu_gpu_facts *facts);
/* In bytes. unused: 0 where MIG hides it. */
int cgpu_card_memory(struct cgpu_card_client *card, u64 *total, u64 *unused);
/* mig: 1 while the card is in MIG mode; has_mig: 1 where it can be. */
int cgpu_card_mig(struct cgpu_card_client *card, u32 *mig, u32 *has_mig);
/* The processes that use the card, as its pid namespace shows them to the caller. Returns how many. */
int cgpu_card_processes(struct cgpu_card_client *card, s32 *tgid, u32 most);
/* Bytes of a process by the driver's own count. */
int cgpu_card_process_bytes(struct cgpu_card_client *card, s32 tgid, u64 *bytes);
/* Have the core know for how long processes were at work since the reading before. -EOPNOTSUPP: this driver does not tell. */
int cgpu_card_sample(struct cgpu_card_client *card, struct cgpu_core *core, u32 gpu, struct cgpu_sampling *sampling);

/* Parameters of NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS and of NVA06C_CTRL_CMD_SET_TIMESLICE. Return their bytes; 0: this driver
 * does not have the control, or they do not fit. */
u32 cgpu_card_channels(const struct nv_abi *abi, const struct cgpu_channel_batch *batch, u8 *params, u32 room);
u32 cgpu_card_timeslice(const struct nv_abi *abi, const struct cgpu_timeslice *slice, u8 *params, u32 room);
/* Parameters of an allocation of NV01_MEMORY_LOCAL_USER: one page of the card, by which its allocator is known. Returns as above. */
u32 cgpu_card_page(const struct nv_abi *abi, u32 owner, u8 *params, u32 room);

#endif
