// SPDX-License-Identifier: Apache-2.0
/* Driver calls as a container makes them, and a driver that answers what the test told it to. */
#include <sanitizer/asan_interface.h>

#include "bench.h"
#include "rm_structs.h"
#include "status_at.h"

#define DESCRIPTOR 9

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

/* Fill in an import's results where the caller has left the handle open. */
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

static enum via heap_via(u32 function)
{
	if (function == NVOS32_FUNCTION_ALLOC_SIZE_RANGE)
		return VIA_RANGE;
	return function == NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT ? VIA_TILED : VIA_HEAP;
}

static void fill_heap(struct bench *bench)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &bench->core.abi->NVOS32_PARAMETERS;
	u32 function = get32(bench->top, at->function);
	const struct rm_heap_form form = rm_heap_form(bench->core.abi, heap_via(function));
	u8 *top = bench->top;

	if (function != form.function)
		return;
	if (function == NVOS32_FUNCTION_ALLOC_TILED_PITCH_HEIGHT)
		put64(top, form.size,
			(u64)get32(top, at->data_AllocTiledPitchHeight_height) *
				(u64)(s64)(s32)get32(top, at->data_AllocTiledPitchHeight_pitch));
	fill_handle(bench, top, form.handle);
	fill_size(bench, top, form.size);
}

