// SPDX-License-Identifier: Apache-2.0
/* The words for exports and imports. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "probe.h"

/* A copy of FD, or of PID:FD; -1 with errno. */
static int copy_of(const char *value, bool *understood)
{
	char *end;
	long first = strtol(value, &end, 10), second = -1;

	*understood = end != value && first >= 0;
	if (*understood && *end == '\0')
		return dup((int)first);
	if (*understood && *end == ':')
		second = strtol(end + 1, &end, 10);
	*understood = second >= 0 && *end == '\0';
	return *understood ? fd_of_process(first, second) : -1;
}

/* 0 without a value. */
static uint32_t count_of(const char *value, bool *understood)
{
	uint64_t count = 0;

	*understood = !value || (parse_number(value, &count) && count > 0 && count <= UINT16_MAX);
	return *understood ? (uint32_t)count : 0;
}

static uint32_t export_step(struct probe *probe, const char *value, bool *understood)
{
	struct session *session = &probe->sessions[probe->gpu];
	uint32_t list = count_of(value, understood), status;

	if (!*understood)
		return NV_OK;
	status = session_open(session);
	if (status == NV_OK)
		status = export_memory(session, list, &probe->exported);
	report(status, "export fd=%d", probe->exported);
	return status;
}

static uint32_t take_step(struct probe *probe, const char *value, bool *understood)
{
	int fd = copy_of(value, understood);

	if (!*understood)
		return NV_OK;
	probe->exported = fd;
	report(fd < 0 ? RM_ERRNO : NV_OK, "take");
	return fd < 0 ? RM_ERRNO : NV_OK;
}

static uint32_t import_step(struct probe *probe, const char *value, bool *understood)
{
	struct session *session = &probe->sessions[probe->gpu];
	uint32_t list = count_of(value, understood), status;

	if (!*understood)
		return NV_OK;
	status = session_open(session);
	if (status == NV_OK)
		status = import_memory(session, probe->exported, list);
	report(status, "import");
	return status;
}

static uint32_t close_step(struct probe *probe)
{
	uint32_t status = close(probe->exported) == 0 ? NV_OK : RM_ERRNO;

	probe->exported = -1;
	report(status, "close-export");
	return status;
}

uint32_t export_run(struct probe *probe, const char *name, const char *value, bool *understood)
{
	if (strcmp(name, "export") == 0)
		return export_step(probe, value, understood);
	if (strcmp(name, "import") == 0)
		return import_step(probe, value, understood);
	*understood = (name[0] == 't') == (value != NULL);
	if (!*understood)
		return NV_OK;
	return value ? take_step(probe, value, understood) : close_step(probe);
}
