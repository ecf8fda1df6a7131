// SPDX-License-Identifier: Apache-2.0
/* The driver limits memory by its own count: what the core still judges, and what it tells. */
#include "slices.h"

#define COUNTED (1024 * MIB)

static struct caller self;
static u64 counted;

static u64 on_driver_used(void *ctx, u32 slot, u32 gpu)
{
	CHECK_EQ(((struct bench *)ctx)->locked, 1);
	return slot == self.slot && gpu == 0 ? counted : 0;
}

static struct bench *limited(void)
{
	struct bench *bench = started("580.142", &self);

	counted = COUNTED;
	bench->ops.driver_used = on_driver_used;
	return bench;
}

TEST_ON(allocations_go_on, limited())
{
	struct memory_ask ask = { .client = 0xc1, .parent = 0xd0, .object = 1, .size = 2 * SLICE };

	CHECK_EQ(bench_vidmem(bench, &self, 1, &ask), CONTINUED);
	CHECK_EQ(bench_vidmem(bench, &self, 0, &ask), CONTINUED);
	CHECK_EQ(bench_heap(bench, &self, &ask), CONTINUED);
	CHECK_EQ(bench_used(bench, 0, self.slot), 0);
}

/* The driver counts them; the core knows them because it disables their channels. */
TEST_ON(contexts_are_on_record_and_not_charged, limited())
{
	struct channel_ask group = { 0xc1, 0xd0, 1, KEPLER_CHANNEL_GROUP_A, NV2080_ENGINE_TYPE_GR0, 0 };
	struct channel_ask channel = { 0xc1, 1, 2, AMPERE_CHANNEL_GPFIFO_A, NV2080_ENGINE_TYPE_GR0, 0 };
	u32 objects = bench->core.state->objects;

	bench->core.state->settings.context_memory = 96 * MIB;
	CHECK_EQ(bench_channel(bench, &self, &group), NV_OK);
	CHECK_EQ(bench_channel(bench, &self, &channel), NV_OK);
	channel = (struct channel_ask){ 0xc1, 0xd0, 3, AMPERE_CHANNEL_GPFIFO_A, NV2080_ENGINE_TYPE_GR0, 0 };
	CHECK_EQ(bench_channel(bench, &self, &channel), NV_OK);
	CHECK_EQ(bench->core.state->objects, objects + 3);
	CHECK_EQ(bench_used(bench, 0, self.slot), 0);
	group.parent = 0xee;
	CHECK_EQ(bench_channel(bench, &self, &group), NV_ERR_INVALID_OBJECT_PARENT);
}

TEST_ON(cards_stay_judged, limited())
{
	struct memory_ask ask = { .client = 0xc1, .parent = 0xee, .object = 1, .size = MIB };

	/* Only a device of the container's own card can be the parent. */
	CHECK_EQ(bench_device(bench, &self, 0xc1, 0xee, 1), NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_EQ(bench_vidmem(bench, &self, 1, &ask), NV_ERR_INVALID_OBJECT_PARENT);
	CHECK_EQ(bench_heap(bench, &self, &ask), NV_ERR_INVALID_OBJECT_PARENT);
	CHECK_EQ(bench_class(bench, &self, 0xdead), NV_ERR_INVALID_CLASS);
}

/* Whatever rights the container has: the driver asks for those of the machine's administrator only. */
TEST_ON(limits_are_not_the_containers_to_set, started("615.71.09", &caller))
{
	CHECK_EQ(bench_control(bench, &caller, FIRST, FIRST, NV0000_CTRL_OS_UNIX_CMD_MEMACCT_SET_LIMITS, 24),
		NV_ERR_INSUFFICIENT_PERMISSIONS);
}

TEST_ON(figures_are_the_drivers, limited())
{
	CHECK(bench_is(bench, "/0/a/meminfo", "Free: 5262802944\n"));
	counted = 2 * SLICE;
	CHECK(bench_is(bench, "/0/a/meminfo", "Free: 0\n"));
	counted = ~0ull;
	CHECK(bench_is(bench, "/0/a/meminfo", "Free: 0\n"));
}

TEST_ON(memsize_holds_what_is_counted, limited())
{
	CHECK_EQ(bench_write(bench, "/0/a/memsize", "1073741823"), -EBUSY);
	CHECK_EQ(bench_write(bench, "/0/a/memsize", "1073741824"), 0);
	CHECK(bench_is(bench, "/0/a/meminfo", "Free: 0\n"));
}

TEST_ON(managed_memory_is_counted_here, limited())
{
	struct cgpu_managed wanted = { .slot = self.slot, .generation = self.generation, .tgid = 100, .limited = 1 };
	struct cgpu_instance_info info;

	wanted.bytes = 100 * MIB;
	CHECK_EQ(cgpu_managed_set(&bench->core, &wanted), 0);
	CHECK_EQ(cgpu_instance_info(&bench->core, self.slot, self.generation, 0, &info), 0);
	CHECK_EQ(info.memsize, SLICE);
	CHECK_EQ(info.charged, 100 * MIB);
	CHECK(bench_is(bench, "/0/a/meminfo", "Free: 5157945344\nPID: 100 Mem: 104857600\n"));
	wanted.bytes = SLICE + 1;
	CHECK_EQ(cgpu_managed_set(&bench->core, &wanted), -ENOMEM);
	CHECK_EQ(cgpu_instance_info(&bench->core, self.slot, self.generation, 1, &info), -ENOENT);
	CHECK_EQ(cgpu_instance_info(&bench->core, self.slot, self.generation + 1, 0, &info), -ENOENT);
	CHECK_EQ(cgpu_instance_info(&bench->core, self.slot, self.generation, ~0u, &info), -ENOENT);
}

TEST_ON(settings_tell_the_backend, limited())
{
	struct cgpu_settings settings;

	cgpu_settings_read(&bench->core, &settings);
	CHECK(!strcmp(settings.memory_backend, "core"));
	memcpy(settings.memory_backend, "driver", sizeof("driver"));
	CHECK_EQ(cgpu_settings_apply(&bench->core, &settings), 0);
	CHECK(bench_is(bench, "/engine", "cgpud 0.1.0 driver\n"));
}