static int drive(struct bench *bench)
{
	const struct nv_abi *abi = bench->core.abi;
	u8 *top = bench->top;

	if (bench->at_execute)
		bench->at_execute(bench);
	if (bench->driver_result)
		return bench->driver_result;
	put32(top, status_at(bench->core.abi, bench->call.nr, bench->call.bytes), bench->driver_status);
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

/* Each buffer is as long as the core has asked for: AddressSanitizer sees whether the core touches more. */
static void fence(struct bench *bench)
{
	u32 i;

	for (i = 0; i < bench->call.segments; i++)
		ASAN_POISON_MEMORY_REGION(bench->segment[i] + bench->call.segment[i].bytes,
			CGPU_SEGMENT_MAX - bench->call.segment[i].bytes);
}

static enum cgpu_verdict begin(struct bench *bench)
{
	enum cgpu_verdict verdict;

	fence(bench);
	verdict = cgpu_call_begin(&bench->core, &bench->call);
	ASAN_UNPOISON_MEMORY_REGION(bench->segment, sizeof(bench->segment));
	return verdict;
}

static int end(struct bench *bench, int result)
{
	int undo;

	fence(bench);
	undo = cgpu_call_end(&bench->core, &bench->call, result);
	ASAN_UNPOISON_MEMORY_REGION(bench->segment, sizeof(bench->segment));
	return undo;
}

static void answer_duplicate(const struct bench *bench, u8 *top)
{
	const struct nv_layout_NVOS55_PARAMETERS *at = &bench->core.abi->NVOS55_PARAMETERS;

	CHECK_EQ(get32(top, at->hParent), get32(top, at->hClient));
	CHECK_EQ(get32(top, at->hObject), get32(top, at->hObjectSrc));
	put32(top, at->status, bench->question_status ? bench->question_status : NV_ERR_INSERT_DUPLICATE_NAME);
}

static void answer_handle(const struct bench *bench, u8 *top)
{
	const struct nv_layout_NV0000_CTRL_CLIENT_GET_HANDLE_INFO_PARAMS *of =
		&bench->core.abi->NV0000_CTRL_CLIENT_GET_HANDLE_INFO_PARAMS;
	const struct nv_layout_NVOS54_PARAMETERS *at = &bench->core.abi->NVOS54_PARAMETERS;
	u8 *params = (u8 *)(uintptr_t)get64(top, at->params);
	u32 i;

	CHECK_EQ(get32(top, at->cmd), NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO);
	CHECK_EQ(get32(top, at->hObject), get32(top, at->hClient));
	CHECK(params == top + at->bytes && get32(top, at->paramsSize) == of->bytes);
	put32(top, at->status, NV_ERR_OBJECT_NOT_FOUND);
	for (i = 0; i < sizeof(bench->named) / sizeof(bench->named[0]); i++) {
		int is_class = get32(params, of->index) == NV0000_CTRL_CMD_CLIENT_GET_HANDLE_INFO_INDEX_CLASSID;

		if (bench->named[i].handle != get32(params, of->hObject))
			continue;
		put64(params, of->data, is_class ? bench->named[i].class : bench->named[i].parent);
		put32(top, at->status, NV_OK);
	}
}

/* Ask the driver what the core wants to know of it before the call runs. */
static int may_run(struct bench *bench)
{
	_Alignas(u64) u8 top[64] = { 0 };
	struct cgpu_call question = { .top = top };
	u32 number = 0, further;

	for (; cgpu_call_question(&bench->core, &bench->call, number, &question); number += further) {
		CHECK_EQ(question.bytes,
			question.nr == NV_ESC_RM_DUP_OBJECT ? bench->core.abi->NVOS55_PARAMETERS.bytes :
							      bench->core.abi->NVOS54_PARAMETERS.bytes);
		bench->asked++;
		if (question.nr == NV_ESC_RM_DUP_OBJECT)
			answer_duplicate(bench, top);
		else
			answer_handle(bench, top);
		further = cgpu_call_answered(&bench->core, &bench->call, number, &question);
		if (!further)
			return 0;
	}
	return 1;
}

/* Give the call what its plan names. Returns its needs. */
static u32 fetch(struct bench *bench)
{
	struct cgpu_call *call = &bench->call;
	u32 plans, needs = 0, i = 0;

	for (plans = 0; plans < CGPU_PLANS; plans++) {
		fence(bench);
		needs = cgpu_call_plan(&bench->core, call);
		ASAN_UNPOISON_MEMORY_REGION(bench->segment, sizeof(bench->segment));
		CHECK(call->segments <= CGPU_MAX_SEGMENTS);
		for (; i < call->segments; i++) {
			CHECK(call->segment[i].address != 0 && call->segment[i].data == NULL);
			call->segment[i].data = bench->segment[i];
		}
		if (needs & CGPU_NEEDS_FILE) {
			CHECK(call->finds_files && !call->found);
			CHECK_EQ(call->descriptor, DESCRIPTOR);
			call->target = bench->target;
			call->found = 1;
		}
	}
	CHECK_EQ(cgpu_call_plan(&bench->core, call), needs & CGPU_NEEDS_OWN_FILE);
	return needs;
}

long bench_call(struct bench *bench, const struct caller *caller, u32 nr, u32 bytes)
{
	struct cgpu_call *call = &bench->call;
	int result;
	u32 needs;

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
	needs = fetch(bench);
	bench->verdict = begin(bench);
	CHECK(bench->verdict != CGPU_EXECUTE || (needs & CGPU_NEEDS_OWN_FILE));
	CHECK_EQ(bench->locked, 0);
	if (bench->verdict == CGPU_REFUSE)
		return -call->error;
	if (bench->verdict == CGPU_CONTINUE)
		return CONTINUED;
	if (bench->verdict == CGPU_EXECUTE) {
		result = may_run(bench) ? drive(bench) : 0;
		if (end(bench, result))
			take_back(bench);
		if (result)
			return result;
	}
	return get32(bench->top, status_at(bench->core.abi, bench->call.nr, bench->call.bytes));
}

static long call_of(struct bench *bench, const struct caller *caller, const struct rm_ioctl *io)
{
	memset(bench->top, 0, sizeof(bench->top));
	memcpy(bench->top, io->data, io->bytes);
	return bench_call(bench, caller, io->nr, io->bytes);
}

/* An object whose parameters are in the first segment. */
static long alloc(struct bench *bench, const struct caller *caller, int wide, const u32 handles[3], u32 class)
{
	const struct nv_abi *abi = bench->core.abi;
	enum via via = wide ? VIA_RM64 : VIA_RM21;
	struct rm_ioctl io =
		rm_alloc_ioctl(abi, via, handles[0], handles[1], handles[2], class, (const void *)OUTSIDE, 0);

	/* The wide form also asks for rights, so that both of its pointers are followed. */
	if (wide)
		put64(io.data, abi->NVOS64_PARAMETERS.pRightsRequested, OUTSIDE + 0x1000);
	return call_of(bench, caller, &io);
}

long bench_class_below(struct bench *bench, const struct caller *caller, u32 parent, u32 class)
{
	return alloc(bench, caller, 1, (u32[]){ 0xc1, parent, 0x77 }, class);
}

long bench_class(struct bench *bench, const struct caller *caller, u32 class)
{
	return bench_class_below(bench, caller, 0xd0, class);
}

long bench_take(struct bench *bench, const struct caller *caller, u32 client, u32 object, u64 size)
{
	struct memory_ask ask = { .client = client,
		.parent = 0xd0,
		.object = object,
		.size = size,
		.attr = NVOS32_ATTR_PAGE_SIZE_BIG << NVOS32_ATTR_PAGE_SIZE_SHIFT };

	return bench_vidmem(bench, caller, 1, &ask);
}

long bench_control(struct bench *bench, const struct caller *caller, u32 client, u32 object, u32 cmd, u32 bytes)
{
	struct rm_ioctl io = rm_control_ioctl(bench->core.abi, client, object, cmd, (const void *)OUTSIDE, bytes);

	return call_of(bench, caller, &io);
}

long bench_channel(struct bench *bench, const struct caller *caller, const struct channel_ask *ask)
{
	const struct nv_layout_NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS *channel =
		&bench->core.abi->NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS;
	const struct nv_layout_NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS *group =
		&bench->core.abi->NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS;
	int is_group = ask->class == KEPLER_CHANNEL_GROUP_A;
	u8 *params = bench->segment[0];

	memset(params, 0, 512);
	put32(params, is_group ? group->engineType : channel->engineType, ask->engine);
	put32(params, is_group ? group->hVASpace : channel->hVASpace, ask->space);
	put32(params, is_group ? group->hObjectError : channel->hObjectError, bench->notifier[0]);
	put32(params, is_group ? group->hObjectEccError : channel->hObjectEccError, bench->notifier[1]);
	if (!is_group) {
		put32(params, channel->flags, bench->channel_flags);
		if (channel->hUserdMemory != NV_ABI_ABSENT)
			put32(params, channel->hUserdMemory, bench->userd);
	}
	return alloc(bench, caller, 1, (u32[]){ ask->client, ask->parent, ask->object }, ask->class);
}

long bench_space(struct bench *bench, const struct caller *caller, u32 client, u32 parent, u32 object, u32 flags)
{
	memset(bench->segment[0], 0, 256);
	put32(bench->segment[0], bench->core.abi->NV_VASPACE_ALLOCATION_PARAMETERS.flags, flags);
	return alloc(bench, caller, 1, (u32[]){ client, parent, object }, FERMI_VASPACE_A);
}

static void address_params(const struct bench *bench, u8 *params, const struct address_ask *ask)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &bench->core.abi->NV_MEMORY_ALLOCATION_PARAMS;

	memset(params, 0, 256);
	put64(params, at->size, ask->size);
	put32(params, at->flags, NVOS32_ALLOC_FLAGS_VIRTUAL | ask->flags);
	put32(params, at->attr, ask->attr);
	put32(params, at->hVASpace, ask->space);
}

