// SPDX-License-Identifier: Apache-2.0
/*
 * GPU time: containers that come and go with groups and channels, settings that change, scheduling controls that fail, samples, and
 * engines that die; with a clock that the input moves.
 */
#include "objects.h"

#define BOXES 3u

struct world {
	struct fuzz *fuzz;
	struct input *input;
	struct cgpu_container_info info[BOXES];
	int there[BOXES];
};

static u64 now;

static u64 clock_of(void *ctx)
{
	MUST(((struct fuzz *)ctx)->locked);
	return now;
}

static void turn_of(void *ctx, u32 gpu)
{
	MUST(((struct fuzz *)ctx)->locked && gpu < 2);
}

static void box(struct world *world, u8 how)
{
	u32 n = how % BOXES, at;
	char line[96];

	snprintf(line, sizeof(line), how & 128 ? "destroy id=box%u" : "create id=box%u pid=%u gpu=0:16777216:%u:%u", n,
		1 + n, (how >> 2) % 4, (how >> 4) & 1);
	cgpu_inst_ctl(&world->fuzz->core, line, strlen(line), NULL);
	snprintf(line, sizeof(line), "box%u", n);
	world->there[n] = cgpu_container_find(&world->fuzz->core, line, &world->info[n]) == 0;
	for (at = 0; world->there[n] && at < 2; at++) {
		struct fuzz_object device = { 10 + (s32)n, 1, 0xc1 + n, 0xc1 + n, 1 + at, NV01_DEVICE_0, 0 };

		fuzz_make(world->fuzz, &world->info[n], &device);
	}
}

/* Groups are 10 to 13 below device 1, channels below a group or a device. */
static void make(struct world *world, u8 how)
{
	u32 n = how % BOXES;
	struct fuzz_object object = { 10 + (s32)n, 1, 0xc1 + n, how & 64 ? 2 : 1, 10 + (how >> 2) % 4,
		KEPLER_CHANNEL_GROUP_A, 0 };

	if (!world->there[n])
		return;
	if (how & 128) {
		object.class = AMPERE_CHANNEL_GPFIFO_A;
		object.parent = how & 32 ? 1 : object.handle;
		object.handle = 20 + take8(world->input) % 40;
	}
	fuzz_make(world->fuzz, &world->info[n], &object);
}

static void call(struct world *world, u32 n, u32 nr, u8 *top, u32 bytes)
{
	struct cgpu_call call = { .slot = world->info[n].slot,
		.generation = world->info[n].generation,
		.tgid = 10 + (s32)n,
		.nr = nr,
		.bytes = bytes,
		.top = top };
	u8 params[CGPU_SEGMENT_MAX] = { 0 };
	enum cgpu_verdict verdict;

	if (cgpu_call_plan(&world->fuzz->core, &call) & CGPU_NEEDS_BUFFERS)
		call.segment[0].data = params;
	verdict = cgpu_call_begin(&world->fuzz->core, &call);
	cgpu_call_end(&world->fuzz->core, &call, verdict == CGPU_EXECUTE ? 0 : -EIO);
}

static void drop(struct world *world, u8 how)
{
	const struct nv_layout_NVOS00_PARAMETERS *at = &world->fuzz->core.abi->NVOS00_PARAMETERS;
	u32 n = how % BOXES;
	u8 top[128] = { 0 };

	put32(top, at->hRoot, 0xc1 + n);
	put32(top, at->hObjectOld, how & 128 ? 20 + take8(world->input) % 40 : 1 + (how >> 2) % 14);
	if (world->there[n])
		call(world, n, NV_ESC_RM_FREE, top, at->bytes);
}

static void control(struct world *world, u8 how)
{
	static const u32 commands[] = { NVA06C_CTRL_CMD_SET_TIMESLICE, NVA06C_CTRL_CMD_GPFIFO_SCHEDULE,
		NVA06F_CTRL_CMD_GPFIFO_SCHEDULE, NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS };
	const struct nv_abi *abi = world->fuzz->core.abi;
	const struct nv_layout_NVOS54_PARAMETERS *at = &abi->NVOS54_PARAMETERS;
	u32 n = how % BOXES;
	u8 top[128] = { 0 };

	put32(top, at->hClient, 0xc1 + n);
	put32(top, at->hObject, how & 128 ? 20 + take8(world->input) % 40 : 10 + (how >> 5) % 4);
	put32(top, at->cmd, commands[(how >> 2) % 4]);
	put64(top, at->params, 4096);
	put32(top, at->paramsSize, abi->NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS.bytes + ((how & 28) == 28));
	if (world->there[n])
		call(world, n, NV_ESC_RM_CONTROL, top, at->bytes);
}

