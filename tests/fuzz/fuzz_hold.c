// SPDX-License-Identifier: Apache-2.0
/* Memory that a part of the driver keeps, managed memory, and the driver's figures of processes and clients. */
#include "objects.h"

#define HOLDS 8u
#define FILES 3u

struct world {
	struct fuzz *fuzz;
	struct input *input;
	struct cgpu_container_info info;
	struct cgpu_reference hold[HOLDS];
};

static struct cgpu_reference_request request(struct world *world, u8 which)
{
	u8 from = take8(world->input), handle = take8(world->input);

	return (struct cgpu_reference_request){
		.slot = which < 250 ? world->info.slot : which,
		.generation = world->info.generation,
		.tgid = 1 + which % 3,
		.to = (enum cgpu_reference_to)(from < 128 ? CGPU_REFERENCE_MEMORY : 1 + from % 2),
		.client = 0xc1 + from % 3,
		.handle = 1 + handle % 6,
		.of = handle < 224 ? 0 : world->hold[handle % HOLDS].of,
		.gpu = take8(world->input) % 3,
		.bytes = (u64)take8(world->input) << (take8(world->input) % 48),
	};
}

static void hold(struct world *world, u8 which)
{
	struct cgpu_core *core = &world->fuzz->core;
	struct cgpu_reference *chosen = &world->hold[which % HOLDS];
	struct cgpu_reference_request wanted = request(world, which);
	struct cgpu_reference wrong = { .object = which % 16, .serial = which };

	switch (which / HOLDS % 6) {
	case 0:
		cgpu_reference_drop(core, chosen);
		cgpu_reference_begin(core, &wanted, chosen);
		break;
	case 1:
		cgpu_reference_drop(core, chosen);
		cgpu_reference_charge(core, &wanted, chosen);
		break;
	case 2:
		cgpu_reference_shrink(core, chosen, wanted.bytes);
		break;
	case 3:
		cgpu_reference_drop(core, chosen);
		break;
	case 4:
		cgpu_reference_drop(core, &wrong);
		break;
	default:
		cgpu_reference_confirm(core, chosen);
	}
}

/* Hold memory on an open file of a part of the driver. */
static void hold_on_file(struct world *world, u8 which)
{
	struct cgpu_core *core = &world->fuzz->core;
	struct cgpu_reference *chosen = &world->hold[which % HOLDS];
	struct cgpu_reference_request wanted = request(world, 0);
	u32 file = which / 64 % FILES;

	switch (which / HOLDS % 8) {
	case 0:
		MUST(cgpu_reference_on_file(core, &wanted, CGPU_MAX_CLIENTS + which, chosen) == -EINVAL);
		break;
	case 1:
		cgpu_reference_file_ended(core, file);
		MUST(cgpu_reference_recover(core, chosen, file) == -ENOENT);
		break;
	case 2:
	case 3:
		if (cgpu_reference_recover(core, chosen, file) == 0)
			MUST(cgpu_reference_confirm(core, chosen) == -ENOENT);
		break;
	case 4:
		cgpu_reference_names(core, chosen, &wanted);
		break;
	default:
		cgpu_reference_drop(core, chosen);
		if (cgpu_reference_on_file(core, &wanted, file, chosen) == 0 && chosen->serial)
			MUST(cgpu_reference_names(core, chosen, &wanted));
	}
}

/* The walk looks at every record there may be: once for an input. */
static void end_files(struct cgpu_core *core)
{
	struct cgpu_reference kept;
	u32 cursor = 0, count = 0, file;

	while (cgpu_reference_file_next(core, &cursor, &kept) == 0)
		MUST(++count <= core->state->objects);
	for (file = 0; file < FILES; file++)
		cgpu_reference_file_ended(core, file);
	cursor = 0;
	MUST(cgpu_reference_file_next(core, &cursor, &kept) == -ENOENT);
}

static void managed(struct world *world, u8 which)
{
	struct cgpu_core *core = &world->fuzz->core;
	struct cgpu_managed wanted = { world->info.slot, world->info.generation + (which > 250), 1 + which % 3, 1,
		(u64)take8(world->input) << (take8(world->input) % 40), which % 5 };
	u32 cursor = 0, count = 0;
	struct cgpu_managed found, orphan = { CGPU_ORPHANS, 0, wanted.tgid, 0, 0, 0 };

	/* Where pages are counted, UVM's memory is charged as it is taken. */
	if (world->fuzz->counts)
		return;
	if (which & 64)
		cgpu_managed_ended(core, which & 32 ? &orphan : &wanted);
	else
		cgpu_managed_set(core, &wanted);
	while (cgpu_managed_next(core, which & 32 ? CGPU_ORPHANS : wanted.slot, &cursor, &found) == 0)
		MUST(++count <= world->fuzz->core.state->clients);
}