long bench_addresses(struct bench *bench, const struct caller *caller, const struct address_ask *ask)
{
	address_params(bench, bench->segment[0], ask);
	return alloc(bench, caller, 1, (u32[]){ ask->client, ask->parent, ask->object }, NV50_MEMORY_VIRTUAL);
}

long bench_heap_addresses(struct bench *bench, const struct caller *caller, const struct address_ask *ask)
{
	const struct nv_abi *abi = bench->core.abi;
	struct rm_ioctl io =
		rm_heap_alloc_ioctl(abi, VIA_HEAP, ask->client, ask->parent, ask->object, ask->attr, ask->size);

	put32(io.data, rm_heap_form(abi, VIA_HEAP).flags, NVOS32_ALLOC_FLAGS_VIRTUAL | ask->flags);
	put32(io.data, abi->NVOS32_PARAMETERS.hVASpace, ask->space);
	return call_of(bench, caller, &io);
}

long bench_range(struct bench *bench, const struct caller *caller, const struct address_ask *ask)
{
	memset(bench->segment[0], 0, 256);
	put32(bench->segment[0], bench->core.abi->NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS.hVASpace, ask->space);
	return alloc(bench, caller, 1, (u32[]){ ask->client, ask->parent, ask->object }, NV01_MEMORY_VIRTUAL);
}

