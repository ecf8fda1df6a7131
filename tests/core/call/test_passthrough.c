// SPDX-License-Identifier: Apache-2.0
/* GPUs that a container has whole, beside its slices of others; and cards in MIG mode. */
#include "bench.h"

#define SLICE (1024 * MIB)
#define MIXED "create id=a pid=1 gpu=0:1073741824 native=1"
#define NATIVE 0xe0 /* the device on GPU 1, and its subdevice */
#define NATIVE_SUB 0xe1

static struct caller self;

static struct bench *mixed(void)
{
	struct bench *bench = bench_new("580.142");

	CHECK_EQ(bench_ctl(bench, MIXED), 0);
	self = bench_caller(bench, "a", 100);
	bench_cuda_start(bench, &self, 0xc1);
	CHECK_EQ(bench_device(bench, &self, 0xc1, NATIVE, 1), NV_OK);
	CHECK_EQ(bench_subdevice(bench, &self, 0xc1, NATIVE, NATIVE_SUB), NV_OK);
	return bench;
}

static long take(struct bench *bench, u32 parent, u32 object, u64 size)
{
	struct memory_ask ask = { .client = 0xc1, .parent = parent, .object = object, .size = size };

	return bench_vidmem(bench, &self, 1, &ask);
}

static long control(struct bench *bench, u32 object, u32 cmd, u32 bytes)
{
	return bench_control(bench, &self, 0xc1, object, cmd, bytes);
}

/* An empty slice could grow. */
TEST_ON(a_gpu_with_an_empty_slice_is_not_given_whole, bench_new("580.142"))
{
	CHECK_EQ(bench_ctl(bench, "create id=d pid=2 gpu=1:1"), 0);
	CHECK_EQ(bench_write(bench, "1/d/memsize", "0"), 0);
	CHECK_EQ(bench_ctl(bench, MIXED), -ENOMEM);
	CHECK_EQ(bench_ctl(bench, "destroy id=d"), 0);
	CHECK_EQ(bench_ctl(bench, MIXED), 0);
}

TEST_ON(a_whole_gpu_is_not_limited, mixed())
{
	struct memory_ask heap = { .client = 0xc1, .parent = NATIVE, .object = 3, .size = SLICE };

	CHECK_EQ(take(bench, NATIVE, 1, CARD_BYTES + MIB), NV_OK);
	CHECK_EQ(take(bench, NATIVE_SUB, 2, SLICE + 2 * MIB), NV_OK);
	CHECK_EQ(bench_heap(bench, &self, &heap), NV_OK);
	CHECK_EQ(bench_used(bench, 0, self.slot), 0);
	CHECK_EQ(bench->core.state->gpu[1].passthrough, CARD_BYTES + 2 * SLICE + 3 * MIB);
	CHECK(bench_is(bench, "0/a/meminfo", "Free: 1073741824\n"));
	CHECK_EQ(take(bench, 0xd0, 4, SLICE), NV_OK);
	CHECK_EQ(take(bench, 0xd0, 5, 1), NV_ERR_NO_MEMORY);
	CHECK_EQ(take(bench, NATIVE, 6, 1), NV_OK);
	/* The driver rounds as it likes. */
	bench->driver_size = 2 * CARD_BYTES;
	CHECK_EQ(take(bench, NATIVE, 7, 1), NV_OK);
	CHECK_EQ(bench->undone, 0);
	CHECK_EQ(bench_rm_free(bench, &self, 0xc1, NATIVE), NV_OK);
	CHECK_EQ(bench->core.state->gpu[1].passthrough, 0);
	CHECK_EQ(bench_used(bench, 0, self.slot), SLICE);
}

