// SPDX-License-Identifier: Apache-2.0
/* Memory that goes to other processes by way of a descriptor, as CUDA's shareable handles do. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "rm_client.h"

/* A high number, so that another process can know the first one. */
#define FIRST_DESCRIPTOR 100
#define OF_LIST 64u

static uint32_t export_one(struct session *session, int fd, uint32_t handle)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS *at =
		&session->settings->abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS;
	uint8_t params[64] = { 0 };

	rm_export_params(params, session->settings->abi, session->device, handle, fd);
	return session_control(
		session, session->client, NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, params, at->bytes);
}

uint32_t export_list_to(struct session *session, int fd, uint32_t count)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS *at =
		&session->settings->abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS;
	uint32_t objects[OF_LIST], i;
	uint8_t params[4096] = { 0 };

	if (count > OF_LIST || count > session->count)
		return NV_ERR_INVALID_OBJECT_HANDLE;
	for (i = 0; i < count; i++)
		objects[i] = session->held[session->count - count + i].handle;
	rm_export_list_params(params, session->settings->abi, session->device, objects, count, fd);
	return session_control(
		session, session->client, NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECTS_TO_FD, params, at->bytes);
}

uint32_t export_memory(struct session *session, uint32_t list, int *descriptor)
{
	int fd = driver_open(session->settings, "nvidiactl");

	*descriptor = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
	if (fd >= 0)
		close(fd);
	if (*descriptor < 0)
		return RM_ERRNO;
	if (session->count == 0 || list > session->count || list > OF_LIST)
		return NV_ERR_INVALID_OBJECT_HANDLE;
	return list ? export_list_to(session, *descriptor, list) :
		      export_one(session, *descriptor, session->held[session->count - 1].handle);
}

static uint32_t import_one(struct session *session, int fd, uint32_t *handle)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS *at =
		&session->settings->abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS;
	uint8_t params[64] = { 0 };
	uint32_t status;

	rm_import_params(params, session->settings->abi, session->device, *handle, fd);
	status = session_control(
		session, session->client, NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD, params, at->bytes);
	*handle = get32(params, at->object_data_rmObject_hObject);
	return status;
}

static uint32_t import_list(struct session *session, int fd, uint32_t *handles, uint32_t count)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS *at =
		&session->settings->abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS;
	uint8_t params[2048] = { 0 };
	uint32_t status, i;

	rm_import_list_params(params, session->settings->abi, session->device, handles, count, fd);
	status = session_control(
		session, session->client, NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD, params, at->bytes);
	for (i = 0; i < count; i++)
		handles[i] = get32(params + 4 * i, at->objects);
	return status;
}

uint32_t import_memory(struct session *session, int fd, uint32_t list)
{
	uint32_t handles[OF_LIST], count = list ? list : 1, status, i;

	if (list > OF_LIST)
		return NV_ERR_INVALID_ARGUMENT;
	for (i = 0; i < count; i++)
		handles[i] = session_handle(session);
	status = list ? import_list(session, fd, handles, count) : import_one(session, fd, handles);
	for (i = 0; i < count; i++)
		status = memory_hold(session, status, handles[i], 0);
	return status;
}