long bench_map(struct bench *bench, const struct caller *caller, const struct map_ask *ask)
{
	const struct nv_layout_NVOS46_PARAMETERS *at = &bench->core.abi->NVOS46_PARAMETERS;

	memset(bench->top, 0, sizeof(bench->top));
	put32(bench->top, at->hClient, ask->client);
	put32(bench->top, at->hDevice, ask->device);
	put32(bench->top, at->hDma, ask->dma);
	put32(bench->top, at->hMemory, ask->memory);
	put64(bench->top, at->length, ask->length);
	put64(bench->top, at->dmaOffset, ask->address);
	return bench_call(bench, caller, NV_ESC_RM_MAP_MEMORY_DMA, at->bytes);
}

long bench_unmap(struct bench *bench, const struct caller *caller, const struct map_ask *ask)
{
	const struct nv_layout_NVOS47_PARAMETERS *at = &bench->core.abi->NVOS47_PARAMETERS;

	memset(bench->top, 0, sizeof(bench->top));
	put32(bench->top, at->hClient, ask->client);
	put32(bench->top, at->hDevice, ask->device);
	put32(bench->top, at->hDma, ask->dma);
	put32(bench->top, at->hMemory, ask->memory);
	put64(bench->top, at->dmaOffset, ask->address);
	return bench_call(bench, caller, NV_ESC_RM_UNMAP_MEMORY_DMA, at->bytes);
}

long bench_device(struct bench *bench, const struct caller *caller, u32 client, u32 object, u32 instance)
{
	memset(bench->segment[0], 0, 256);
	put32(bench->segment[0], bench->core.abi->NV0080_ALLOC_PARAMETERS.deviceId, instance);
	return alloc(bench, caller, 1, (u32[]){ client, client, object }, NV01_DEVICE_0);
}

long bench_subdevice(struct bench *bench, const struct caller *caller, u32 client, u32 parent, u32 object)
{
	struct rm_ioctl io =
		rm_alloc_ioctl(bench->core.abi, VIA_RM21, client, parent, object, NV20_SUBDEVICE_0, NULL, 0);

	return call_of(bench, caller, &io);
}

long bench_vidmem(struct bench *bench, const struct caller *caller, int wide, const struct memory_ask *ask)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &bench->core.abi->NV_MEMORY_ALLOCATION_PARAMS;
	u8 *params = bench->segment[0];

	memset(params, 0, 256);
	put64(params, at->size, ask->size);
	put64(params, at->alignment, ask->alignment);
	put32(params, at->flags, ask->flags);
	put32(params, at->attr, ask->attr);
	put32(params, at->attr2, ask->attr2);
	return alloc(bench, caller, wide, (u32[]){ ask->client, ask->parent, ask->object }, NV01_MEMORY_LOCAL_USER);
}

