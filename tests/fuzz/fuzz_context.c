// SPDX-License-Identifier: Apache-2.0
/*
 * Objects of every kind, contexts of channel groups and channels among them; files that end or are lost sight of; and
 * what a card says beside what is charged. Calls end at once, as the input says.
 */
#include "answers.h"
#include "objects.h"

struct world {
	struct fuzz *fuzz;
	struct input *input;
	struct cgpu_container_info info;
};

/* 1: devices; 2: subdevices; 3 to 6: objects below; rarely a handle that makes no sense. */
static u32 handle(struct world *world)
{
	u8 value = take8(world->input);

	return value < 240 ? 1 + value % 6 : value % 8;
}

static u32 client(u8 how)
{
	return 0xc1 + (how >> 7);
}

static struct cgpu_call call_of(struct world *world, u8 *top, u32 nr, u32 bytes)
{
	struct cgpu_call call = { .slot = world->info.slot,
		.generation = world->info.generation,
		.tgid = 1,
		.nr = nr,
		.bytes = bytes,
		.top = top,
		.finds_files = 1,
		.file = 1 };

	call.tgid += take8(world->input) % 3;
	call.file += call.tgid % FUZZ_FILES;
	return call;
}

static u64 length(struct world *world)
{
	u64 bytes = take8(world->input);

	return bytes << take8(world->input) % 40;
}

static void fill(void *into, u32 index, u8 *data, u32 bytes)
{
	static const u32 flags[] = { 0, NVOS32_ALLOC_FLAGS_VIRTUAL, NVOS32_ALLOC_FLAGS_LAZY, NVOS32_ALLOC_FLAGS_SPARSE,
		NVOS32_ALLOC_FLAGS_LAZY | NVOS32_ALLOC_FLAGS_SPARSE, NVOS32_ALLOC_FLAGS_EXTERNALLY_MANAGED };
	struct world *world = into;
	const struct nv_layout_NV_MEMORY_ALLOCATION_PARAMS *at = &world->fuzz->core.abi->NV_MEMORY_ALLOCATION_PARAMS;
	u32 i;

	(void)index;
	memset(data, 0, bytes);
	if (bytes == at->bytes) {
		put64(data, at->size, length(world));
		put32(data, at->attr, (u32)take8(world->input) % 4 << NVOS32_ATTR_PAGE_SIZE_SHIFT);
		put32(data, at->flags, flags[take8(world->input) % 6]);
		put32(data, at->hVASpace, take8(world->input) % 8);
		return;
	}
	for (i = 0; i < bytes && i < 64; i += 4)
		data[i] = take8(world->input);
}

/* None of these calls names a descriptor. */
static u64 find_file(void *from)
{
	(void)from;
	MUST(0);
	return 0;
}

static void run(struct world *world, struct cgpu_call *call, u32 status_at)
{
	const struct fuzz_transport transport = { world, fill, find_file };
	u32 objects = world->fuzz->core.state->objects;
	enum cgpu_verdict verdict = fuzz_judge(world->fuzz, call, &transport);
	int result;
	u8 answer;

	answer = verdict == CGPU_EXECUTE ? take8(world->input) : 0;
	if (verdict == CGPU_EXECUTE && !fuzz_ask(world->fuzz, call, world->input))
		MUST(get32(call->top, status_at) != NV_OK);
	else if (answer > 224)
		put32(call->top, status_at, answer > 240 ? NV_ERR_GPU_IS_LOST : NV_ERR_INVALID_ARGUMENT);
	result = verdict == CGPU_EXECUTE || verdict == CGPU_CONTINUE ? 0 : -EIO;
	/* A signal came first: the driver was never asked. */
	if (answer > 248)
		result = -EINTR;
	if (cgpu_call_end(&world->fuzz->core, call, result))
		fuzz_undo(world->fuzz, call);
	/* What was not done leaves no record. */
	if (result || get32(call->top, status_at) != NV_OK)
		MUST(world->fuzz->core.state->objects <= objects);
	fuzz_free_buffers(call);
}

