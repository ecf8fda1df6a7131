// SPDX-License-Identifier: Apache-2.0
/*
 * Driver calls, up to four at a time, with a driver that answers whatever the input says. Half of the
 * calls are made of fields that make sense, the other half of raw bytes.
 */
#include "answers.h"
#include "objects.h"

#define FLIGHTS 4

struct flight {
	int busy;
	struct cgpu_call call;
	u8 top[256];
};

struct world {
	struct fuzz *fuzz;
	struct input *input;
	struct cgpu_container_info info;
	struct flight flight[FLIGHTS];
};

/* Devices are mostly called 1, subdevices 2, memory 3 to 6, so that calls find what others made. */
static u32 handle(struct world *world, u32 low, u32 count)
{
	u8 value = take8(world->input);

	return value < 240 ? low + value % count : value % 8;
}

static u64 size(struct world *world)
{
	u8 shift = take8(world->input);

	return take64(world->input) >> (shift % 64);
}

static void land(struct world *world, struct flight *flight, int result)
{
	u32 i, at;

	/* The driver writes what it likes. */
	i = take8(world->input);
	for (i = i > 192 ? i % 8 : 0; i > 0; i--) {
		at = take8(world->input);
		flight->top[at] = take8(world->input);
		at = take8(world->input) % 1024;
		if (flight->call.segments && at < flight->call.segment[0].bytes)
			flight->call.segment[0].data[at] = take8(world->input);
	}
	if (cgpu_call_end(&world->fuzz->core, &flight->call, result))
		fuzz_undo(world->fuzz, &flight->call);
	MUST(cgpu_call_end(&world->fuzz->core, &flight->call, 0) == 0);
	fuzz_free_buffers(&flight->call);
	flight->busy = 0;
}

/* Handles of memory, and where there are several, how many and from where. */
static void fill_transfer(struct world *world, u8 *data, u32 bytes)
{
	const struct nv_abi *abi = world->fuzz->core.abi;
	const struct nv_layout_NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS *out =
		&abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS;
	const struct nv_layout_NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS *one =
		&abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS;
	const struct nv_layout_NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS *in =
		&abi->NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS;
	u32 i;

	if (bytes == abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS.bytes)
		put32(data, abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS.object_data_rmObject_hObject,
			handle(world, 3, 4));
	if (bytes == one->bytes) {
		put32(data, one->object_data_rmObject_hObject, handle(world, 3, 4));
		put32(data, one->object_data_rmObject_hParent, handle(world, 1, 1));
	}
	if (bytes == in->bytes)
		put32(data, in->hParent, handle(world, 1, 1));
	if (bytes == out->bytes || bytes == in->bytes) {
		u32 objects = bytes == out->bytes ? out->objects : in->objects, count = take8(world->input) % 4;

		for (i = 0; i < count; i++)
			put32(data, objects + 4 * i, handle(world, 3, 4));
		data[bytes == out->bytes ? out->numObjects : in->numObjects] = (u8)count;
	}
}

/* Zeros, a size where memory is asked for, and a few bytes of the input. */
static void fill(void *into, u32 index, u8 *data, u32 bytes)
{
	struct world *world = into;
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &world->fuzz->core.abi->NV_MEMORY_ALLOCATION_PARAMS;
	u32 i;

	memset(data, 0, bytes);
	fill_transfer(world, data, bytes);
	fuzz_fill_answer(world->fuzz->core.abi, world->input, data, bytes);
	if (bytes == at->bytes)
		put64(data, at->size, (u64)take8(world->input) << 16);
	for (i = take8(world->input) & 7; i > 1; i--)
		data[take32(world->input) % bytes] = take8(world->input);
	if (index == 1)
		fuzz_fill_infos(world->fuzz->core.abi, world->input, data, bytes);
}

static u64 find_file(void *from)
{
	struct world *world = from;

	return take8(world->input) % (FUZZ_FILES + 1);
}

