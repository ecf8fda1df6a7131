// SPDX-License-Identifier: Apache-2.0
/* Memory that goes to other clients and processes, by rights and by descriptors. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe.h"

/* A copy of a descriptor of another process; -1 with errno. */
static int fd_of_process(long pid, long number)
{
	int process = (int)syscall(SYS_pidfd_open, pid, 0), fd;

	if (process < 0)
		return -1;
	fd = (int)syscall(SYS_pidfd_getfd, process, number, 0);
	close(process);
	return fd;
}

/* TYPE[:TARGET[:CLIENT:HANDLE]]: the last memory, or the object that is named; without a target to this client. */
uint32_t step_share(struct probe *probe, const char *value)
{
	const struct nv_layout_NVOS57_PARAMETERS *at = &probe->settings.abi->NVOS57_PARAMETERS;
	struct session *session = probe_session(probe);
	uint64_t numbers[4] = { 0 };
	unsigned int count = parse_numbers(value, numbers, 4);
	uint32_t client, object, status;
	uint8_t data[64] = { 0 };

	if (count == 0 || count == 3)
		return NOT_UNDERSTOOD;
	status = session_open(session);
	if (status != NV_OK)
		return status;
	if (count < 4 && session->count == 0)
		return NV_ERR_INVALID_OBJECT_HANDLE;
	client = count < 4 ? session->client : (uint32_t)numbers[2];
	object = count < 4 ? session->held[session->count - 1].handle : (uint32_t)numbers[3];
	put32(data, at->hClient, client);
	put32(data, at->hObject, object);
	put32(data, at->sharePolicy_target, numbers[1] ? (uint32_t)numbers[1] : session->client);
	put32(data, at->sharePolicy_accessMask, 1u << RS_ACCESS_DUP_OBJECT);
	put16(data, at->sharePolicy_type, (uint16_t)numbers[0]);
	data[at->sharePolicy_action] = RS_SHARE_ACTION_FLAG_COMPOSE;
	status = driver_call(session->settings, session->ctl, NV_ESC_RM_SHARE, data, at->bytes);
	if (status == NV_OK)
		status = get32(data, at->status);
	return report(status, "share client=0x%x handle=0x%x own=0x%x", client, object, session->client);
}

/* CLIENT:HANDLE */
uint32_t step_dup_of(struct probe *probe, const char *value)
{
	struct session *session = probe_session(probe);
	struct grant grant = { 0 };
	uint64_t numbers[2];
	uint32_t status;

	if (parse_numbers(value, numbers, 2) != 2)
		return NOT_UNDERSTOOD;
	status = session_open(session);
	if (status != NV_OK)
		return status;
	status = memory_dup_of(session, (uint32_t)numbers[0], (uint32_t)numbers[1], &grant);
	return report(status, "dup-of handle=0x%x", grant.handle);
}

/* Parses the number of a list's objects; 0 without a value. */
static bool list_length(const char *value, uint32_t *length)
{
	uint64_t number = 0;
	bool good = !value || (parse_number(value, &number) && number > 0 && number <= UINT16_MAX);

	*length = (uint32_t)number;
	return good;
}

uint32_t step_export(struct probe *probe, const char *value)
{
	struct session *session = probe_session(probe);
	uint32_t list, status;

	if (!list_length(value, &list))
		return NOT_UNDERSTOOD;
	status = session_open(session);
	if (status == NV_OK)
		status = export_memory(session, list, &probe->exported);
	return report(status, "export fd=%d", probe->exported);
}

uint32_t step_import(struct probe *probe, const char *value)
{
	struct session *session = probe_session(probe);
	uint32_t list, status;

	if (!list_length(value, &list))
		return NOT_UNDERSTOOD;
	status = session_open(session);
	if (status == NV_OK)
		status = import_memory(session, probe->exported, list);
	return report(status, "import");
}

/* [PID:]FD */
uint32_t step_take(struct probe *probe, const char *value)
{
	uint64_t numbers[2];
	unsigned int count = parse_numbers(value, numbers, 2);

	if (count == 0)
		return NOT_UNDERSTOOD;
	probe->exported = count == 1 ? dup((int)numbers[0]) : fd_of_process((long)numbers[0], (long)numbers[1]);
	return report(probe->exported < 0 ? RM_ERRNO : NV_OK, "take");
}

uint32_t step_close_export(struct probe *probe, const char *value)
{
	uint32_t status = close(probe->exported) == 0 ? NV_OK : RM_ERRNO;

	(void)value;
	probe->exported = -1;
	return report(status, "close-export");
}
