// SPDX-License-Identifier: Apache-2.0
/* Calls that have to fail: each proves the place of a field, or the length of a structure, and makes nothing. */
#include <stdio.h>

#include "check.h"

#define ABSURD (1ull << 46)
#define NOBODY 0xdead0001u
#define NO_CLASS 0xfffeu

/* A request with one wrong field. expected 0: any refusal. */
struct fault {
	const char *what;
	u16 at;
	u32 value;
	u32 expected;
};

/* Judges a call that has to fail, and frees the object if it made one. expected 0: any refusal. */
static enum verdict judge(struct session *session, const char *what, u32 status, u32 handle, u32 expected)
{
	if (status == NV_OK)
		rm_free(session, handle);
	if (call_refused(status, expected))
		return PASSED;
	if (!expected)
		return verdict_failed(session, "%s: %s, expected was a refusal", what, call_text(session, status));
	return verdict_failed(session, "%s: %s, expected was status 0x%x", what, call_text(session, status), expected);
}

static enum verdict memory_refused(struct session *session, enum via via, const struct fault *fault)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &session->abi->NV_MEMORY_ALLOCATION_PARAMS;
	u32 handle = session->next_handle++, status;
	u8 *params;

	session->request = (struct request){ via, NVOS32_ATTR_PAGE_SIZE_BIG, 64 * KIB };
	params = memory_params(session, 0);
	if (fault->at == at->size)
		put64(params, at->size, ABSURD);
	else
		put32(params, fault->at, fault->value);
	status = rm_alloc(session, via, session->device, NV01_MEMORY_LOCAL_USER, at->bytes, &handle);
	return judge(session, fault->what, status, handle, fault->expected);
}

/* The driver must refuse an object whose class or parent does not exist. */
static enum verdict object_refused(struct session *session, enum via via, u32 parent, u32 class_id, u32 expected)
{
	u32 handle = session->next_handle++, status = rm_alloc(session, via, parent, class_id, 0, &handle);
	char what[64];

	snprintf(what, sizeof(what), "class 0x%x below 0x%x", class_id, parent);
	return judge(session, what, status, handle, expected);
}

static enum verdict device_refused(struct session *session)
{
	const struct nv_layout_NV0080_ALLOC_PARAMETERS *at = &session->abi->NV0080_ALLOC_PARAMETERS;
	u32 handle = session->next_handle++, status;

	put32(rm_params(session, at->bytes), at->deviceId, NV0000_CTRL_GPU_MAX_ATTACHED_GPUS);
	status = rm_alloc(session, VIA_RM64, session->client, NV01_DEVICE_0, at->bytes, &handle);
	return judge(session, "a device that is not there", status, handle, 0);
}

enum verdict check_refusals(struct session *session)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &session->abi->NV_MEMORY_ALLOCATION_PARAMS;
	const struct fault faults[] = {
		{ "without an owner", at->owner, 0, NV_ERR_INVALID_OWNER },
		{ "an unknown type", at->type, 0xffff, 0 },
		{ "flags of virtual memory", at->flags, NVOS32_ALLOC_FLAGS_VIRTUAL, NV_ERR_INVALID_ARGUMENT },
		{ "memory of the host", at->attr, NVOS32_ATTR_LOCATION_PCI << NVOS32_ATTR_LOCATION_SHIFT,
			NV_ERR_INVALID_ARGUMENT },
		{ "the driver's own flags", at->internalflags, 1, NV_ERR_INVALID_ARGUMENT },
		{ "an address space", at->hVASpace, NOBODY, 0 },
		{ "an absurd size", at->size, 0, 0 },
	};
	enum verdict verdict = device_refused(session);
	enum via via;
	size_t i;

	for (via = VIA_RM64; verdict == PASSED && via <= VIA_RM21; via++) {
		for (i = 0; verdict == PASSED && i < sizeof(faults) / sizeof(faults[0]); i++)
			verdict = memory_refused(session, via, &faults[i]);
		if (verdict == PASSED)
			verdict = object_refused(session, via, session->device, NO_CLASS, NV_ERR_INVALID_CLASS);
		if (verdict == PASSED)
			verdict = object_refused(session, via, NOBODY, NV20_SUBDEVICE_0, 0);
	}
	return verdict;
}

static enum verdict heap_refused(struct session *session, const struct fault *fault)
{
	const struct rm_heap_form form = rm_heap_form(session->abi, session->request.via);
	struct rm_ioctl heap = heap_allocation(session);
	u32 status;

	if (fault->at == form.size)
		put64(heap.data, form.size, ABSURD);
	else
		put32(heap.data, fault->at, fault->value);
	status = heap_call(session, &heap);
	return judge(session, fault->what, status, get32(heap.data, form.handle), fault->expected);
}

enum verdict check_heap_refusals(struct session *session)
{
	enum verdict verdict = PASSED;
	enum via via;
	size_t i;

