// SPDX-License-Identifier: Apache-2.0
/* VA spaces: each has its true parent, so that channel groups end in the ledger when they end in the driver. */
#include "slices.h"

#define EACH (96 * MIB)
#define DEVICE 0xd0
#define OTHER_DEVICE 0xd8
#define SPACE 0x77

/* Slices of two cards, and a device of each. */
static struct bench *on_two_cards(struct caller *caller)
{
	struct bench *bench = bench_new("550.163.01");

	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1073741824 gpu=1:1073741824"), 0);
	*caller = bench_caller(bench, "a", 100);
	bench_cuda_start(bench, caller, FIRST);
	CHECK_EQ(bench_device(bench, caller, FIRST, OTHER_DEVICE, 1), NV_OK);
	bench->core.state->settings.context_memory = EACH;
	return bench;
}

static long group_in(struct bench *bench, const struct caller *caller, u32 parent, u32 object, u32 space)
{
	struct channel_ask ask = { FIRST, parent, object, KEPLER_CHANNEL_GROUP_A, NV2080_ENGINE_TYPE_GR0, space };

	return bench_channel(bench, caller, &ask);
}

static u32 groups(const struct bench *bench, u32 gpu)
{
	return bench->core.state->gpu[gpu].share.tsg_list[0].groups;
}

/* The third attack had a space below the device of the first group that named it: the end of that device took the charges and
 * the records of groups that lived on. */
TEST_ON(a_group_does_not_end_with_the_device_of_another_card, on_two_cards(&caller))
{
	CHECK_EQ(bench_space(bench, &caller, FIRST, DEVICE, SPACE, 0), NV_OK);
	CHECK_EQ(group_in(bench, &caller, OTHER_DEVICE, 0x800, SPACE), NV_ERR_INVALID_DEVICE);
	CHECK_EQ(group_in(bench, &caller, DEVICE, 0x801, SPACE), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, OTHER_DEVICE), NV_OK);
	CHECK_EQ(groups(bench, 0), 1);
	CHECK(bench_used(bench, 0, caller.slot) >= EACH);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, DEVICE), NV_OK);
	CHECK_EQ(groups(bench, 0), 0);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
}

TEST_ON(a_space_that_is_not_there_is_answered_as_the_driver_would, on_two_cards(&caller))
{
	struct channel_ask channel = { FIRST, DEVICE, 0x20, AMPERE_CHANNEL_GPFIFO_A, NV2080_ENGINE_TYPE_GR0, SPACE };

	CHECK_EQ(group_in(bench, &caller, DEVICE, 0x800, SPACE), NV_ERR_OBJECT_NOT_FOUND);
	CHECK_EQ(bench_channel(bench, &caller, &channel), NV_ERR_OBJECT_NOT_FOUND);
	CHECK_EQ(group_in(bench, &caller, DEVICE, 0x800, 0xd1), NV_ERR_INVALID_OBJECT_HANDLE);
	CHECK_EQ(bench_space(bench, &caller, FIRST, 0x99, SPACE, 0), NV_ERR_INVALID_OBJECT_PARENT);
	CHECK_EQ(groups(bench, 0), 0);
}

/* A duplicate is a space of its own, which others may name as well. */
TEST_ON(a_duplicate_of_a_space_has_its_own_parent, on_two_cards(&caller))
{
	CHECK_EQ(bench_space(bench, &caller, FIRST, DEVICE, SPACE, 0), NV_OK);
	CHECK_EQ(bench_device(bench, &caller, SECOND, DEVICE, 0), NV_OK);
	CHECK_EQ(bench_dup(bench, &caller, SECOND, DEVICE, 0x78, FIRST, SPACE), NV_OK);
	CHECK_EQ(bench_channel(bench, &caller,
			 &(struct channel_ask){ SECOND, DEVICE, 0x800, KEPLER_CHANNEL_GROUP_A, 0, 0x78 }),
		NV_OK);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, SPACE), NV_OK);
	CHECK_EQ(groups(bench, 0), 1);
	CHECK_EQ(bench_rm_free(bench, &caller, SECOND, 0x78), NV_OK);
	CHECK_EQ(groups(bench, 0), 0);
}

/* While the driver made the group another thread has freed the space: the group counts below its device. */
static void at_group(struct bench *bench)
{
	struct cgpu_state *state = bench->core.state;

	bench->at_execute = NULL;
	core_object_drop(state, core_object_find(state, core_client_find(state, 0, FIRST), SPACE));
}

TEST_ON(a_space_that_goes_meanwhile_takes_no_charge_along, on_two_cards(&caller))
{
	CHECK_EQ(bench_space(bench, &caller, FIRST, DEVICE, SPACE, 0), NV_OK);
	bench->at_execute = at_group;
	CHECK_EQ(group_in(bench, &caller, DEVICE, 0x800, SPACE), NV_OK);
	CHECK_EQ(groups(bench, 0), 1);
	CHECK_EQ(bench_rm_free(bench, &caller, FIRST, DEVICE), NV_OK);
	CHECK_EQ(groups(bench, 0), 0);
}
