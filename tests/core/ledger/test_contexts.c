// SPDX-License-Identifier: Apache-2.0
/* Charges for contexts of the graphics engine: an estimate for each, as long as its channel group lives. */
#include "rm_structs.h"
#include "slices.h"

#define EACH (96 * MIB)
#define DEVICE 0xd0
#define COPY NV2080_ENGINE_TYPE_COPY0
#define PAGE 65536ull

static struct bench *with_contexts(const char *driver, struct caller *caller)
{
	struct bench *bench = started(driver, caller);

	bench->core.state->settings.context_memory = EACH;
	return bench;
}

static long group_in(struct bench *bench, const struct caller *caller, u32 object, u32 engine, u32 space)
{
	struct channel_ask ask = { 0xc1, DEVICE, object, KEPLER_CHANNEL_GROUP_A, engine, space };

	return bench_channel(bench, caller, &ask);
}

static long group(struct bench *bench, const struct caller *caller, u32 object, u32 engine)
{
	return group_in(bench, caller, object, engine, 0);
}

static long channel(struct bench *bench, const struct caller *caller, u32 parent, u32 object, u32 engine)
{
	struct channel_ask ask = { 0xc1, parent, object, AMPERE_CHANNEL_GPFIFO_A, engine, 0 };

	return bench_channel(bench, caller, &ask);
}

static void space(struct bench *bench, const struct caller *caller, u32 object)
{
	CHECK_EQ(bench_space(bench, caller, 0xc1, DEVICE, object, NV_VASPACE_ALLOCATION_FLAGS_IS_EXTERNALLY_OWNED),
		NV_OK);
}

static u64 charged(struct bench *bench, const struct caller *caller)
{
	bench_invariants(bench->core.state);
	return bench_used(bench, 0, caller->slot);
}

TEST_ON_EACH(groups_of_the_graphics_engine_are_charged, with_contexts(version, &caller), "515.43.04", "535.54.03",
	"580.142", "595.45.04", "615.71.09")
{
	CHECK_EQ(group(bench, &caller, 0x10, NV2080_ENGINE_TYPE_GR0), NV_OK);
	CHECK_EQ(charged(bench, &caller), EACH);
	CHECK(bench_is(bench, "0/a/meminfo", "Free: 6235881472\nPID: 100 Mem: 100663296\n"));
	CHECK_EQ(group(bench, &caller, 0x11, NV2080_ENGINE_TYPE_NULL), NV_OK);
	CHECK_EQ(group(bench, &caller, 0x12, NV2080_ENGINE_TYPE_GR7), NV_OK);
	CHECK_EQ(charged(bench, &caller), 3 * EACH);
	CHECK_EQ(group(bench, &caller, 0x13, COPY), NV_OK);
	CHECK_EQ(charged(bench, &caller), 3 * EACH);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 0x10), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 0x13), NV_OK);
	CHECK_EQ(charged(bench, &caller), 2 * EACH);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, DEVICE), NV_OK);
	CHECK_EQ(charged(bench, &caller), 0);
}

TEST_ON_EACH(channels_outside_of_groups_are_charged, with_contexts(version, &caller), "515.43.04", "535.43.08",
	"535.54.03", "535.86.05", "580.142", "615.71.09")
{
	CHECK_EQ(channel(bench, &caller, DEVICE, 0x20, NV2080_ENGINE_TYPE_GR0), NV_OK);
	CHECK_EQ(charged(bench, &caller), EACH);
	CHECK_EQ(channel(bench, &caller, DEVICE, 0x21, COPY), NV_OK);
	CHECK_EQ(group(bench, &caller, 0x10, NV2080_ENGINE_TYPE_GR0), NV_OK);
	/* Channels of a group share its context. */
	CHECK_EQ(channel(bench, &caller, 0x10, 0x22, NV2080_ENGINE_TYPE_GR0), NV_OK);
	CHECK_EQ(charged(bench, &caller), 2 * EACH);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 0x20), NV_OK);
	CHECK_EQ(charged(bench, &caller), EACH);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 0xc1), NV_OK);
	CHECK_EQ(charged(bench, &caller), 0);
}