TEST_ON(only_what_was_granted_is_reached, mixed())
{
	struct cgpu_gpu_facts facts = {
		.index = 2, .minor = 2, .device_instance = 2, .memtotal = MIB, .uuid = "GPU-2"
	};
	struct caller other = self;

	CHECK_EQ(cgpu_gpu_add(&bench->core, &facts), 0);
	CHECK_EQ(bench_device(bench, &self, 0xc1, 0xf0, 2), NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK(cgpu_minor_granted(&bench->core, self.slot, self.generation, 0));
	CHECK(cgpu_minor_granted(&bench->core, self.slot, self.generation, 1));
	CHECK(!cgpu_minor_granted(&bench->core, self.slot, self.generation, 2));
	CHECK(!cgpu_minor_granted(&bench->core, self.slot, self.generation, 200));
	CHECK(!cgpu_minor_granted(&bench->core, self.slot, self.generation + 1, 0));
	bench_settings(bench, 0, 0);
	CHECK(cgpu_minor_granted(&bench->core, self.slot, self.generation, 2));
	bench_settings(bench, 1, 0);
	CHECK_EQ(cgpu_container_gpus(&bench->core, self.slot, self.generation), 1);
	other.device = CGPU_DEVICE_GPU;
	other.gpu = 1;
	CHECK_EQ(bench_call(bench, &other, NV_ESC_CARD_INFO, 64), CONTINUED);
	other.gpu = 2;
	CHECK_EQ(bench_call(bench, &other, NV_ESC_CARD_INFO, 64), -EPERM);
	/* The next one in its place has nothing of it. */
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=b pid=1 gpu=0:1"), 0);
	other = bench_caller(bench, "b", 100);
	CHECK_EQ(other.slot, self.slot);
	CHECK(!cgpu_minor_granted(&bench->core, other.slot, other.generation, 1));
	CHECK_EQ(bench_device(bench, &other, 0xc2, NATIVE, 1), NV_ERR_INSUFFICIENT_PERMISSIONS);
}

TEST_ON(sizes_of_a_whole_gpu_are_the_cards, mixed())
{
	const struct nv_abi *abi = bench->core.abi;
	u32 bytes = abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS.bytes,
	    at = abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS.fbInfoList;
	u8 *params = bench->segment[0];

	memset(params, 0, bytes);
	put32(params, 0, 1);
	put32(params, at, NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE);
	put32(params, at + 4, CARD_BYTES >> 10);
	CHECK_EQ(control(bench, NATIVE_SUB, NV2080_CTRL_CMD_FB_GET_INFO_V2, bytes), NV_OK);
	CHECK_EQ(get32(params, at + 4), CARD_BYTES >> 10);
	CHECK_EQ(control(bench, 0xd1, NV2080_CTRL_CMD_FB_GET_INFO_V2, bytes), NV_OK);
	CHECK_EQ(get32(params, at + 4), SLICE >> 10);
	/* Other containers' processes are not shown there either. */
	memset(params, 0, abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS.bytes);
	put32(params, abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS.pidTblCount, 1);
	put32(params, abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS.pidTbl, 4711);
	bench->core.abi = cgpu_abi_find("535.54.03");
	CHECK_EQ(control(bench, NATIVE_SUB, NV2080_CTRL_CMD_GPU_GET_PIDS, abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS.bytes),
		NV_OK);
	CHECK_EQ(get32(params, abi->NV2080_CTRL_GPU_GET_PIDS_PARAMS.pidTblCount), 0);
}

TEST_ON(dups_take_their_charge_along, mixed())
{
	CHECK_EQ(take(bench, NATIVE, 1, SLICE), NV_OK);
	CHECK_EQ(take(bench, 0xd0, 2, SLICE / 2), NV_OK);
	/* The duplicate's charge stays, whatever it hangs below. */
	CHECK_EQ(bench_dup(bench, &self, 0xc1, 0xd0, 3, 0xc1, 1), NV_OK);
	CHECK_EQ(bench_dup(bench, &self, 0xc1, NATIVE, 4, 0xc1, 2), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &self, 0xc1, 1), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &self, 0xc1, 2), NV_OK);
	CHECK_EQ(bench_used(bench, 0, self.slot), SLICE / 2);
	CHECK_EQ(bench->core.state->gpu[1].passthrough, SLICE);
	CHECK_EQ(take(bench, 0xd0, 5, SLICE), NV_ERR_NO_MEMORY);
	CHECK_EQ(bench_rm_free(bench, &self, 0xc1, 4), NV_OK);
	CHECK_EQ(bench_used(bench, 0, self.slot), 0);
	CHECK_EQ(bench_rm_free(bench, &self, 0xc1, 0xd0), NV_OK);
	CHECK_EQ(bench->core.state->gpu[1].passthrough, 0);
}

