// SPDX-License-Identifier: Apache-2.0
/* Calls on the client of another process, through a copy of its descriptor; and what its channels can be told. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe.h"

#define LLU(x) ((unsigned long long)(x))
#define MAX_NUMBERS 5u

int fd_of_process(long pid, long number)
{
	int process = (int)syscall(SYS_pidfd_open, pid, 0), fd;

	if (process < 0)
		return -1;
	fd = (int)syscall(SYS_pidfd_getfd, process, number, 0);
	close(process);
	return fd;
}

static uint32_t dup_fd(struct session *session, const uint64_t *numbers)
{
	int fd = fd_of_process((long)numbers[0], (long)numbers[1]);

	if (fd < 0)
		return RM_ERRNO;
	session_close(session);
	session->ctl = fd;
	session->other_process = true;
	session->client = (uint32_t)numbers[2];
	session->device = (uint32_t)numbers[3];
	session->subdevice = (uint32_t)numbers[4];
	return NV_OK;
}

/* GROUP[:MICROSECONDS]: sets the time slice of a channel group, if told to, and reads it. */
static uint32_t timeslice(struct session *session, const uint64_t *numbers, unsigned int count)
{
	const struct nv_layout_NVA06C_CTRL_TIMESLICE_PARAMS *at = &session->settings->abi->NVA06C_CTRL_TIMESLICE_PARAMS;
	uint32_t group = (uint32_t)numbers[0], status = NV_OK, got;
	uint8_t params[8] = { 0 };

	if (count == 2) {
		put64(params, at->timesliceUs, numbers[1]);
		status = session_control(session, group, NVA06C_CTRL_CMD_SET_TIMESLICE, params, at->bytes);
	}
	memset(params, 0, sizeof(params));
	got = session_control(session, group, NVA06C_CTRL_CMD_GET_TIMESLICE, params, at->bytes);
	if (status == NV_OK)
		status = got;
	report(status, "timeslice 0x%x microseconds=%llu read=0x%x", group, LLU(get64(params, at->timesliceUs)), got);
	return status;
}

static uint32_t context_bytes(struct session *session, uint32_t channel)
{
	const struct nv_layout_NV2080_CTRL_GR_GET_CTX_BUFFER_SIZE_PARAMS *at =
		&session->settings->abi->NV2080_CTRL_GR_GET_CTX_BUFFER_SIZE_PARAMS;
	uint8_t params[16] = { 0 };
	uint32_t status;

	put32(params, at->hChannel, channel);
	status =
		session_control(session, session->subdevice, NV2080_CTRL_CMD_GR_GET_CTX_BUFFER_SIZE, params, at->bytes);
	report(status, "context-bytes 0x%x bytes=%llu", channel, LLU(get64(params, at->totalBufferSize)));
	return status;
}

/* CLIENT:CHANNEL, which need not be the session's own. */
static uint32_t channel(struct session *session, const uint64_t *numbers, bool disable)
{
	const struct nv_layout_NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS *at =
		&session->settings->abi->NV2080_CTRL_FIFO_DISABLE_CHANNELS_PARAMS;
	uint8_t params[1024] = { 0 };
	uint32_t status;

	params[at->bDisable] = disable;
	put32(params, at->numChannels, 1);
	put32(params, at->hClientList, (uint32_t)numbers[0]);
	put32(params, at->hChannelList, (uint32_t)numbers[1]);
	status = session_control(session, session->subdevice, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, params, at->bytes);
	report(status, "channel-%s 0x%llx:0x%llx", disable ? "off" : "on", LLU(numbers[0]), LLU(numbers[1]));
	return status;
}

uint32_t dup_fd_run(struct probe *probe, const char *name, const char *value, bool *understood)
{
	struct session *session = &probe->sessions[probe->gpu];
	uint64_t numbers[MAX_NUMBERS] = { 0 };
	unsigned int count = parse_numbers(value, numbers, MAX_NUMBERS);
	uint32_t status;

	if (strcmp(name, "dup-fd") == 0) {
		*understood = count == 5;
		status = *understood ? dup_fd(session, numbers) : NV_OK;
		if (*understood)
			report(status, "dup-fd client=0x%x", session->client);
		return status;
	}
	if (strcmp(name, "timeslice") == 0)
		*understood = count == 1 || count == 2;
	else if (strcmp(name, "context-bytes") == 0)
		*understood = count == 1;
	else
		*understood = count == 2;
	status = *understood ? session_open(session) : NV_OK;
	if (status != NV_OK || !*understood)
		return status;
	if (strcmp(name, "timeslice") == 0)
		return timeslice(session, numbers, count);
	if (strcmp(name, "context-bytes") == 0)
		return context_bytes(session, (uint32_t)numbers[0]);
	return channel(session, numbers, strcmp(name, "channel-off") == 0);
}
