// SPDX-License-Identifier: Apache-2.0
/* Driver calls as a container makes them, and a driver that answers what the test told it to. */
#include "bench.h"

#define DESCRIPTOR 9

static u32 status_at(const struct bench *bench)
{
	const struct nv_abi *abi = bench->core.abi;

	switch (bench->call.nr) {
	case NV_ESC_RM_ALLOC:
		return bench->call.bytes == abi->NVOS64_PARAMETERS.bytes ? abi->NVOS64_PARAMETERS.status :
									   abi->NVOS21_PARAMETERS.status;
	case NV_ESC_RM_ALLOC_MEMORY:
		return abi->nv_ioctl_nvos02_parameters_with_fd.params_status;
	case NV_ESC_RM_ALLOC_OBJECT:
		return 16;
	case NV_ESC_RM_VID_HEAP_CONTROL:
		return abi->NVOS32_PARAMETERS.status;
	case NV_ESC_RM_CONTROL:
		return abi->NVOS54_PARAMETERS.status;
	case NV_ESC_RM_DUP_OBJECT:
		return abi->NVOS55_PARAMETERS.status;
	case NV_ESC_RM_SHARE:
		return abi->NVOS57_PARAMETERS.status;
	default:
		return abi->NVOS00_PARAMETERS.status;
	}
}

static void fill_size(const struct bench *bench, u8 *data, u32 at)
{
	u64 size = get64(data, at);

	put64(data, at, bench->driver_size ? bench->driver_size : core_round_up(size, bench->driver_page));
}

static void fill_handle(const struct bench *bench, u8 *data, u32 at)
{
	if (get32(data, at) == 0)
		put32(data, at, bench->driver_handle);
}

/* What an import gives where the caller has left the handle open. */
static void fill_imported(const struct bench *bench)
{
	const struct nv_abi *abi = bench->core.abi;
	u8 *params = (u8 *)bench->segment[0];
	u32 i;

	switch (get32(bench->top, abi->NVOS54_PARAMETERS.cmd)) {
	case NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD:
		fill_handle(bench, params,
			abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS.object_data_rmObject_hObject);
		break;
	case NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECTS_FROM_FD:
		for (i = 0; i < 128; i++)
			fill_handle(
				bench, params, abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS.objects + 4 * i);
		break;
	default:
		break;
	}
}

static void fill_heap(struct bench *bench)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &bench->core.abi->NVOS32_PARAMETERS;
	u8 *top = bench->top;

	switch (get32(top, at->function)) {
	case NVOS32_FUNCTION_ALLOC_SIZE:
		fill_handle(bench, top, at->data_AllocSize_hMemory);
		fill_size(bench, top, at->data_AllocSize_size);
		return;
	case NVOS32_FUNCTION_ALLOC_SIZE_RANGE:
		fill_handle(bench, top, at->data_AllocSizeRange_hMemory);
		fill_size(bench, top, at->data_AllocSizeRange_size);
		return;
	case NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT:
		put64(top, at->data_AllocTiledPitchHeight_size,
			(u64)get32(top, at->data_AllocTiledPitchHeight_height) *
				(u64)(s64)(s32)get32(top, at->data_AllocTiledPitchHeight_pitch));
		fill_handle(bench, top, at->data_AllocTiledPitchHeight_hMemory);
		fill_size(bench, top, at->data_AllocTiledPitchHeight_size);
		return;
	default:
		return;
	}
}

static int drive(struct bench *bench)
{
	const struct nv_abi *abi = bench->core.abi;
	u8 *top = bench->top;

	if (bench->at_execute)
		bench->at_execute(bench);
	if (bench->driver_result)
		return bench->driver_result;
	put32(top, status_at(bench), bench->driver_status);
	if (bench->driver_status)
		return 0;
	if (bench->call.nr == NV_ESC_RM_ALLOC) {
		fill_handle(bench, top, abi->NVOS64_PARAMETERS.hObjectNew);
		if (get32(top, abi->NVOS64_PARAMETERS.hClass) == NV01_MEMORY_LOCAL_USER)
			fill_size(bench, bench->segment[0], abi->NV_MEMORY_ALLOCATION_PARAMS.size);
	}
	if (bench->call.nr == NV_ESC_RM_CONTROL)
		fill_imported(bench);
	if (bench->call.nr == NV_ESC_RM_DUP_OBJECT)
		fill_handle(bench, top, abi->NVOS55_PARAMETERS.hObject);
	if (bench->call.nr == NV_ESC_RM_VID_HEAP_CONTROL)
		fill_heap(bench);
	return 0;
}

