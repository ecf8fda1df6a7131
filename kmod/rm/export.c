// SPDX-License-Identifier: Apache-2.0
/* Memory that goes to other processes by way of a descriptor, as CUDA's shareable handles do. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "rm_client.h"

/* A high number, so that another process can know the first one. */
#define FIRST_DESCRIPTOR 100

uint32_t export_to(struct session *session, int fd, uint32_t list)
{
	uint32_t objects[RM_LIST], count = list ? list : 1, i;
	struct rm_transfer transfer;

	if (count > RM_LIST || count > session->count)
		return NV_ERR_INVALID_OBJECT_HANDLE;
	for (i = 0; i < count; i++)
		objects[i] = session->held[session->count - count + i].handle;
	transfer = rm_export(session->settings->abi, session->device, objects, list, fd);
	return session_control(session, session->client, transfer.command, transfer.params, transfer.bytes);
}

uint32_t export_memory(struct session *session, uint32_t list, int *descriptor)
{
	int fd = driver_open(session->settings, "nvidiactl");

	*descriptor = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
	if (fd >= 0)
		close(fd);
	return *descriptor < 0 ? RM_ERRNO : export_to(session, *descriptor, list);
}

uint32_t import_memory(struct session *session, int fd, uint32_t list)
{
	uint32_t handles[RM_LIST], count = list ? list : 1, status, i;
	struct rm_transfer transfer;

	if (list > RM_LIST)
		return NV_ERR_INVALID_ARGUMENT;
	for (i = 0; i < count; i++)
		handles[i] = session_handle(session);
	transfer = rm_import(session->settings->abi, session->device, handles, list, fd);
	status = session_control(session, session->client, transfer.command, transfer.params, transfer.bytes);
	for (i = 0; i < count; i++)
		status = memory_hold(session, status, get32(transfer.params + 4 * i, transfer.first), 0);
	return status;
}