static void start(struct world *world, struct flight *flight)
{
	const struct fuzz_transport transport = { world, fill, find_file };
	enum cgpu_verdict verdict;

	flight->call.top = flight->top;
	verdict = fuzz_judge(world->fuzz, &flight->call, &transport);
	flight->busy = 1;
	if (verdict == CGPU_EXECUTE && !fuzz_ask(world->fuzz, &flight->call, world->input))
		land(world, flight, 0);
	else if (verdict != CGPU_EXECUTE && verdict != CGPU_CONTINUE)
		land(world, flight, -EIO);
}

static void prepare(struct world *world, struct flight *flight, u32 nr, u32 bytes)
{
	memset(flight, 0, sizeof(*flight));
	flight->call.slot = world->info.slot;
	flight->call.generation = world->info.generation;
	flight->call.tgid = 1 + take8(world->input) % 3;
	flight->call.nr = nr;
	flight->call.bytes = bytes;
	flight->call.finds_files = 1;
	flight->call.file = 1;
}

static void raw_call(struct world *world, struct flight *flight)
{
	static const u8 numbers[] = { 39, 40, 41, 42, 43, 52, 53, 74, 211, 217 };
	u8 which = take8(world->input);
	u32 nr = which < sizeof(numbers) ? numbers[which] : take32(world->input), inner;
	u64 address;

	prepare(world, flight, nr, take8(world->input));
	flight->call.device = (enum cgpu_device)(take8(world->input) % 4);
	flight->call.gpu = take8(world->input) % 3;
	take(world->input, flight->top, sizeof(flight->top));
	cgpu_call_unwrap(&world->fuzz->core, flight->top, flight->call.bytes, &nr, &inner, &address);
	cgpu_call_changes(world->fuzz->core.abi, &flight->call);
	start(world, flight);
}

static void alloc_call(struct world *world, struct flight *flight)
{
	static const u32 classes[] = { NV01_DEVICE_0, NV20_SUBDEVICE_0, NV01_MEMORY_LOCAL_USER,
		NV01_MEMORY_LOCAL_USER };
	static const u32 lowest[] = { 1, 2, 3, 3 };
	const struct nv_layout_NVOS64_PARAMETERS *at = &world->fuzz->core.abi->NVOS64_PARAMETERS;
	u8 how = take8(world->input);

	prepare(world, flight, NV_ESC_RM_ALLOC, how & 4 ? at->bytes : world->fuzz->core.abi->NVOS21_PARAMETERS.bytes);
	put32(flight->top, at->hRoot, 0xc1 + (how >> 7));
	put32(flight->top, at->hObjectParent, handle(world, 1, (how & 3) >= 2 ? 2 : 1));
	put32(flight->top, at->hObjectNew, handle(world, lowest[how & 3], (how & 3) >= 2 ? 4 : 1));
	put32(flight->top, at->hClass, (how & 35) == 35 ? NV01_MEMORY_SYSTEM : classes[how & 3]);
	put64(flight->top, at->pAllocParms, (how & 24) == 24 ? 0 : 4096);
	start(world, flight);
}

static void heap_call(struct world *world, struct flight *flight)
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &world->fuzz->core.abi->NVOS32_PARAMETERS;
	u8 attr;

	prepare(world, flight, NV_ESC_RM_VID_HEAP_CONTROL, at->bytes);
	put32(flight->top, at->hRoot, 0xc1 + (take8(world->input) & 1));
	put32(flight->top, at->hObjectParent, handle(world, 1, 2));
	put32(flight->top, at->function, take8(world->input) % 28);
	put32(flight->top, at->data_AllocSize_hMemory, handle(world, 3, 4));
	put64(flight->top, at->data_AllocSize_size, size(world));
	attr = take8(world->input);
	put32(flight->top, at->data_AllocSize_attr,
		(u32)(attr % 4) << NVOS32_ATTR_PAGE_SIZE_SHIFT | (u32)(attr >> 7) << NVOS32_ATTR_LOCATION_SHIFT);
	if (take8(world->input) & 1) {
		put64(flight->top, at->data_AllocSize_alignment, size(world));
		put32(flight->top, at->data_AllocSize_flags, take32(world->input));
	}
	start(world, flight);
}