long bench_host(struct bench *bench, const struct caller *caller, u32 client, u32 parent, u32 object)
{
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &bench->core.abi->NV_MEMORY_ALLOCATION_PARAMS;

	memset(bench->segment[0], 0, 256);
	put64(bench->segment[0], at->size, MIB);
	put32(bench->segment[0], at->attr, NVOS32_ATTR_LOCATION_PCI << NVOS32_ATTR_LOCATION_SHIFT);
	return alloc(bench, caller, 1, (u32[]){ client, parent, object }, NV01_MEMORY_SYSTEM);
}

long bench_surface(struct bench *bench, const struct caller *caller, u32 client, u32 first, u32 second)
{
	const struct nv_layout_NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS *at =
		&bench->core.abi->NV_SEMAPHORE_SURFACE_ALLOC_PARAMETERS;

	memset(bench->segment[0], 0, 256);
	put32(bench->segment[0], at->hSemaphoreMem, first);
	put32(bench->segment[0], at->hMaxSubmittedMem, second);
	return alloc(bench, caller, 1, (u32[]){ client, 0xd1, 0x77 }, NV_SEMAPHORE_SURFACE);
}

long bench_heap(struct bench *bench, const struct caller *caller, const struct memory_ask *ask)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &bench->core.abi->NVOS32_PARAMETERS;
	enum via via = heap_via(ask->function);
	const struct rm_heap_form form = rm_heap_form(bench->core.abi, via);
	struct rm_ioctl io =
		rm_heap_alloc_ioctl(bench->core.abi, via, ask->client, ask->parent, ask->object, ask->attr, ask->size);

	put32(io.data, form.flags, ask->flags);
	put32(io.data, form.attr2, ask->attr2);
	put64(io.data,
		via == VIA_TILED	 ? at->data_AllocTiledPitchHeight_alignment :
			via == VIA_RANGE ? at->data_AllocSizeRange_alignment :
					   at->data_AllocSize_alignment,
		ask->alignment);
	return call_of(bench, caller, &io);
}

long bench_rm_free(struct bench *bench, const struct caller *caller, u32 client, u32 object)
{
	struct rm_ioctl io = rm_free_ioctl(bench->core.abi, client, 0, object);

	return call_of(bench, caller, &io);
}

long bench_dup(struct bench *bench, const struct caller *caller, u32 client, u32 parent, u32 object, u32 from_client,
	u32 from_object)
{
	struct rm_ioctl io = rm_dup_ioctl(bench->core.abi, client, parent, object, from_client, from_object);

	return call_of(bench, caller, &io);
}

long bench_share(struct bench *bench, const struct caller *caller, u32 client, u32 object, u32 target)
{
	const struct nv_layout_NVOS57_PARAMETERS *at = &bench->core.abi->NVOS57_PARAMETERS;

	memset(bench->top, 0, sizeof(bench->top));
	put32(bench->top, at->hClient, client);
	put32(bench->top, at->hObject, object);
	put32(bench->top, at->sharePolicy_accessMask, 1u << RS_ACCESS_DUP_OBJECT);
	put32(bench->top, at->sharePolicy_type, target ? RS_SHARE_TYPE_CLIENT : RS_SHARE_TYPE_ALL);
	put32(bench->top, at->sharePolicy_target, target);
	return bench_call(bench, caller, NV_ESC_RM_SHARE, at->bytes);
}

void bench_cuda_start(struct bench *bench, const struct caller *caller, u32 client)
{
	CHECK_EQ(alloc(bench, caller, 1, (u32[]){ 0, 0, 0 }, NV01_ROOT_CLIENT), CONTINUED);
	CHECK_EQ(bench_device(bench, caller, client, 0xd0, 0), NV_OK);
	CHECK_EQ(bench_subdevice(bench, caller, client, 0xd0, 0xd1), NV_OK);
}
