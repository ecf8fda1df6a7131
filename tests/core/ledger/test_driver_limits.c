// SPDX-License-Identifier: Apache-2.0
/* The driver limits memory by its own count: what the core still judges, and what it tells. */
#include "slices.h"

#define COUNTED (1024 * MIB)

static struct caller caller;
static u64 counted;

static u64 on_driver_used(void *ctx, u32 slot, u32 gpu)
{
	CHECK_EQ(((struct bench *)ctx)->locked, 1);
	return slot == caller.slot && gpu == 0 ? counted : 0;
}

static struct bench *limited(void)
{
	struct bench *bench = started("580.142", &caller);

	counted = COUNTED;
	bench->ops.driver_used = on_driver_used;
	return bench;
}

TEST(allocations_go_on)
{
	struct memory_ask ask = { .client = 0xc1, .parent = 0xd0, .object = 1, .size = 2 * SLICE };
	struct bench *bench = limited();

	CHECK_EQ(bench_vidmem(bench, &caller, 1, &ask), CONTINUED);
	CHECK_EQ(bench_vidmem(bench, &caller, 0, &ask), CONTINUED);
	CHECK_EQ(bench_heap(bench, &caller, &ask), CONTINUED);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
}

/* The driver counts them; the core knows them because it disables their channels. */
TEST(contexts_are_on_record_and_not_charged)
{
	struct channel_ask group = { 0xc1, 0xd0, 1, KEPLER_CHANNEL_GROUP_A, NV2080_ENGINE_TYPE_GR0, 0 };
	struct channel_ask channel = { 0xc1, 1, 2, AMPERE_CHANNEL_GPFIFO_A, NV2080_ENGINE_TYPE_GR0, 0 };
	struct bench *bench = limited();
	u32 objects = bench->core.state->objects;

	bench->core.state->settings.context_memory = 96 * MIB;
	CHECK_EQ(bench_channel(bench, &caller, &group), NV_OK);
	CHECK_EQ(bench_channel(bench, &caller, &channel), NV_OK);
	channel = (struct channel_ask){ 0xc1, 0xd0, 3, AMPERE_CHANNEL_GPFIFO_A, NV2080_ENGINE_TYPE_GR0, 0 };
	CHECK_EQ(bench_channel(bench, &caller, &channel), NV_OK);
	CHECK_EQ(bench->core.state->objects, objects + 3);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
	group.parent = 0xee;
	CHECK_EQ(bench_channel(bench, &caller, &group), NV_ERR_INVALID_OBJECT_PARENT);
}

TEST(cards_stay_judged)
{
	struct memory_ask ask = { .client = 0xc1, .parent = 0xee, .object = 1, .size = MIB };
	struct bench *bench = limited();

	/* Only a device of the container's own card can be the parent. */
	CHECK_EQ(bench_device(bench, &caller, 0xc1, 0xee, 1), NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_EQ(bench_vidmem(bench, &caller, 1, &ask), NV_ERR_INVALID_OBJECT_PARENT);
	CHECK_EQ(bench_heap(bench, &caller, &ask), NV_ERR_INVALID_OBJECT_PARENT);
	CHECK_EQ(bench_class(bench, &caller, 0xdead), NV_ERR_INVALID_CLASS);
}

/* Whatever rights the container has: the driver asks for those of the machine's administrator only. */
TEST(limits_are_not_the_containers_to_set)
{
	struct bench *bench = bench_new("615.71.09");
	const struct nv_layout_NVOS54_PARAMETERS *at = &bench->core.abi->NVOS54_PARAMETERS;

	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:6336544768"), 0);
	caller = bench_caller(bench, "a", 100);
	bench_cuda_start(bench, &caller, 0xc1);
	memset(bench->top, 0, sizeof(bench->top));
	put32(bench->top, at->hClient, 0xc1);
	put32(bench->top, at->hObject, 0xc1);
	put32(bench->top, at->cmd, NV0000_CTRL_OS_UNIX_CMD_MEMACCT_SET_LIMITS);
	put64(bench->top, at->params, OUTSIDE);
	put32(bench->top, at->paramsSize, 24);
	CHECK_EQ(bench_call(bench, &caller, NV_ESC_RM_CONTROL, at->bytes), NV_ERR_INSUFFICIENT_PERMISSIONS);
}

TEST(figures_are_the_drivers)
{
	struct bench *bench = limited();

	CHECK(bench_is(bench, "/0/a/meminfo", "Free: 5262802944\n"));
	counted = 2 * SLICE;
	CHECK(bench_is(bench, "/0/a/meminfo", "Free: 0\n"));
	counted = ~0ull;
	CHECK(bench_is(bench, "/0/a/meminfo", "Free: 0\n"));
}

TEST(memsize_holds_what_is_counted)
{
	struct bench *bench = limited();

	CHECK_EQ(bench_write(bench, "/0/a/memsize", "1073741823"), -EBUSY);
	CHECK_EQ(bench_write(bench, "/0/a/memsize", "1073741824"), 0);
	CHECK(bench_is(bench, "/0/a/meminfo", "Free: 0\n"));
}

TEST(managed_memory_is_counted_here)
{
	struct bench *bench = limited();
	struct cgpu_managed wanted = {
		.slot = caller.slot, .generation = caller.generation, .tgid = 100, .limited = 1
	};
	struct cgpu_instance_info info;

	wanted.bytes = 100 * MIB;
	CHECK_EQ(cgpu_managed_set(&bench->core, &wanted), 0);
	CHECK_EQ(cgpu_instance_info(&bench->core, caller.slot, caller.generation, 0, &info), 0);
	CHECK_EQ(info.memsize, SLICE);
	CHECK_EQ(info.charged, 100 * MIB);
	CHECK(bench_is(bench, "/0/a/meminfo", "Free: 5157945344\nPID: 100 Mem: 104857600\n"));
	wanted.bytes = SLICE + 1;
	CHECK_EQ(cgpu_managed_set(&bench->core, &wanted), -ENOMEM);
	CHECK_EQ(cgpu_instance_info(&bench->core, caller.slot, caller.generation, 1, &info), -ENOENT);
	CHECK_EQ(cgpu_instance_info(&bench->core, caller.slot, caller.generation + 1, 0, &info), -ENOENT);
	CHECK_EQ(cgpu_instance_info(&bench->core, caller.slot, caller.generation, ~0u, &info), -ENOENT);
}

TEST(settings_tell_the_backend)
{
	struct bench *bench = limited();
	struct cgpu_settings settings;

	cgpu_settings_read(&bench->core, &settings);
	CHECK(!strcmp(settings.memory_backend, "core"));
	memcpy(settings.memory_backend, "driver", sizeof("driver"));
	CHECK_EQ(cgpu_settings_apply(&bench->core, &settings), 0);
	CHECK(bench_is(bench, "/engine", "cgpud 0.1.0 driver\n"));
}