TEST_ON(what_the_driver_refuses_is_not_charged, with_contexts("580.142", &caller))
{
	bench->driver_status = NV_ERR_INVALID_ARGUMENT;
	CHECK_EQ(group(bench, &caller, 0x10, NV2080_ENGINE_TYPE_GR0), NV_ERR_INVALID_ARGUMENT);
	CHECK_EQ(charged(bench, &caller), 0);
	bench->driver_status = NV_OK;
	bench->driver_result = -EINTR;
	CHECK_EQ(group(bench, &caller, 0x10, NV2080_ENGINE_TYPE_GR0), -EINTR);
	CHECK_EQ(charged(bench, &caller), 0);
}

TEST_ON(contexts_have_the_limit, with_contexts("580.142", &caller))
{
	struct memory_ask ask = { 0xc1, DEVICE, 5, SLICE - EACH + PAGE, PAGE_BIG, 0, 0, 0, 0 };

	bench->driver_page = PAGE;
	CHECK_EQ(bench_vidmem(bench, &caller, 1, &ask), NV_OK);
	CHECK_EQ(group(bench, &caller, 0x10, NV2080_ENGINE_TYPE_GR0), NV_ERR_NO_MEMORY);
	CHECK_EQ(bench->call.no_room, CGPU_NO_ROOM_LEFT);
	CHECK_EQ(channel(bench, &caller, DEVICE, 0x20, NV2080_ENGINE_TYPE_GR0), NV_ERR_NO_MEMORY);
	CHECK_EQ(group(bench, &caller, 0x11, COPY), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 5), NV_OK);
	CHECK_EQ(group(bench, &caller, 0x10, NV2080_ENGINE_TYPE_GR0), NV_OK);
	CHECK_EQ(bench_vidmem(bench, &caller, 1, &ask), NV_ERR_NO_MEMORY);
	bench_settings(bench, 0, 0);
	CHECK_EQ(bench_vidmem(bench, &caller, 1, &ask), NV_OK);
}

TEST_ON(duplicates_share_the_charge, with_contexts("580.142", &caller))
{
	CHECK_EQ(group(bench, &caller, 0x10, NV2080_ENGINE_TYPE_GR0), NV_OK);
	CHECK_EQ(bench_device(bench, &caller, 0xc2, DEVICE, 0), NV_OK);
	CHECK_EQ(bench_dup(bench, &caller, 0xc2, DEVICE, 0x30, 0xc1, 0x10), NV_OK);
	CHECK_EQ(charged(bench, &caller), EACH);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 0xc1), NV_OK);
	CHECK_EQ(charged(bench, &caller), EACH);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc2, 0x30), NV_OK);
	CHECK_EQ(charged(bench, &caller), 0);
}

/* The numbers of the card that the container's groups and channels have. */
static int has_ids(struct bench *bench, const struct caller *caller, u32 groups, u32 channels)
{
	const struct core_tsg_list *tsg_list;
	u32 number;

	CHECK(core_instance_of(bench->core.state, 0, caller->slot, &number));
	tsg_list = &bench->core.state->gpu[0].share.tsg_list[number];
	bench_invariants(bench->core.state);
	return tsg_list->group_ids == groups && tsg_list->channel_ids == channels;
}

static int retain(struct bench *bench, const struct caller *caller, u32 channel, struct cgpu_reference held[2])
{
	struct cgpu_reference_request request = { .slot = caller->slot,
		.generation = caller->generation,
		.tgid = caller->tgid,
		.client = 0xc1,
		.handle = channel };
	u32 i;
	int err = 0;

	for (i = 0; i < 2 && err == 0; i++) {
		request.to = i ? CGPU_REFERENCE_GROUP : CGPU_REFERENCE_CHANNEL;
		err = cgpu_reference_begin(&bench->core, &request, &held[i]);
		if (err == 0 && held[i].serial)
			CHECK_EQ(cgpu_reference_confirm(&bench->core, &held[i]), 0);
	}
	return err;
}