static void change(struct world *world, u8 how)
{
	static const char *const paths[] = { "0/policy", "0/max_inst", "0/prio_ratio", "0/box0/weight", "0/box1/weight",
		"0/box2/weight", "0/box0/highprio", "0/box1/highprio" };
	u8 value = take8(world->input);
	struct cgpu_node node;
	char text[8];

	snprintf(text, sizeof(text), "%u", how & 8 ? value : value % 6);
	if (cgpu_tree_lookup(&world->fuzz->core, paths[how % 8], &node) == 0)
		cgpu_tree_write(&world->fuzz->core, &node, text, strlen(text), NULL);
	fuzz_enforce(world->fuzz, (how & 240) != 240);
}

static u32 status(struct world *world, u8 how)
{
	static const u32 of[] = { NV_ERR_INVALID_OBJECT_HANDLE, NV_ERR_NOT_SUPPORTED, CGPU_CONTROL_FAILED };

	return how < 240 && take8(world->input) < 250 ? NV_OK : of[how % 3];
}

/* Apply the turn whatever the driver says: it ends, and then all is as was decided. */
static void apply(struct world *world, u8 how)
{
	struct cgpu_core *core = &world->fuzz->core;
	const struct core_share *share = &core->state->gpu[0].share;
	u32 cursor = 0, rounds = 0, number, at;
	struct cgpu_timeslice slice;
	struct cgpu_channel_batch batch;
	struct cgpu_round turn;

	now += (u64)how * how * 10000;
	MUST(cgpu_round(core, 0, &turn) == 0 && turn.until > now);
	while (cgpu_channels_next(core, 0, &batch) == 0) {
		MUST(batch.count >= 1 && batch.count <= CGPU_CHANNEL_BATCH && rounds++ < 1000);
		cgpu_channels_done(core, &batch, status(world, how));
	}
	while (cgpu_timeslices_next(core, 0, how & 1 ? 0xc1 : 0, &cursor, &slice) == 0) {
		MUST(slice.us && rounds++ < 1000);
		cgpu_timeslices_done(core, &slice, status(world, how));
	}
	for (number = 0; number <= CORE_ORPHANED && !share->enable_fail && !share->paused; number++) {
		for (at = share->tsg_list[number].first; at != CORE_NONE; at = core->state->object[at].tsg_after) {
			const struct core_object *object = &core->state->object[at];

			MUST(object->live == CORE_LIVE && object->tsg_list == number);
			/* A channel that the driver did not change is tried again later. */
			if (object->kind == CORE_OBJECT_CHANNEL && !object->left)
				MUST(object->applied ==
					(share->open >> number & 1 ? CORE_CHANNEL_ENABLED : CORE_CHANNEL_DISABLED));
		}
	}
}

static void samples(struct world *world, u8 how)
{
	struct cgpu_core *core = &world->fuzz->core;

	cgpu_samples_begin(core, how & 1, (enum cgpu_samples_kind)(how >> 6));
	cgpu_ran(core, 0, 10 + how % 8, (u64)how << 20);
	if (how >= 250)
		MUST(cgpu_state_recover(core->state) == 0);
	if (how == 249)
		fuzz_cards(world->fuzz);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	static void (*const steps[])(
		struct world *, u8) = { box, make, make, make, drop, control, change, apply, apply, samples };
	struct input input = { data, bytes };
	struct world world = { .fuzz = fuzz_core(), .input = &input };
	u32 n;

	world.fuzz->ops.clock = clock_of;
	world.fuzz->ops.round = turn_of;
	for (n = 0; n < BOXES; n++)
		box(&world, (u8)(4 + n));
	while (input.left) {
		u8 step = take8(&input);

		steps[step % (sizeof(steps) / sizeof(steps[0]))](&world, take8(&input));
		fuzz_check(world.fuzz);
	}
	return 0;
}