static void handle_call(struct world *world, struct flight *flight)
{
	const struct nv_abi *abi = world->fuzz->core.abi;
	u8 how = take8(world->input);

	if (how & 1) {
		prepare(world, flight, NV_ESC_RM_FREE, abi->NVOS00_PARAMETERS.bytes);
		put32(flight->top, abi->NVOS00_PARAMETERS.hRoot, 0xc1 + (how >> 7));
		put32(flight->top, abi->NVOS00_PARAMETERS.hObjectOld, (how & 112) == 112 ? 0xc1 : handle(world, 1, 6));
	} else {
		prepare(world, flight, NV_ESC_RM_DUP_OBJECT, abi->NVOS55_PARAMETERS.bytes);
		put32(flight->top, abi->NVOS55_PARAMETERS.hClient, 0xc1 + (how >> 7));
		put32(flight->top, abi->NVOS55_PARAMETERS.hParent, handle(world, 1, 2));
		put32(flight->top, abi->NVOS55_PARAMETERS.hObject, handle(world, 3, 4));
		put32(flight->top, abi->NVOS55_PARAMETERS.hClientSrc, 0xc1 + (how >> 6 & 1));
		put32(flight->top, abi->NVOS55_PARAMETERS.hObjectSrc, handle(world, 3, 4));
	}
	start(world, flight);
}

static void control_call(struct world *world, struct flight *flight)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &world->fuzz->core.abi->NVOS54_PARAMETERS;
	u8 how = take8(world->input);
	struct fuzz_control control = fuzz_control(world->fuzz->core.abi, how);

	prepare(world, flight, NV_ESC_RM_CONTROL, at->bytes);
	put32(flight->top, at->hClient, 0xc1 + (how >> 7));
	put32(flight->top, at->hObject, handle(world, 2, 1));
	put32(flight->top, at->cmd, control.command);
	put32(flight->top, at->paramsSize, control.bytes);
	put64(flight->top, at->params, 4096);
	if ((how & 96) == 96)
		take(world->input, flight->top + at->params, 16);
	start(world, flight);
}

/* Clients, and the older ways to make objects. */
static void old_call(struct world *world, struct flight *flight)
{
	static const u32 classes[] = { NV01_ROOT, NV01_ROOT_CLIENT, NV01_DEVICE_0, NV01_MEMORY_LOCAL_USER,
		NV01_MEMORY_SYSTEM, NV01_EVENT, NV01_MEMORY_LOCAL_PHYSICAL, 0xdead, NV_MEMORY_EXPORT,
		NV01_MEMORY_VIRTUAL };
	const struct nv_abi *abi = world->fuzz->core.abi;
	u8 how = take8(world->input);
	u32 class = classes[how / 3 % (sizeof(classes) / sizeof(classes[0]))], made = 0xc1 + take8(world->input) % 4;

	if (how % 3 == 0) {
		prepare(world, flight, NV_ESC_RM_ALLOC_OBJECT, abi->NVOS05_PARAMETERS.bytes);
		put32(flight->top, abi->NVOS05_PARAMETERS.hClass, class);
		put32(flight->top, abi->NVOS05_PARAMETERS.hObjectNew, made);
	} else if (how % 3 == 1) {
		prepare(world, flight, NV_ESC_RM_ALLOC, abi->NVOS21_PARAMETERS.bytes);
		put32(flight->top, abi->NVOS21_PARAMETERS.hClass, class);
		put32(flight->top, abi->NVOS21_PARAMETERS.hObjectNew, made);
	} else {
		prepare(world, flight, NV_ESC_RM_ALLOC_MEMORY, abi->nv_ioctl_nvos02_parameters_with_fd.bytes);
		put32(flight->top, abi->nv_ioctl_nvos02_parameters_with_fd.params_hClass, class);
	}
	if (how >= 240)
		put32(flight->top, 0, CORE_PIN_BASE + how);
	start(world, flight);
}