static void alloc_class(struct world *world, u8 how, u32 class)
{
	const struct nv_layout_NVOS64_PARAMETERS *at = &world->fuzz->core.abi->NVOS64_PARAMETERS;
	u32 narrow = world->fuzz->core.abi->NVOS21_PARAMETERS.bytes;
	u8 top[128] = { 0 };
	struct cgpu_call call = call_of(world, top, NV_ESC_RM_ALLOC, how & 16 ? at->bytes : narrow);

	put32(top, at->hRoot, client(how));
	put32(top, at->hObjectParent, handle(world));
	put32(top, at->hObjectNew, handle(world));
	put32(top, at->hClass, class);
	put64(top, at->pAllocParms, (how & 96) == 96 ? 0 : 4096);
	if ((how & 48) == 48)
		put64(top, at->pRightsRequested, 8192);
	run(world, &call, how & 16 ? at->status : world->fuzz->core.abi->NVOS21_PARAMETERS.status);
}

static void alloc(struct world *world, u8 how)
{
	static const u32 classes[] = { KEPLER_CHANNEL_GROUP_A, AMPERE_CHANNEL_GPFIFO_A, HOPPER_CHANNEL_GPFIFO_A,
		NV01_DEVICE_0, NV20_SUBDEVICE_0, NV01_MEMORY_LOCAL_USER, NV01_MEMORY_SYSTEM, NV_SEMAPHORE_SURFACE,
		AMPERE_SMC_PARTITION_REF, AMPERE_SMC_EXEC_PARTITION_REF, AMPERE_SMC_CONFIG_SESSION, NV_MEMORY_FABRIC,
		NV01_MEMORY_VIRTUAL, NV_EVENT_BUFFER, NV01_ROOT_CLIENT, KEPLER_CHANNEL_GROUP_A };

	alloc_class(world, how, classes[how % 16]);
}

/* VA spaces, addresses in them, channels that are made for them, and what names a client. */
static void alloc_addresses(struct world *world, u8 how)
{
	static const u32 classes[] = { FERMI_VASPACE_A, NV50_MEMORY_VIRTUAL, NV01_MEMORY_VIRTUAL,
		AMPERE_CHANNEL_GPFIFO_A, KEPLER_CHANNEL_GROUP_A, NV01_EVENT, GT200_DEBUGGER, RM_USER_SHARED_DATA };

	alloc_class(world, how, classes[how % 8]);
}

static void map(struct world *world, u8 how)
{
	const struct nv_layout_NVOS46_PARAMETERS *in = &world->fuzz->core.abi->NVOS46_PARAMETERS;
	const struct nv_layout_NVOS47_PARAMETERS *out = &world->fuzz->core.abi->NVOS47_PARAMETERS;
	u32 ends = (how & 3) == 0, bytes_at = ends ? out->size : in->length;
	u8 top[128] = { 0 };
	struct cgpu_call call = call_of(world, top, ends ? NV_ESC_RM_UNMAP_MEMORY_DMA : NV_ESC_RM_MAP_MEMORY_DMA,
		ends ? out->bytes : in->bytes);

	/* Both begin alike. */
	put32(top, in->hClient, client(how));
	put32(top, in->hDevice, handle(world));
	put32(top, in->hDma, handle(world));
	put64(top, ends ? out->dmaOffset : in->dmaOffset, (u64)(how & 12) << 19);
	put32(top, in->hMemory, handle(world));
	if (bytes_at != NV_ABI_ABSENT && (how & 19))
		put64(top, bytes_at, length(world));
	run(world, &call, ends ? out->status : in->status);
}

static void old_alloc(struct world *world, u8 how)
{
	static const u32 classes[] = { NV01_ROOT_CLIENT, NV01_EVENT, NV01_DEVICE_0, NV_MEMORY_EXPORT };
	const struct nv_layout_NVOS05_PARAMETERS *at = &world->fuzz->core.abi->NVOS05_PARAMETERS;
	u8 top[128] = { 0 };
	struct cgpu_call call = call_of(world, top, NV_ESC_RM_ALLOC_OBJECT, at->bytes);

	put32(top, at->hRoot, client(how));
	put32(top, at->hObjectNew, handle(world));
	put32(top, at->hClass, classes[how % 4]);
	run(world, &call, at->status);
}

static void dup(struct world *world, u8 how)
{
	const struct nv_layout_NVOS55_PARAMETERS *at = &world->fuzz->core.abi->NVOS55_PARAMETERS;
	u8 top[128] = { 0 };
	struct cgpu_call call = call_of(world, top, NV_ESC_RM_DUP_OBJECT, at->bytes - ((how & 7) == 7));

	put32(top, at->hClient, client(how));
	put32(top, at->hParent, handle(world));
	put32(top, at->hObject, handle(world));
	put32(top, at->hClientSrc, (how & 24) == 24 ? 0xc9 : client((u8)(how << 1)));
	put32(top, at->hObjectSrc, handle(world));
	run(world, &call, at->status);
}