TEST_ON(exports_take_their_charge_along, mixed())
{
	bench->target = 7;
	CHECK_EQ(take(bench, NATIVE, 1, SLICE), NV_OK);
	CHECK_EQ(take(bench, 0xd0, 2, SLICE), NV_OK);
	CHECK_EQ(bench_export(bench, &self, 0xc1, 1), NV_OK);
	CHECK_EQ(bench_import(bench, &self, 0xc1, 0xd0, 3), NV_OK);
	CHECK_EQ(bench_used(bench, 0, self.slot), SLICE);
	bench->target = 8;
	CHECK_EQ(bench_export(bench, &self, 0xc1, 2), NV_OK);
	CHECK_EQ(bench_rm_free(bench, &self, 0xc1, 2), NV_OK);
	CHECK_EQ(bench_import(bench, &self, 0xc1, NATIVE, 4), NV_OK);
	cgpu_file_closed(&bench->core, 8);
	CHECK_EQ(bench_used(bench, 0, self.slot), SLICE);
	CHECK_EQ(bench_rm_free(bench, &self, 0xc1, 4), NV_OK);
	CHECK_EQ(bench_used(bench, 0, self.slot), 0);
	CHECK_EQ(bench->core.state->gpu[1].passthrough, SLICE);
}

TEST_ON(managed_memory_counts_on_slices, mixed())
{
	struct cgpu_managed wanted = {
		.slot = self.slot, .generation = self.generation, .tgid = 100, .limited = 1, .bytes = SLICE
	};
	struct cgpu_reference_request request = {
		.slot = self.slot, .generation = self.generation, .tgid = 100, .gpu = 1, .bytes = MIB
	};
	struct cgpu_reference reference;

	CHECK_EQ(cgpu_managed_set(&bench->core, &wanted), 0);
	CHECK_EQ(bench_used(bench, 0, self.slot), SLICE);
	CHECK_EQ(bench->core.state->gpu[1].passthrough, 0);
	wanted.bytes += MIB;
	CHECK_EQ(cgpu_managed_set(&bench->core, &wanted), -ENOMEM);
	CHECK_EQ(cgpu_reference_charge(&bench->core, &request, &reference), -ENOENT);
}

/* The ledger has UVM's mappings of a whole GPU's memory, charged to no container. */
TEST_ON(holds_of_a_whole_gpu_are_kept, mixed())
{
	struct cgpu_reference_request request = {
		.slot = self.slot, .generation = self.generation, .tgid = 100, .client = 0xc1, .handle = 1
	};
	struct cgpu_reference reference;

	CHECK_EQ(take(bench, NATIVE, 1, SLICE), NV_OK);
	CHECK_EQ(cgpu_reference_begin(&bench->core, &request, &reference), 0);
	CHECK_EQ(cgpu_reference_confirm(&bench->core, &reference), 0);
	CHECK_EQ(bench_rm_free(bench, &self, 0xc1, 1), NV_OK);
	CHECK_EQ(bench->core.state->gpu[1].passthrough, SLICE);
	CHECK_EQ(bench_used(bench, 0, self.slot), 0);
	cgpu_reference_drop(&bench->core, &reference);
	CHECK_EQ(bench->core.state->gpu[1].passthrough, 0);
}

TEST_ON(it_outlives_the_engine, mixed())
{
	struct cgpu_state *copy = malloc(cgpu_state_bytes());

	CHECK_EQ(take(bench, NATIVE, 1, SLICE), NV_OK);
	CHECK_EQ(take(bench, 0xd0, 2, MIB), NV_OK);
	CHECK_EQ(cgpu_gpu_set_mig(&bench->core, 1, 1), 0);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	bench_invariants(bench->core.state);
	CHECK_EQ(cgpu_state_convert(copy, bench->core.state), 0);
	free(bench->core.state);
	bench->core.state = copy;
	CHECK_EQ(bench->core.state->gpu[1].passthrough, SLICE);
	CHECK_EQ(bench_used(bench, 0, self.slot), MIB);
	CHECK(bench_is(bench, "1/natives", "1\n") && bench_is(bench, "1/mig", "1\n"));
	CHECK_EQ(take(bench, NATIVE, 3, CARD_BYTES + MIB), NV_OK);
	CHECK_EQ(take(bench, 0xd0, 4, SLICE), NV_ERR_NO_MEMORY);
	/* Memory that is kept elsewhere is missing on the card, whichever container had it. */
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(cgpu_gpu_orphaned(&bench->core, 1), SLICE + CARD_BYTES + MIB);
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	bench_orphans_gone(bench);
	CHECK_EQ(bench->core.state->objects, 0);
}

