/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Calls of the driver as the modeset module makes them: with the kernel's privilege, parameters in kernel memory, on any
 * client.
 */
#ifndef CGPU_KM_RM_CLIENT_H
#define CGPU_KM_RM_CLIENT_H

#include <linux/string.h>

#include "cgpu_card.h"
#include "fields.h"
#include "interface.h"

/* A client chooses its handles freely. */
#define RM_CLIENT_SUBDEVICE 0xc9d00001u

struct rm_client {
	const struct nv_abi *abi;
	const struct cgpu_km_rm *rm;
	u32 handle; /* of the client; 0: none */
	u32 room; /* bytes of params */
	u8 *params;
	u8 message[CGPU_KM_RM_BYTES];
};

/* Room for so many bytes of parameters, and a client. NULL: no memory, or the driver has none. */
struct rm_client *rm_client_start(const struct nv_abi *abi, const struct cgpu_km_rm *rm, u32 room);
void rm_client_end(struct rm_client *own);

/* The same on memory of the caller's. The driver's status; the client is 0 unless that is NV_OK. */
u32 rm_client_make(struct rm_client *own);
void rm_client_free(struct rm_client *own);
/* Device and subdevice of the card with this gpu_id, through which it can be asked; tells its device_instance. -ENXIO: the
 * driver has lost the card; -EIO: it refuses; -EPROTO: the parameters do not fit. */
int rm_client_attach(struct rm_client *own, struct cgpu_gpu_facts *facts);

/* A page of the card's memory, until the client is freed. Errors as above. */
int rm_client_take_page(struct rm_client *own);

/* One control, with the parameters in params, on any client. The driver's status; -1 as u32: they do not fit. */
u32 rm_client_control_of(struct rm_client *own, u32 client, u32 object, u32 cmd, u32 bytes);
/* The same as the core asks a card that is attached. Errors as above. */
struct cgpu_card_client rm_client_card(struct rm_client *own);

#endif
