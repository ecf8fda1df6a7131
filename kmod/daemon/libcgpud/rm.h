/* SPDX-License-Identifier: Apache-2.0 */
/* Single calls to the driver, and fields of its structs. */
#ifndef CGPUD_RM_H
#define CGPUD_RM_H

#include "cgpu_types.h"
#include "fields.h"

/* The ioctl in its canonical form. 0 or negative errno. */
int rm_call(int fd, u32 nr, u8 *top, u32 bytes);
/* These return the driver's status (0 is well), or a negative errno. */
int rm_alloc(int fd, const struct nv_abi *abi, u32 client, u32 parent, u32 *handle, u32 class, u8 *params, u32 bytes);
int rm_control(int fd, const struct nv_abi *abi, u32 client, u32 object, u32 cmd, u8 *params, u32 bytes);
/* A device and its subdevice, by handles of the caller's choice: through the latter a GPU is asked. */
int rm_subdevice(int fd, const struct nv_abi *abi, u32 client, u32 device_instance, u32 device, u32 subdevice);
int rm_dup(int fd, const struct nv_abi *abi, u32 client, u32 parent, u32 *handle, u32 source, u32 object);

#endif