/* A damaged state gives no container more. */
TEST_ON(whole_and_sliced_at_once_is_not_believed, mixed())
{
	CHECK_EQ(take(bench, NATIVE, 1, SLICE), NV_OK);
	bench->core.state->container[self.slot].passthrough = ~0u;
	bench->core.state->gpu[1].mig = 77;
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK_EQ(bench->core.state->container[self.slot].passthrough, 2);
	CHECK_EQ(bench->core.state->gpu[1].mig, 1);
	bench->core.state->container[self.slot].passthrough = 0;
	CHECK_EQ(cgpu_state_recover(bench->core.state), 0);
	CHECK_EQ(bench->core.state->gpu[1].passthrough, 0);
	CHECK_EQ(take(bench, NATIVE, 2, MIB), NV_ERR_INSUFFICIENT_PERMISSIONS);
}

static u32 asked;

static void driver_says_mig(void *ctx, u32 gpus)
{
	struct bench *bench = ctx;

	CHECK_EQ(bench->locked, 0);
	asked |= gpus;
	CHECK_EQ(cgpu_gpu_set_mig(&bench->core, 1, 1), 0);
}

TEST_ON(cards_in_mig_mode_are_not_sliced, bench_new("580.142"))
{
	CHECK(bench_is(bench, "1/mig", "0\n"));
	CHECK_EQ(bench_ctl(bench, "create id=before pid=1 gpu=1:1"), 0);
	/* MIG was switched on since the engine has looked. */
	bench->ops.cards = driver_says_mig;
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=1:1:99 gpu=9:1"), -EINVAL);
	CHECK_EQ(asked, 0);
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=1:1 gpu=9:1"), -ENOENT);
	CHECK_EQ(asked, 2);
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1 gpu=1:99999999999"), -EOPNOTSUPP);
	CHECK_EQ(asked, 3);
	CHECK(bench_is(bench, "1/mig", "1\n"));
	CHECK_EQ(bench_ctl(bench, "destroy id=before"), 0);
	CHECK_EQ(bench_ctl(bench, "create id=a pid=1 gpu=0:1 native=1"), 0);
	CHECK_EQ(cgpu_gpu_set_mig(&bench->core, 9, 1), -ENOENT);
}

TEST_ON(mig_is_used_but_not_configured, mixed())
{
	static const u32 refused[] = { NV2080_CTRL_CMD_GPU_SET_PARTITIONS, NV2080_CTRL_CMD_GPU_CONFIGURE_PARTITION,
		NV2080_CTRL_CMD_GPU_SET_PARTITIONING_MODE, NVC637_CTRL_CMD_EXEC_PARTITIONS_CREATE,
		NVC637_CTRL_CMD_EXEC_PARTITIONS_DELETE };
	u32 i;

	for (i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		CHECK_EQ(control(bench, 0xd1, refused[i], 64), NV_ERR_INSUFFICIENT_PERMISSIONS);
		CHECK_EQ(control(bench, NATIVE_SUB, refused[i], 64), NV_ERR_INSUFFICIENT_PERMISSIONS);
	}
	CHECK_EQ(bench_class_below(bench, &self, NATIVE_SUB, AMPERE_SMC_PARTITION_REF), CONTINUED);
	CHECK_EQ(bench_class_below(bench, &self, 0x77, AMPERE_SMC_EXEC_PARTITION_REF), CONTINUED);
	CHECK_EQ(bench_class_below(bench, &self, 0xd1, AMPERE_SMC_PARTITION_REF), NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_EQ(bench_class_below(bench, &self, 0x55, AMPERE_SMC_PARTITION_REF), NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_EQ(bench_class_below(bench, &self, 0xc1, AMPERE_SMC_CONFIG_SESSION), NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_EQ(bench_class_below(bench, &self, 0xc1, AMPERE_SMC_MONITOR_SESSION), NV_ERR_INSUFFICIENT_PERMISSIONS);
}

TEST_ON(data_that_the_driver_shares_is_that_of_a_whole_gpu, mixed())
{
	CHECK_EQ(bench_class_below(bench, &self, 0xd1, RM_USER_SHARED_DATA), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(bench_class_below(bench, &self, NATIVE_SUB, RM_USER_SHARED_DATA), CONTINUED);
}