/* A group that UVM retains stays charged and counted after its end, and once. */
TEST_ON(a_retained_group_stays_charged_and_counted, with_contexts("580.142", &caller))
{
	struct cgpu_reference first[2], second[2], lone[2];

	CHECK_EQ(retain(bench, &caller, 0x20, first), -EPERM);
	CHECK_EQ(group(bench, &caller, 0x10, NV2080_ENGINE_TYPE_GR0), NV_OK);
	CHECK_EQ(channel(bench, &caller, 0x10, 0x20, NV2080_ENGINE_TYPE_GR0), NV_OK);
	CHECK_EQ(channel(bench, &caller, 0x10, 0x21, NV2080_ENGINE_TYPE_GR0), NV_OK);
	CHECK_EQ(channel(bench, &caller, DEVICE, 0x22, COPY), NV_OK);
	CHECK_EQ(retain(bench, &caller, 0x10, lone), -EPERM);
	CHECK_EQ(retain(bench, &caller, 0x20, first), 0);
	CHECK_EQ(retain(bench, &caller, 0x21, second), 0);
	CHECK_EQ(retain(bench, &caller, 0x22, lone), 0);
	CHECK_EQ(lone[1].serial, 0);
	CHECK(has_ids(bench, &caller, 2, 3));
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 0xc1), NV_OK);
	CHECK(has_ids(bench, &caller, 2, 3));
	CHECK_EQ(charged(bench, &caller), EACH);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK(has_ids(bench, &caller, 2, 3));
	cgpu_reference_drop(&bench->core, &first[0]);
	cgpu_reference_drop(&bench->core, &first[1]);
	CHECK(has_ids(bench, &caller, 2, 2));
	CHECK_EQ(charged(bench, &caller), EACH);
	cgpu_reference_drop(&bench->core, &second[0]);
	cgpu_reference_drop(&bench->core, &second[1]);
	CHECK_EQ(charged(bench, &caller), 0);
	CHECK(has_ids(bench, &caller, 1, 1));
	cgpu_reference_drop(&bench->core, &lone[0]);
	CHECK(has_ids(bench, &caller, 0, 0));
}

TEST_ON(charges_survive_a_new_engine, with_contexts("580.142", &caller))
{
	space(bench, &caller, 0x77);
	CHECK_EQ(group_in(bench, &caller, 0x10, NV2080_ENGINE_TYPE_GR0, 0x77), NV_OK);
	CHECK_EQ(channel(bench, &caller, DEVICE, 0x20, NV2080_ENGINE_TYPE_GR0), NV_OK);
	CHECK_EQ(group(bench, &caller, 0x11, COPY), NV_OK);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK_EQ(charged(bench, &caller), 2 * EACH);
	/* Another estimate holds for what comes. */
	bench->core.state->settings.context_memory = 0;
	CHECK_EQ(group(bench, &caller, 0x12, NV2080_ENGINE_TYPE_GR0), NV_OK);
	CHECK_EQ(charged(bench, &caller), 2 * EACH);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 0x77), NV_OK);
	CHECK_EQ(charged(bench, &caller), EACH);
	bench->core.state->settings.context_memory = CORE_BYTES_MAX + 1;
	CHECK_EQ(cgpu_state_recover(bench->core.state), -EINVAL);
}

TEST_ON(groups_hang_below_devices_only, with_contexts("580.142", &caller))
{
	struct channel_ask ask = { 0xc1, 0x10, 0x11, KEPLER_CHANNEL_GROUP_A, NV2080_ENGINE_TYPE_GR0, 0 };
	struct memory_ask memory = { 0xc1, 0x10, 5, MIB, 0, 0, 0, 0, 0 };

	CHECK_EQ(group(bench, &caller, 0x10, NV2080_ENGINE_TYPE_GR0), NV_OK);
	CHECK_EQ(bench_channel(bench, &caller, &ask), NV_ERR_INVALID_OBJECT_PARENT);
	CHECK_EQ(bench_vidmem(bench, &caller, 1, &memory), NV_ERR_INVALID_OBJECT_PARENT);
	ask.parent = 0xd9;
	CHECK_EQ(bench_channel(bench, &caller, &ask), NV_ERR_INVALID_OBJECT_PARENT);
}

/* Return the part of the charges that is in the driver's figure for the process. */
static u64 reported(struct bench *bench, const struct caller *caller)
{
	struct cgpu_process_charge charge = { 0 };
	u32 cursor = 0;

	CHECK_EQ(cgpu_process_next(&bench->core, caller->slot, &cursor, &charge), 0);
	CHECK_EQ(charge.bytes, bench_used(bench, 0, caller->slot));
	return charge.reported;
}

