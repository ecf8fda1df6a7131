// SPDX-License-Identifier: Apache-2.0
/*
 * Calls of nvidia-uvm, which carry no size: a file that was not initialised answers each with the same status, after it
 * has copied the structure (uvm_api.h, UVM_ROUTE_CMD_STACK_INIT_CHECK), and does nothing.
 */
#include <unistd.h>

#include "check.h"

struct uvm_form {
	const char *name;
	u32 command;
	u16 bytes, status;
	/* Whether the driver answers NV_ERR_ILLEGAL_ACTION on a file that was not initialised; else NV_ERR_INVALID_ARGUMENT. */
	bool asks;
};

/* ROW(MAP_EXTERNAL_ALLOCATION, true): with the layout's size and place of the status. */
#define ROW(call, asks)                                                                                           \
	{                                                                                                         \
		"UVM_" #call, UVM_##call, abi->UVM_##call##_PARAMS.bytes, abi->UVM_##call##_PARAMS.rmStatus, asks \
	}

/* The status is expected at its place and nothing else may change. */
static enum verdict answers(struct session *session, int fd, const struct uvm_form *form)
{
	static u8 data[16384];
	u32 status;

	memset(data, 0xff, sizeof(data));
	status = call_uvm(session, fd, form->command, data, form->bytes, form->status);
	if (form->asks ? status != NV_ERR_ILLEGAL_ACTION : status != NV_ERR_INVALID_ARGUMENT)
		return verdict_failed(
			session, "%s of %u bytes: %s", form->name, form->bytes, call_text(session, status));
	status = call_uvm_cut(session, fd, form->command, data, form->bytes);
	if (status != (CALL_ERRNO | EFAULT))
		return verdict_failed(
			session, "%s: the driver's structure is shorter than %u bytes", form->name, form->bytes);
	return PASSED;
}

/* A call that this version lacks has no structure to copy. */
static enum verdict is_absent(struct session *session, int fd, const struct uvm_form *form)
{
	u32 status = call_uvm_cut(session, fd, form->command, session->uuid, 1);

	if (status == (CALL_ERRNO | EINVAL))
		return PASSED;
	return verdict_failed(session, "%s is known to the driver, and not of this version: %s", form->name,
		call_text(session, status));
}

static enum verdict check_forms(struct session *session, int fd)
{
	const struct nv_abi *abi = session->abi;
	const struct uvm_form forms[] = {
		ROW(REGISTER_GPU, true),
		ROW(UNREGISTER_GPU, true),
		ROW(REGISTER_GPU_VASPACE, true),
		ROW(UNREGISTER_GPU_VASPACE, true),
		ROW(CREATE_EXTERNAL_RANGE, true),
		ROW(MAP_EXTERNAL_ALLOCATION, true),
		ROW(UNMAP_EXTERNAL, true),
		ROW(FREE, true),
		ROW(ALLOC_SEMAPHORE_POOL, true),
		ROW(ALLOC_DEVICE_P2P, true),
		ROW(MM_INITIALIZE, false),
	};
	enum verdict verdict = PASSED;
	size_t i;

	for (i = 0; verdict == PASSED && i < sizeof(forms) / sizeof(forms[0]); i++)
		verdict = forms[i].bytes ? answers(session, fd, &forms[i]) : is_absent(session, fd, &forms[i]);
	return verdict;
}

/* Unknown flags: the driver refuses them before it does anything. */
static enum verdict check_flags(struct session *session, int fd)
{
	const struct nv_layout_UVM_INITIALIZE_PARAMS *at = &session->abi->UVM_INITIALIZE_PARAMS;
	u8 data[128] = { 0 };
	u32 status;

	put64(data, at->flags, ~(u64)(UVM_INIT_FLAGS_DISABLE_HMM | UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE));
	status = UVM(session, fd, INITIALIZE, data);
	if (status != NV_ERR_INVALID_ARGUMENT)
		return verdict_failed(
			session, "UVM_INITIALIZE with flags that there are not: %s", call_text(session, status));
	status = call_uvm_cut(session, fd, UVM_INITIALIZE, data, at->bytes);
	if (status == (CALL_ERRNO | EFAULT))
		return PASSED;
	return verdict_failed(session, "UVM_INITIALIZE: the driver's structure is shorter than %u bytes", at->bytes);
}

enum verdict check_uvm_calls(struct session *session)
{
	enum verdict verdict;
	int fd = node_open(session->driver, "nvidia-uvm");

	if (fd < 0)
		return verdict_failed(session, "%s/nvidia-uvm: %s; load it: nvidia-modprobe -u -c=0",
			session->driver->dev, strerror(errno));
	verdict = check_forms(session, fd);
	if (verdict == PASSED)
		verdict = check_flags(session, fd);
	close(fd);
	return verdict;
}