static void stale_claim(struct world *world, u32 client)
{
	struct cgpu_ownership claim;

	if (cgpu_ownership_find(&world->fuzz->core, world->info.slot, client, &claim))
		return;
	MUST(claim.slot != world->info.slot && claim.client == client && claim.handles <= CGPU_OWNERSHIP_HANDLES);
	cgpu_ownership_drop(&world->fuzz->core, &claim);
}

/* Do something that may happen between the two halves of a call. */
static void event(struct world *world)
{
	static const char *const create[] = { "create id=box pid=1 gpu=0:1073741824 gpu=1:1048576",
		"create id=box pid=1 gpu=0:1073741824 native=1" };
	static const char other[] = "create id=other pid=2 gpu=0:1048576";
	struct cgpu_core *core = &world->fuzz->core;
	u8 what = take8(world->input);

	if (what % 4 < 2)
		cgpu_client_gone(core, 1 + what / 4 % 3, 0xc1 + (what >> 7));
	else if (what < 16)
		cgpu_inst_ctl(core, "destroy id=box", 14, NULL);
	else if (what < 64)
		fuzz_orphans_gone(world->fuzz);
	else if (what < 96)
		stale_claim(world, 0xc1 + (what & 1));
	else if (what < 128)
		cgpu_file_closed(core, 1 + what % FUZZ_FILES);
	else if (what < 160)
		fuzz_exhaust(world->fuzz, what / 4);
	else if (what < 192)
		fuzz_plenty(world->fuzz);
	cgpu_inst_ctl(core, create[what & 1], strlen(create[what & 1]), NULL);
	cgpu_inst_ctl(core, other, sizeof(other) - 1, NULL);
	MUST(cgpu_container_find(core, what < 192 ? "box" : "other", &world->info) == 0);
}

/* Two clients with device, subdevice and some memory each, as every process of CUDA has. */
static void start_clients(struct world *world)
{
	u32 client;

	for (client = 0xc1; client <= 0xc2; client++) {
		struct fuzz_object device = { 1, 1, client, client, 1, NV01_DEVICE_0, 0 };
		struct fuzz_object subdevice = { 1, 1, client, 1, 2, NV20_SUBDEVICE_0, 0 };
		struct fuzz_object memory = { 1, 1, client, 1, 3, NV01_MEMORY_LOCAL_USER, 65536 };

		fuzz_make(world->fuzz, &world->info, &device);
		fuzz_make(world->fuzz, &world->info, &subdevice);
		fuzz_make(world->fuzz, &world->info, &memory);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	static void (*const calls[])(struct world *, struct flight *) = { raw_call, alloc_call, alloc_call, heap_call,
		handle_call, control_call, control_call, old_call };
	static const char *const versions[] = { "580.142", "515.43.04", "535.43.02", "575.51.02" };
	struct input input = { data, bytes };
	struct world world = { .fuzz = fuzz_core(), .input = &input };
	struct flight *flight;
	u32 i;

	MUST(cgpu_inst_ctl(&world.fuzz->core, "create id=box pid=1 gpu=0:1073741824", 36, NULL) == 0);
	MUST(cgpu_container_find(&world.fuzz->core, "box", &world.info) == 0);
	world.fuzz->core.abi = cgpu_abi_find(versions[take8(&input) % (sizeof(versions) / sizeof(versions[0]))]);
	world.fuzz->counts = bytes & 1;
	fuzz_enforce(world.fuzz, take8(&input) < 224);
	start_clients(&world);
	while (input.left) {
		u8 step = take8(&input);

		flight = &world.flight[step % FLIGHTS];
		if (step >= 224)
			event(&world);
		else if (flight->busy)
			land(&world, flight, (step & 48) == 48 ? -EIO : 0);
		else
			calls[(step >> 2) % (sizeof(calls) / sizeof(calls[0]))](&world, flight);
		fuzz_check(world.fuzz);
	}
	for (i = 0; i < FLIGHTS; i++) {
		if (world.flight[i].busy)
			land(&world, &world.flight[i], 0);
	}
	fuzz_check(world.fuzz);
	return 0;
}