/* Each walk ends, and a sum over processes is what is charged. */
static void walk(struct world *world, u8 which)
{
	struct cgpu_core *core = &world->fuzz->core;
	u32 cursor = 0, client, count = 0, slot = world->info.slot;
	u64 bytes[CGPU_MAX_GPUS] = { 0 }, used = 0;
	struct cgpu_process_charge charge;
	s32 tgid;

	while (cgpu_process_known(core, slot, &cursor, &tgid) == 0)
		MUST(++count <= core->state->clients);
	for (cursor = 0; cgpu_client_next(core, 1 + which % 3, &cursor, &client) == 0; count++)
		MUST(client < CORE_PIN_BASE && count < 2 * CGPU_MAX_CLIENTS);
	for (cursor = 0; cgpu_process_next(core, slot, &cursor, &charge) == 0;)
		bytes[charge.gpu] += charge.bytes;
	for (cursor = 0; cursor < CGPU_MAX_INST; cursor++) {
		if (core->state->gpu[0].instance[cursor].live == CORE_LIVE)
			used += core->state->gpu[0].instance[cursor].used;
	}
	MUST(used == bytes[0]);
	MUST(cgpu_gpu_orphaned(core, which % 3) <= 1ull << 34);
	world->fuzz->coming = (u64)(which & 12) << 18;
	fuzz_give_pages(world->fuzz, which & 1, FUZZ_LAST_COUNTER, (u64)which << 18);
	cgpu_container_gpus(core, slot, world->info.generation);
	cgpu_minor_granted(core, slot, world->info.generation, which % 3);
}

/* A channel with a group, and one without. */
static void make_some(struct world *world)
{
	const struct fuzz_object objects[] = { { 1, 1, 0xc1, 1, 5, KEPLER_CHANNEL_GROUP_A, 0 },
		{ 1, 1, 0xc1, 5, 6, AMPERE_CHANNEL_GPFIFO_A, 0 }, { 2, 2, 0xc2, 1, 6, AMPERE_CHANNEL_GPFIFO_A, 0 } };
	u32 i;

	fuzz_make_some(world->fuzz, &world->info);
	for (i = 0; i < sizeof(objects) / sizeof(objects[0]); i++)
		fuzz_make(world->fuzz, &world->info, &objects[i]);
}

static void gone(struct world *world, u8 which)
{
	static const char big[] = "create id=big pid=3 gpu=0:16106127360";
	struct cgpu_core *core = &world->fuzz->core;
	struct cgpu_ownership claim;

	switch (which / 8 % 8) {
	case 0:
		cgpu_inst_ctl(core, "destroy id=box", 14, NULL);
		break;
	case 1:
		fuzz_orphans_gone(world->fuzz);
		break;
	case 2:
	case 3:
		cgpu_client_gone(core, 1 + which % 3, 0xc1 + which % 2);
		break;
	case 4:
		cgpu_file_closed(core, which % (FUZZ_FILES + 1));
		break;
	case 5:
		if (cgpu_ownership_find(core, which & 1 ? world->info.slot : world->info.slot + 1, 0xc1, &claim) == 0 &&
			which & 2)
			cgpu_ownership_drop(core, &claim);
		break;
	case 6:
		fuzz_exhaust(world->fuzz, which);
		break;
	default:
		/* More than is left, if orphans are in the way. */
		cgpu_inst_ctl(core, big, sizeof(big) - 1, NULL);
		cgpu_inst_ctl(core, "destroy id=big", 14, NULL);
		make_some(world);
	}
	fuzz_box(world->fuzz, &world->info);
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t bytes)
{
	static void (*const steps[])(struct world *, u8) = { hold, hold, managed, walk, gone, hold_on_file };
	struct input input = { data, bytes };
	struct world world = { .fuzz = fuzz_core(), .input = &input };
	u32 i;

	fuzz_box(world.fuzz, &world.info);
	world.fuzz->counts = bytes & 1;
	make_some(&world);
	while (input.left) {
		u8 step = take8(&input), which = take8(&input);

		steps[step % (sizeof(steps) / sizeof(steps[0]))](&world, which);
		fuzz_check(world.fuzz);
	}
	fuzz_plenty(world.fuzz);
	for (i = 0; i < HOLDS; i++)
		cgpu_reference_drop(&world.fuzz->core, &world.hold[i]);
	end_files(&world.fuzz->core);
	for (i = 1; i <= 3; i++) {
		const struct cgpu_managed own = { world.info.slot, world.info.generation, (s32)i, 0, 0, 0 };
		const struct cgpu_managed orphan = { CGPU_ORPHANS, 0, (s32)i, 0, 0, 0 };

		cgpu_managed_ended(&world.fuzz->core, &own);
		cgpu_managed_ended(&world.fuzz->core, &orphan);
	}
	fuzz_check(world.fuzz);
	return 0;
}