static void share(struct world *world, u8 how)
{
	const struct nv_layout_NVOS57_PARAMETERS *at = &world->fuzz->core.abi->NVOS57_PARAMETERS;
	u8 top[128] = { 0 };
	struct cgpu_call call = call_of(world, top, NV_ESC_RM_SHARE, at->bytes - ((how & 7) == 7));

	put32(top, at->hClient, client(how));
	put32(top, at->hObject, handle(world));
	put32(top, at->sharePolicy_type, how & 8 ? RS_SHARE_TYPE_CLIENT : RS_SHARE_TYPE_ALL);
	put32(top, at->sharePolicy_target, 0xc0 + take8(world->input) % 4);
	run(world, &call, at->status);
}

/* Controls that divide GPU time, those that name a client, those that no slice has, and an unknown one. */
static struct fuzz_control control_of(const struct nv_abi *abi, u8 which)
{
	const u32 schedule = abi->NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS.bytes, bind = abi->NVA06F_CTRL_BIND_PARAMS.bytes;
	const struct fuzz_control controls[] = {
		{ NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, schedule },
		{ NVA06F_CTRL_CMD_GPFIFO_SCHEDULE, schedule },
		{ NVC36F_CTRL_CMD_GPFIFO_SCHEDULE, schedule },
		{ NVA06C_CTRL_CMD_BIND, bind },
		{ NVC36F_CTRL_CMD_BIND, bind },
		{ NVA06C_CTRL_CMD_SET_TIMESLICE, 8 },
		{ NV2080_CTRL_CMD_GPU_GET_COMPUTE_POLICY_CONFIG,
			abi->NV2080_CTRL_GPU_GET_COMPUTE_POLICY_CONFIG_PARAMS.bytes },
		{ NV0000_CTRL_CMD_CLIENT_SET_INHERITED_SHARE_POLICY,
			abi->NV0000_CTRL_CLIENT_SET_INHERITED_SHARE_POLICY_PARAMS.bytes },
		{ NV2080_CTRL_CMD_GR_CTXSW_ZCULL_BIND, abi->NV2080_CTRL_GR_CTXSW_ZCULL_BIND_PARAMS.bytes },
		{ NV2080_CTRL_CMD_GR_CTXSW_SETUP_BIND, abi->NV2080_CTRL_GR_CTXSW_SETUP_BIND_PARAMS.bytes },
		{ NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS, 8 },
		{ 0xdead, 8 },
	};

	return controls[which % (sizeof(controls) / sizeof(controls[0]))];
}

static void control(struct world *world, u8 how)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &world->fuzz->core.abi->NVOS54_PARAMETERS;
	struct fuzz_control chosen = control_of(world->fuzz->core.abi, how);
	u8 top[128] = { 0 };
	struct cgpu_call call = call_of(world, top, NV_ESC_RM_CONTROL, at->bytes);

	put32(top, at->hClient, client(how));
	put32(top, at->hObject, handle(world));
	put32(top, at->cmd, chosen.command);
	put32(top, at->paramsSize, chosen.bytes);
	put64(top, at->params, 4096);
	run(world, &call, at->status);
}

static void drop(struct world *world, u8 how)
{
	const struct nv_layout_NVOS00_PARAMETERS *at = &world->fuzz->core.abi->NVOS00_PARAMETERS;
	u8 top[128] = { 0 };
	struct cgpu_call call = call_of(world, top, NV_ESC_RM_FREE, at->bytes);

	put32(top, at->hRoot, client(how));
	put32(top, at->hObjectOld, (how & 112) == 112 ? client(how) : handle(world));
	run(world, &call, at->status);
}

static void files(struct world *world, u8 how)
{
	struct cgpu_core *core = &world->fuzz->core;
	u32 cursor = 0, count = 0;
	u64 file;

	while (cgpu_file_next(core, &cursor, &file) == 0)
		MUST(file >= 1 && file <= FUZZ_FILES && ++count <= core->state->clients);
	if (how % 8 == 0) {
		MUST(cgpu_files_lost(core) == count);
		MUST(cgpu_files_lost(core) == 0);
	} else {
		cgpu_file_closed(core, how % (FUZZ_FILES + 1));
	}
}