TEST_ON(the_driver_tells_of_no_estimate, with_contexts("580.142", &caller))
{
	struct memory_ask ask = { .client = 0xc1, .parent = DEVICE, .object = 9, .size = MIB, .attr = PAGE_BIG };
	struct cgpu_managed managed = {
		.slot = caller.slot, .generation = caller.generation, .tgid = 100, .bytes = 64 * MIB
	};
	struct cgpu_reference_request request = named(&caller, 9);
	struct cgpu_reference held;

	CHECK_EQ(group(bench, &caller, 1, 0), NV_OK);
	CHECK_EQ(reported(bench, &caller), 0);
	CHECK_EQ(bench_vidmem(bench, &caller, 1, &ask), NV_OK);
	CHECK_EQ(cgpu_managed_set(&bench->core, &managed), 0);
	CHECK_EQ(reported(bench, &caller), MIB);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK_EQ(reported(bench, &caller), MIB);
	/* Memory that UVM alone has is in no client of the process. */
	CHECK_EQ(cgpu_reference_on_file(&bench->core, &request, 7, &held), 0);
	CHECK_EQ(cgpu_reference_confirm(&bench->core, &held), 0);
	CHECK_EQ(reported(bench, &caller), MIB);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 9), NV_OK);
	CHECK_EQ(reported(bench, &caller), 0);
}

/* In a group it needs none; the first buffer then has the rights that are asked for, which are shorter. */
TEST_ON(a_channel_without_parameters_names_no_address_space, with_contexts("580.142", &caller))
{
	const struct nv_abi *abi = bench->core.abi;
	struct rm_ioctl io = rm_alloc_ioctl(abi, VIA_RM64, 0xc1, 0x10, 0x20, AMPERE_CHANNEL_GPFIFO_A, NULL, 0);

	CHECK_EQ(group(bench, &caller, 0x10, NV2080_ENGINE_TYPE_GR0), NV_OK);
	put64(io.data, abi->NVOS64_PARAMETERS.pRightsRequested, 0x1000);
	memcpy(bench->top, io.data, io.bytes);
	CHECK_EQ(bench_call(bench, &caller, io.nr, io.bytes), NV_OK);
	CHECK_EQ(bench->call.segments, 1);
	CHECK_EQ(bench->call.segment[0].bytes, abi->RS_ACCESS_MASK.bytes);
	CHECK_EQ(charged(bench, &caller), EACH);
}

/* Make a channel below a parent with these notifiers; free it again. */
static long notified(struct bench *bench, const struct caller *caller, u32 parent, u32 error, u32 ecc)
{
	long status;

	bench->notifier[0] = error;
	bench->notifier[1] = ecc;
	status = channel(bench, caller, parent, 0x20, COPY);
	bench->notifier[0] = bench->notifier[1] = 0;
	if (status == NV_OK)
		CHECK_EQ(bench_rm_free(bench, caller, 0xc1, 0x20), NV_OK);
	return status;
}

#define HOST 0x51
#define ELSEWHERE 0x52
#define ADDRESSES 0x53
#define DMA 0x54
#define SECOND_DEVICE 0xd8

static struct bench *with_notifiers(const char *driver, struct caller *caller)
{
	struct bench *bench = with_contexts(driver, caller);

	CHECK_EQ(bench_device(bench, caller, 0xc1, SECOND_DEVICE, 0), NV_OK);
	CHECK_EQ(bench_host(bench, caller, 0xc1, DEVICE, HOST), NV_OK);
	CHECK_EQ(bench_host(bench, caller, 0xc1, SECOND_DEVICE, ELSEWHERE), NV_OK);
	bench->named[0].handle = HOST;
	bench->named[0].class = NV01_MEMORY_SYSTEM;
	bench->named[0].parent = DEVICE;
	bench->named[1].handle = ELSEWHERE;
	bench->named[1].class = NV01_MEMORY_SYSTEM;
	bench->named[1].parent = SECOND_DEVICE;
	bench->named[2].handle = ADDRESSES;
	bench->named[2].class = NV50_MEMORY_VIRTUAL;
	bench->named[2].parent = DEVICE;
	bench->named[3].handle = DMA;
	bench->named[3].class = NV01_CONTEXT_DMA;
	bench->named[3].parent = 0xc1;
	return bench;
}