static void take_back(struct bench *bench)
{
	const struct nv_layout_NVOS00_PARAMETERS *at = &bench->core.abi->NVOS00_PARAMETERS;
	struct cgpu_call undo = { 0 };
	u8 top[64];

	undo.top = top;
	while (cgpu_call_undo(&bench->core, &bench->call, &undo)) {
		CHECK_EQ(cgpu_call_begin(&bench->core, &undo), CGPU_EXECUTE);
		put32(top, at->status, NV_OK);
		CHECK_EQ(cgpu_call_end(&bench->core, &undo, 0), 0);
		bench->undone++;
	}
	CHECK(bench->undone > 0 && (bench->undone == 1 || bench->call.nr == NV_ESC_RM_CONTROL));
}

long bench_call(struct bench *bench, const struct caller *caller, u32 nr, u32 bytes)
{
	struct cgpu_call *call = &bench->call;
	int result;

	memset(call, 0, sizeof(*call));
	bench->undone = 0;
	call->slot = caller->slot;
	call->generation = caller->generation;
	call->tgid = caller->tgid;
	call->device = caller->device;
	call->gpu = caller->gpu;
	call->file = caller->file;
	call->nr = nr;
	call->bytes = bytes;
	call->top = bench->top;
	call->finds_files = !bench->keeps_descriptors;
	for (;;) {
		bench->verdict = cgpu_call_begin(&bench->core, call);
		if (bench->verdict == CGPU_FIND_FILE) {
			CHECK(call->finds_files && !call->found);
			CHECK_EQ(call->descriptor, DESCRIPTOR);
			call->target = bench->target;
			call->found = 1;
			continue;
		}
		if (bench->verdict != CGPU_COPY_IN)
			break;
		CHECK(call->segments >= 1 && call->segments <= CGPU_MAX_SEGMENTS);
		CHECK(call->segment[call->segments - 1].address != 0);
		call->segment[call->segments - 1].data = bench->segment[call->segments - 1];
	}
	CHECK_EQ(bench->locked, 0);
	if (bench->verdict == CGPU_REFUSE)
		return -call->error;
	if (bench->verdict == CGPU_CONTINUE)
		return CONTINUED;
	if (bench->verdict == CGPU_EXECUTE) {
		result = drive(bench);
		if (cgpu_call_end(&bench->core, call, result))
			take_back(bench);
		if (result)
			return result;
	}
	return get32(bench->top, status_at(bench));
}

static void alloc_top(struct bench *bench, int wide, u32 client, u32 parent, u32 object, u32 class, u64 params)
{
	const struct nv_layout_NVOS64_PARAMETERS *at = &bench->core.abi->NVOS64_PARAMETERS;

	memset(bench->top, 0, sizeof(bench->top));
	put32(bench->top, at->hRoot, client);
	put32(bench->top, at->hObjectParent, parent);
	put32(bench->top, at->hObjectNew, object);
	put32(bench->top, at->hClass, class);
	put64(bench->top, at->pAllocParms, params);
	/* The wide form also asks for rights, so that both of its pointers are followed. */
	if (wide && params)
		put64(bench->top, at->pRightsRequested, OUTSIDE + 0x1000);
}

static u32 alloc_bytes(const struct bench *bench, int wide)
{
	return wide ? bench->core.abi->NVOS64_PARAMETERS.bytes : bench->core.abi->NVOS21_PARAMETERS.bytes;
}

long bench_root(struct bench *bench, const struct caller *caller)
{
	alloc_top(bench, 1, 0, 0, 0, NV01_ROOT_CLIENT, OUTSIDE);
	return bench_call(bench, caller, NV_ESC_RM_ALLOC, alloc_bytes(bench, 1));
}

long bench_class(struct bench *bench, const struct caller *caller, u32 class)
{
	alloc_top(bench, 1, 0xc1, 0xd0, 0x77, class, OUTSIDE);
	return bench_call(bench, caller, NV_ESC_RM_ALLOC, alloc_bytes(bench, 1));
}

long bench_take(struct bench *bench, const struct caller *caller, u32 client, u32 object, u64 size, u32 attr)
{
	struct memory_ask ask = { .client = client, .parent = 0xd0, .object = object, .size = size, .attr = attr };

	return bench_vidmem(bench, caller, 1, &ask);
}

