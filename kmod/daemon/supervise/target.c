// SPDX-License-Identifier: Apache-2.0
/* Copies the descriptor inside of a call that exports or imports, and records exported files. */
#define _GNU_SOURCE
#include <unistd.h>

#include "copies.h"
#include "rm.h"
#include "target.h"

/* Where the parameters of such a call name the descriptor. 0: it is none. */
static u32 place_of(const struct nv_abi *abi, const struct in_flight *e, u32 *place)
{
	u32 command;

	if (e->call.nr != NV_ESC_RM_CONTROL || e->call.bytes != abi->NVOS54_PARAMETERS.bytes)
		return 0;
	command = get32(e->before[0], abi->NVOS54_PARAMETERS.cmd);
	switch (command) {
	case NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD:
		*place = abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS.fd;
		return command;
	case NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD:
		*place = abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS.fd;
		return command;
	case NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD:
		*place = abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS.fd;
		return command;
	case NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD:
		*place = abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS.fd;
		return command;
	default:
		return 0;
	}
}

static int is_export(u32 command)
{
	return command == NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD ||
		command == NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD;
}

int target_is_control_node(struct cgpud *d, const struct identity *identity)
{
	enum cgpu_device kind;
	u32 gpu;

	return devices_identify(&d->devices, identity, &kind, &gpu) && kind == CGPU_DEVICE_CTL;
}

int target_find(struct cgpud *d, struct in_flight *e, struct task *task)
{
	u32 place, command = place_of(d->core.abi, e, &place);
	struct identity identity;
	int fd, r;

	target_drop(task);
	e->call.found = 1;
	e->call.target = 0;
	r = task_inspect_number(task, e->call.descriptor, &identity);
	if (r < 0)
		return r == -EBADF ? 0 : r;
	if (!target_is_control_node(d, &identity))
		return 0;
	fd = copies_take(task->pidfd, e->call.descriptor, &identity, &d->stopping, 0);
	if (fd < 0)
		return fd == -EBADF ? 0 : fd == -ESRCH ? -ENOENT : -EPERM;
	r = files_number(d, fd, is_export(command), e->call.generation, &e->call.target);
	if (r == 0) {
		task->target = fd;
		return 0;
	}
	close(fd);
	e->call.target = 0;
	return r == -EBADF ? 0 : r;
}

enum cgpu_verdict target_no_room(struct cgpud *d, struct in_flight *e)
{
	if (!atomic_load(&d->enforce))
		return CGPU_CONTINUE;
	put32(e->copy[0], d->core.abi->NVOS54_PARAMETERS.status, NV_ERR_INSUFFICIENT_RESOURCES);
	e->call.no_room = CGPU_NO_ROOM_LEFT;
	return CGPU_ANSWER;
}

void target_put(const struct nv_abi *abi, struct in_flight *e, int descriptor)
{
	u32 place;

	if (e->call.target && e->call.segments && place_of(abi, e, &place))
		put32(e->copy[1], place, (u32)descriptor);
}

void target_drop(struct task *task)
{
	if (task->target >= 0)
		close(task->target);
	task->target = -1;
}

int target_is_export(const struct nv_abi *abi, const struct in_flight *e)
{
	u32 place;

	return is_export(place_of(abi, e, &place));
}

int target_is_taken(const struct nv_abi *abi, const struct in_flight *e)
{
	return target_is_export(abi, e) && get32(e->copy[0], abi->NVOS54_PARAMETERS.status) == NV_ERR_STATE_IN_USE;
}