	for (via = VIA_HEAP; verdict == PASSED && via <= VIA_TILED; via++) {
		const struct rm_heap_form form = rm_heap_form(session->abi, via);
		const struct fault faults[] = {
			{ "without an owner", form.owner, 0, NV_ERR_INVALID_OWNER },
			{ "an unknown type", form.type, 0xffff, 0 },
			{ "an address space", session->abi->NVOS32_PARAMETERS.hVASpace, NOBODY, 0 },
			/* The last one: by height and pitch no size is asked for. */
			{ "an absurd size", form.size, 0, 0 },
		};
		const size_t count = sizeof(faults) / sizeof(faults[0]) - (via == VIA_TILED);

		session->request = (struct request){ via, NVOS32_ATTR_PAGE_SIZE_BIG, 64 * KIB };
		for (i = 0; verdict == PASSED && i < count; i++)
			verdict = heap_refused(session, &faults[i]);
	}
	return verdict;
}

static u32 make_group(struct session *session, u32 space, u32 *handle)
{
	const __auto_type at = &session->abi->NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS;
	u8 *params = rm_params(session, at->bytes);

	*handle = session->next_handle++;
	put32(params, at->engineType, NV2080_ENGINE_TYPE_GR0);
	put32(params, at->hVASpace, space);
	return rm_alloc(session, VIA_RM64, session->device, KEPLER_CHANNEL_GROUP_A, at->bytes, handle);
}

/* A group without channels is made, and one in an address space that does not exist is refused. */
enum verdict check_group(struct session *session)
{
	u32 handle, status = make_group(session, 0, &handle);

	if (status == NV_OK)
		status = rm_free(session, handle);
	if (status != NV_OK)
		return verdict_of(session, status);
	status = make_group(session, NOBODY, &handle);
	return judge(session, "in an address space that is not there", status, handle, 0);
}

/* The parent does not exist: the driver copies the parameters before it looks (rs_server.c, serverAllocResource). */
static enum verdict params_are_long(struct session *session, const char *name, u32 class_id, u32 bytes)
{
	u32 handle = session->next_handle++, status;

	rm_params(session, bytes);
	status = rm_alloc(session, VIA_RM64, NOBODY, class_id, bytes, &handle);
	if (!call_refused(status, 0) || status == NV_ERR_INVALID_ADDRESS)
		return verdict_failed(session, "%s: the driver's structure is longer than %u bytes, or not read: %s",
			name, bytes, call_text(session, status));
	guarded_place(&session->params, bytes, 1);
	status = rm_alloc(session, VIA_RM64, NOBODY, class_id, bytes, &handle);
	if (status != NV_ERR_INVALID_ADDRESS)
		return verdict_failed(session, "%s: the driver's structure is shorter than %u bytes: %s", name, bytes,
			call_text(session, status));
	return PASSED;
}

enum verdict check_classes(struct session *session)
{
	const struct nv_abi *abi = session->abi;
	const struct {
		const char *name;
		u32 class_id, bytes;
	} classes[] = {
		{ "device", NV01_DEVICE_0, abi->NV0080_ALLOC_PARAMETERS.bytes },
		{ "subdevice", NV20_SUBDEVICE_0, abi->NV2080_ALLOC_PARAMETERS.bytes },
		{ "memory of the card", NV01_MEMORY_LOCAL_USER, abi->NV_MEMORY_ALLOCATION_PARAMS.bytes },
		{ "memory of the host", NV01_MEMORY_SYSTEM, abi->NV_MEMORY_ALLOCATION_PARAMS.bytes },
		{ "address space", FERMI_VASPACE_A, abi->NV_VASPACE_ALLOCATION_PARAMETERS.bytes },
		{ "channel group", KEPLER_CHANNEL_GROUP_A, abi->NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS.bytes },
		{ "channel", TURING_CHANNEL_GPFIFO_A, abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS.bytes },
		{ "semaphore surface", NV_SEMAPHORE_SURFACE, abi->NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS.bytes },
	};
	enum verdict verdict = PASSED;
	size_t i;

	for (i = 0; verdict == PASSED && i < sizeof(classes) / sizeof(classes[0]); i++) {
		if (classes[i].bytes)
			verdict = params_are_long(session, classes[i].name, classes[i].class_id, classes[i].bytes);
	}
	return verdict;
}

/* RM_ALLOC_MEMORY: the engines know the call by its size, and refuse it by its status. */
enum verdict check_old_call(struct session *session)
{
	const __auto_type at = &session->abi->nv_ioctl_nvos02_parameters_with_fd;
	const struct span written[] = { { at->params_status, 4 }, { 0, 0 } };
	u8 data[128] = { 0 };
	u32 status;

	put32(data, at->params_hRoot, session->client);
	put32(data, at->params_hObjectParent, session->device);
	put32(data, at->params_hObjectNew, session->next_handle++);
	put32(data, at->params_hClass, NO_CLASS);
	put32(data, at->params_status, CALL_SILENT);
	status = call_escape(session, session->card, NV_ESC_RM_ALLOC_MEMORY, data, at->bytes, written);
	if (status == NV_OK)
		status = get32(data, at->params_status);
	if (call_refused(status, 0))
		return PASSED;
	return verdict_failed(session, "class 0x%x: %s, expected was a refusal", NO_CLASS, call_text(session, status));
}