static void look(struct world *world, u8 how)
{
	struct cgpu_core *core = &world->fuzz->core;
	struct cgpu_card_view view = { .memfree = take64(world->input) >> (how & 63),
		.outside = (u64)how << 20,
		.strangers = take8(world->input) % 3,
		.users = take8(world->input) % 3 };
	u32 beats;

	core->state->settings.drift_refuse = how >> 7;
	core->state->settings.drift_tolerance = (u64)(how & 15) << 24;
	for (beats = how % 8; beats; beats--)
		cgpu_gpu_reconcile(core, how & 1, &view);
	if ((how & 112) == 112)
		cgpu_gpu_reconcile(core, how & 3, NULL);
	cgpu_gpu_set_mig(core, how & 3, how >> 6);
	cgpu_gpu_set_lost(core, how & 3, (how & 12) == 12);
	cgpu_gpu_orphaned(core, how & 3);
	cgpu_minor_granted(core, world->info.slot, world->info.generation, how);
}

/* Pages come and go, and the tree tells those that nobody has any more. */
static void give(struct world *world, u8 how)
{
	struct cgpu_core *core = &world->fuzz->core;
	struct cgpu_node node;
	char text[1024];

	fuzz_give_pages(world->fuzz, how & 1, FUZZ_LAST_COUNTER + (how >> 1 & 3), length(world));
	MUST(cgpu_tree_lookup(core, how & 1 ? "1/left" : "0/left", &node) == 0);
	MUST(cgpu_tree_read(core, &node, text, sizeof(text)) < (long)sizeof(text));
}

static void change(struct world *world, u8 how)
{
	static const char *const create[] = { FUZZ_BOX, "create id=box pid=1 gpu=0:1073741824 native=1" };
	struct cgpu_core *core = &world->fuzz->core;

	if (how & 1)
		cgpu_inst_ctl(core, "destroy id=box", 14, NULL);
	if (how & 2)
		core->state->settings.context_memory = (u64)take8(world->input) << 20;
	if ((how & 48) == 48)
		fuzz_orphans_gone(world->fuzz);
	if ((how & 192) == 192)
		fuzz_exhaust(world->fuzz, take8(world->input));
	else
		fuzz_plenty(world->fuzz);
	cgpu_inst_ctl(core, create[how >> 3 & 1], strlen(create[how >> 3 & 1]), NULL);
	if (cgpu_container_find(core, "box", &world->info)) {
		/* A card in MIG mode, or memory of others, is in its way. */
		cgpu_gpu_set_mig(core, 0, 0);
		cgpu_gpu_set_mig(core, 1, 0);
		cgpu_gpu_set_lost(core, 0, 0);
		cgpu_gpu_set_lost(core, 1, 0);
		fuzz_orphans_gone(world->fuzz);
		fuzz_box(world->fuzz, &world->info);
	}
}

static void begin(struct world *world)
{
	static const char *const versions[] = { "580.142", "515.43.04", "535.43.02", "615.71.09" };
	struct fuzz *fuzz = world->fuzz;
	u32 gpu;

	fuzz->counts = world->input->left & 1;
	fuzz->core.abi = cgpu_abi_nearest(versions[take8(world->input) % 4]);
	fuzz->core.state->settings.context_memory = 1ull << 20;
	for (gpu = 0; gpu < 2; gpu++) {
		cgpu_gpu_set_mig(&fuzz->core, gpu, 0);
		fuzz->core.state->gpu[gpu].drift = (struct core_unaccounted){ 0 };
	}
	fuzz_box(fuzz, &world->info);
	fuzz_make_some(fuzz, &world->info);
}

/* Steps that came later are above the older ones: so kept inputs mean what they meant. */
#define CONTROLS_FROM 220
#define ADDRESSES_FROM 176

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	static void (*const steps[])(
		struct world *, u8) = { alloc, alloc, alloc, old_alloc, dup, share, drop, drop, files, look, change };
	static void (*const later[])(struct world *, u8) = { alloc_addresses, map, alloc_addresses, map, give };
	struct input input = { data, bytes };
	struct world world = { .fuzz = fuzz_core(), .input = &input };

	begin(&world);
	while (input.left) {
		u8 step = take8(&input);

		if (step >= CONTROLS_FROM)
			control(&world, take8(&input));
		else if (step >= ADDRESSES_FROM)
			later[step % (sizeof(later) / sizeof(later[0]))](&world, take8(&input));
		else
			steps[step % (sizeof(steps) / sizeof(steps[0]))](&world, take8(&input));
		fuzz_check(world.fuzz);
	}
	return 0;
}