/* The driver reads other notifiers from address 0 (call/notifier.c). */
TEST_ON_EACH(notifiers_are_memory_of_the_channels_device, with_notifiers(version, &caller), "515.43.04", "550.163.01",
	"595.45.04", "615.71.09")
{
	CHECK_EQ(notified(bench, &caller, DEVICE, 0, 0), NV_OK);
	CHECK_EQ(bench->asked, 0);
	CHECK_EQ(notified(bench, &caller, DEVICE, HOST, HOST), NV_OK);
	CHECK_EQ(bench->asked, 2);
	CHECK_EQ(notified(bench, &caller, DEVICE, HOST, DMA), NV_ERR_INVALID_OBJECT_HANDLE);
	CHECK_EQ(notified(bench, &caller, DEVICE, 0, HOST), NV_OK);
	CHECK_EQ(notified(bench, &caller, DEVICE, 0x50, 0), NV_ERR_INVALID_OBJECT_HANDLE);
	CHECK_EQ(notified(bench, &caller, DEVICE, HOST, 0x50), NV_ERR_INVALID_OBJECT_HANDLE);
	CHECK_EQ(notified(bench, &caller, DEVICE, ELSEWHERE, 0), NV_ERR_INVALID_OBJECT_HANDLE);
	CHECK_EQ(notified(bench, &caller, SECOND_DEVICE, ELSEWHERE, 0), NV_OK);
	CHECK_EQ(notified(bench, &caller, DEVICE, ADDRESSES, 0), NV_ERR_INVALID_OBJECT_HANDLE);
	CHECK_EQ(charged(bench, &caller), 0);
	bench_settings(bench, 0, 0);
	CHECK_EQ(notified(bench, &caller, DEVICE, 0x50, 0), NV_OK);
}

TEST_ON(channels_have_the_notifiers_of_their_group, with_notifiers("580.142", &caller))
{
	bench->notifier[0] = 0x50;
	CHECK_EQ(group(bench, &caller, 0x10, COPY), NV_OK);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK_EQ(notified(bench, &caller, 0x10, 0, 0), NV_ERR_INVALID_OBJECT_HANDLE);
	CHECK_EQ(notified(bench, &caller, 0x10, HOST, 0), NV_OK);
	bench->notifier[1] = HOST;
	CHECK_EQ(group(bench, &caller, 0x11, COPY), NV_OK);
	CHECK_EQ(notified(bench, &caller, 0x11, HOST, 0), NV_OK);
	CHECK_EQ(bench->asked, 1 + 1 + 2);
}

/* Memory that the driver has and the ledger has not could be freed unseen. */
TEST_ON(notifiers_have_records, with_notifiers("550.163.01", &caller))
{
	bench->named[0].handle = 0x57;
	CHECK_EQ(notified(bench, &caller, DEVICE, 0x57, 0), NV_ERR_INVALID_OBJECT_HANDLE);
	CHECK_EQ(bench_subdevice(bench, &caller, 0xc1, DEVICE, 0x58), NV_OK);
	CHECK_EQ(bench_host(bench, &caller, 0xc1, 0x58, 0x57), NV_OK);
	CHECK_EQ(notified(bench, &caller, DEVICE, 0x57, 0), NV_ERR_INVALID_OBJECT_HANDLE);
}

/* The driver writes to a notifier by a pointer to which it counts no reference. */
TEST_ON(notifiers_are_freed_after_their_channels, with_notifiers("550.163.01", &caller))
{
	bench->notifier[0] = HOST;
	CHECK_EQ(channel(bench, &caller, DEVICE, 0x20, COPY), NV_OK);
	CHECK_EQ(channel(bench, &caller, DEVICE, 0x21, COPY), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, HOST), NV_ERR_IN_USE);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 0x20), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, HOST), NV_ERR_IN_USE);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 0x21), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, HOST), NV_OK);
}

#define USERD 0x5a