long bench_control(struct bench *bench, const struct caller *caller, u32 client, u32 object, u32 cmd, u32 bytes)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &bench->core.abi->NVOS54_PARAMETERS;

	memset(bench->top, 0, sizeof(bench->top));
	put32(bench->top, at->hClient, client);
	put32(bench->top, at->hObject, object);
	put32(bench->top, at->cmd, cmd);
	put64(bench->top, at->params, OUTSIDE);
	put32(bench->top, at->paramsSize, bytes);
	return bench_call(bench, caller, NV_ESC_RM_CONTROL, at->bytes);
}

long bench_channel(struct bench *bench, const struct caller *caller, const struct channel_ask *ask)
{
	const struct nv_abi *abi = bench->core.abi;
	int group = ask->class == KEPLER_CHANNEL_GROUP_A;

	alloc_top(bench, 1, ask->client, ask->parent, ask->object, ask->class, OUTSIDE);
	memset(bench->segment[0], 0, 512);
	put32(bench->segment[0],
		group ? abi->NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS.engineType :
			abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS.engineType,
		ask->engine);
	put32(bench->segment[0],
		group ? abi->NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS.hVASpace :
			abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS.hVASpace,
		ask->space);
	return bench_call(bench, caller, NV_ESC_RM_ALLOC, alloc_bytes(bench, 1));
}

long bench_device(struct bench *bench, const struct caller *caller, u32 client, u32 object, u32 instance)
{
	alloc_top(bench, 1, client, client, object, NV01_DEVICE_0, OUTSIDE);
	memset(bench->segment[0], 0, 256);
	put32(bench->segment[0], bench->core.abi->NV0080_ALLOC_PARAMETERS.deviceId, instance);
	return bench_call(bench, caller, NV_ESC_RM_ALLOC, alloc_bytes(bench, 1));
}

long bench_subdevice(struct bench *bench, const struct caller *caller, u32 client, u32 parent, u32 object)
{
	alloc_top(bench, 0, client, parent, object, NV20_SUBDEVICE_0, 0);
	return bench_call(bench, caller, NV_ESC_RM_ALLOC, alloc_bytes(bench, 0));
}

long bench_vidmem(struct bench *bench, const struct caller *caller, int wide, const struct memory_ask *ask)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &bench->core.abi->NV_MEMORY_ALLOCATION_PARAMS;
	u8 *params = bench->segment[0];

	alloc_top(bench, wide, ask->client, ask->parent, ask->object, NV01_MEMORY_LOCAL_USER, OUTSIDE);
	memset(params, 0, 256);
	put64(params, at->size, ask->size);
	put64(params, at->alignment, ask->alignment);
	put32(params, at->flags, ask->flags);
	put32(params, at->attr, ask->attr);
	put32(params, at->attr2, ask->attr2);
	return bench_call(bench, caller, NV_ESC_RM_ALLOC, alloc_bytes(bench, wide));
}

long bench_host(struct bench *bench, const struct caller *caller, u32 client, u32 parent, u32 object)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &bench->core.abi->NV_MEMORY_ALLOCATION_PARAMS;

	alloc_top(bench, 1, client, parent, object, NV01_MEMORY_SYSTEM, OUTSIDE);
	memset(bench->segment[0], 0, 256);
	put64(bench->segment[0], at->size, MIB);
	put32(bench->segment[0], at->attr, NVOS32_ATTR_LOCATION_PCI << NVOS32_ATTR_LOCATION_SHIFT);
	return bench_call(bench, caller, NV_ESC_RM_ALLOC, alloc_bytes(bench, 1));
}

long bench_surface(struct bench *bench, const struct caller *caller, u32 client, u32 first, u32 second)
{
	const struct nv_layout_NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS *at =
		&bench->core.abi->NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS;
	u8 *params = bench->segment[0];

	alloc_top(bench, 1, client, 0xd1, 0x77, NV_SEMAPHORE_SURFACE, OUTSIDE);
	memset(params, 0, 256);
	put32(params, at->hSemaphoreMem, first);
	put32(params, at->hMaxSubmittedMem, second);
	return bench_call(bench, caller, NV_ESC_RM_ALLOC, alloc_bytes(bench, 1));
}