static struct bench *with_userd(const char *driver, struct caller *caller)
{
	struct bench *bench = with_notifiers(driver, caller);

	CHECK_EQ(bench_take(bench, caller, 0xc1, USERD, PAGE), NV_OK);
	bench->named[3].handle = USERD;
	bench->named[3].class = NV01_MEMORY_LOCAL_USER;
	bench->named[3].parent = DEVICE;
	return bench;
}

/* Make a channel below a parent, whose USERD is there; free it again. */
static long polled(struct bench *bench, const struct caller *caller, u32 parent, u32 userd)
{
	long status;

	bench->userd = userd;
	status = channel(bench, caller, parent, 0x20, COPY);
	bench->userd = 0;
	if (status == NV_OK)
		CHECK_EQ(bench_rm_free(bench, caller, 0xc1, 0x20), NV_OK);
	return status;
}

/* The driver takes the address of any memory for one of the channel's card. */
TEST_ON_EACH(
	userd_is_memory_of_the_channels_device, with_userd(version, &caller), "515.43.04", "550.163.01", "595.45.04")
{
	CHECK_EQ(polled(bench, &caller, DEVICE, USERD), NV_OK);
	CHECK_EQ(polled(bench, &caller, DEVICE, HOST), NV_OK);
	CHECK_EQ(polled(bench, &caller, DEVICE, ELSEWHERE), NV_ERR_INVALID_OBJECT_HANDLE);
	CHECK_EQ(polled(bench, &caller, SECOND_DEVICE, ELSEWHERE), NV_OK);
	CHECK_EQ(polled(bench, &caller, SECOND_DEVICE, USERD), NV_ERR_INVALID_OBJECT_HANDLE);
	CHECK_EQ(polled(bench, &caller, DEVICE, ADDRESSES), NV_ERR_INVALID_OBJECT_HANDLE);
	CHECK_EQ(polled(bench, &caller, DEVICE, 0x50), NV_ERR_INVALID_OBJECT_HANDLE);
	CHECK_EQ(group(bench, &caller, 0x10, COPY), NV_OK);
	CHECK_EQ(polled(bench, &caller, 0x10, USERD), NV_OK);
	CHECK_EQ(polled(bench, &caller, 0x10, ELSEWHERE), NV_ERR_INVALID_OBJECT_HANDLE);
}

/* The card itself writes there. */
TEST_ON(userd_is_freed_after_its_channels, with_userd("550.163.01", &caller))
{
	bench->userd = USERD;
	CHECK_EQ(channel(bench, &caller, DEVICE, 0x20, COPY), NV_OK);
	bench->userd = 0;
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, USERD), NV_ERR_IN_USE);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, USERD), NV_ERR_IN_USE);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 0x20), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, USERD), NV_OK);
}

/* A group's notifier is each channel's that has none of its own; with the device all go at once. */
TEST_ON(notifiers_of_a_group_are_freed_after_its_channels, with_notifiers("550.163.01", &caller))
{
	bench->notifier[0] = HOST;
	CHECK_EQ(group(bench, &caller, 0x10, COPY), NV_OK);
	bench->notifier[0] = 0;
	CHECK_EQ(channel(bench, &caller, 0x10, 0x20, COPY), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, HOST), NV_ERR_IN_USE);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, 0x10), NV_OK);
	CHECK_EQ(bench_host(bench, &caller, 0xc1, DEVICE, 0x59), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, HOST), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &caller, 0xc1, DEVICE), NV_OK);
}

/* 550.163.01 reads at NULL for one on a card before Hopper. */
TEST_ON(cards_before_hopper_have_no_encrypted_channel, with_contexts("550.163.01", &caller))
{
	struct channel_ask hopper = { 0xc1, DEVICE, 0x21, HOPPER_CHANNEL_GPFIFO_A, COPY, 0 };

	CHECK_EQ(group(bench, &caller, 0x10, COPY), NV_OK);
	bench->channel_flags = NVOS04_FLAGS_CC_SECURE;
	CHECK_EQ(channel(bench, &caller, DEVICE, 0x20, COPY), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(channel(bench, &caller, 0x10, 0x20, COPY), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(bench_channel(bench, &caller, &hopper), NV_OK);
}