long bench_heap(struct bench *bench, const struct caller *caller, const struct memory_ask *ask)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &bench->core.abi->NVOS32_PARAMETERS;
	u8 *top = bench->top;

	memset(top, 0, sizeof(bench->top));
	put32(top, at->hRoot, ask->client);
	put32(top, at->hObjectParent, ask->parent);
	put32(top, at->function, ask->function ? ask->function : NVOS32_FUNCTION_ALLOC_SIZE);
	/* In all three alike. */
	put32(top, at->data_AllocSize_hMemory, ask->object);
	put32(top, at->data_AllocSize_flags, ask->flags);
	if (ask->function == NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT) {
		put32(top, at->data_AllocTiledPitchHeight_height, (u32)(ask->size >> 16));
		put32(top, at->data_AllocTiledPitchHeight_pitch, 1u << 16);
		put64(top, at->data_AllocTiledPitchHeight_alignment, ask->alignment);
		put32(top, at->data_AllocTiledPitchHeight_attr, ask->attr);
		put32(top, at->data_AllocTiledPitchHeight_attr2, ask->attr2);
	} else if (ask->function == NVOS32_FUNCTION_ALLOC_SIZE_RANGE) {
		put64(top, at->data_AllocSizeRange_size, ask->size);
		put64(top, at->data_AllocSizeRange_alignment, ask->alignment);
		put32(top, at->data_AllocSizeRange_attr, ask->attr);
		put32(top, at->data_AllocSizeRange_attr2, ask->attr2);
	} else {
		put64(top, at->data_AllocSize_size, ask->size);
		put64(top, at->data_AllocSize_alignment, ask->alignment);
		put32(top, at->data_AllocSize_attr, ask->attr);
		put32(top, at->data_AllocSize_attr2, ask->attr2);
	}
	return bench_call(bench, caller, NV_ESC_RM_VID_HEAP_CONTROL, at->bytes);
}

long bench_rm_free(struct bench *bench, const struct caller *caller, u32 client, u32 object)
{
	const struct nv_layout_NVOS00_PARAMETERS *at = &bench->core.abi->NVOS00_PARAMETERS;

	memset(bench->top, 0, sizeof(bench->top));
	put32(bench->top, at->hRoot, client);
	put32(bench->top, at->hObjectOld, object);
	return bench_call(bench, caller, NV_ESC_RM_FREE, at->bytes);
}

long bench_dup(struct bench *bench, const struct caller *caller, u32 client, u32 parent, u32 object, u32 from_client,
	u32 from_object)
{
	const struct nv_layout_NVOS55_PARAMETERS *at = &bench->core.abi->NVOS55_PARAMETERS;

	memset(bench->top, 0, sizeof(bench->top));
	put32(bench->top, at->hClient, client);
	put32(bench->top, at->hParent, parent);
	put32(bench->top, at->hObject, object);
	put32(bench->top, at->hClientSrc, from_client);
	put32(bench->top, at->hObjectSrc, from_object);
	return bench_call(bench, caller, NV_ESC_RM_DUP_OBJECT, at->bytes);
}

static long share(struct bench *bench, const struct caller *caller, const u32 *source, u32 type, u32 target)
{
	const struct nv_layout_NVOS57_PARAMETERS *at = &bench->core.abi->NVOS57_PARAMETERS;

	memset(bench->top, 0, sizeof(bench->top));
	put32(bench->top, at->hClient, source[0]);
	put32(bench->top, at->hObject, source[1]);
	put32(bench->top, at->sharePolicy_accessMask, 1u << RS_ACCESS_DUP_OBJECT);
	put32(bench->top, at->sharePolicy_type, type);
	put32(bench->top, at->sharePolicy_target, target);
	return bench_call(bench, caller, NV_ESC_RM_SHARE, at->bytes);
}

long bench_share(struct bench *bench, const struct caller *caller, u32 client, u32 object)
{
	return share(bench, caller, (u32[]){ client, object }, RS_SHARE_TYPE_ALL, 0);
}

long bench_share_with(struct bench *bench, const struct caller *caller, u32 client, u32 object, u32 target)
{
	return share(bench, caller, (u32[]){ client, object }, RS_SHARE_TYPE_CLIENT, target);
}

void bench_cuda_start(struct bench *bench, const struct caller *caller, u32 client)
{
	CHECK_EQ(bench_root(bench, caller), CONTINUED);
	CHECK_EQ(bench_device(bench, caller, client, 0xd0, 0), NV_OK);
	CHECK_EQ(bench_subdevice(bench, caller, client, 0xd0, 0xd1), NV_OK);
}
