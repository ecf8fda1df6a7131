// SPDX-License-Identifier: Apache-2.0
/* Which calls go where. */
#include "slices.h"

TEST_ON(parents_must_be_known, sliced("580.142", &caller))
{
	struct memory_ask ask = { .client = 0xc1, .parent = 0xd9, .object = 5, .size = MIB };

	CHECK_EQ(bench_subdevice(bench, &caller, 0xc1, 0xd0, 0xd1), NV_ERR_INVALID_OBJECT_PARENT);
	CHECK_EQ(bench_vidmem(bench, &caller, 1, &ask), NV_ERR_INVALID_OBJECT_PARENT);
	bench_cuda_start(bench, &caller, 0xc1);
	CHECK_EQ(bench_vidmem(bench, &caller, 1, &ask), NV_ERR_INVALID_OBJECT_PARENT);
	CHECK_EQ(bench_heap(bench, &caller, &ask), NV_ERR_INVALID_OBJECT_PARENT);
	CHECK_EQ(take(bench, &caller, 5, MIB), NV_OK);
	ask.parent = 5;
	CHECK_EQ(bench_vidmem(bench, &caller, 1, &ask), NV_ERR_INVALID_OBJECT_PARENT);
	CHECK_EQ(bench_device(bench, &caller, 0xc1, 0xe0, 1), NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_EQ(bench_device(bench, &caller, 0xc1, 0xe0, 77), NV_ERR_INSUFFICIENT_PERMISSIONS);
}

TEST_ON(nodes_that_were_not_granted_are_closed, sliced("580.142", &caller))
{
	caller.device = CGPU_DEVICE_GPU;
	CHECK_EQ(bench_call(bench, &caller, NV_ESC_CARD_INFO, 72), CONTINUED);
	caller.gpu = 1;
	CHECK_EQ(bench_call(bench, &caller, NV_ESC_CARD_INFO, 72), -EPERM);
	caller.gpu = 4000;
	CHECK_EQ(bench_call(bench, &caller, 1, 4), -EPERM);
	caller.device = CGPU_DEVICE_UVM;
	CHECK_EQ(bench_call(bench, &caller, 33, 0), CONTINUED);
	caller.device = CGPU_DEVICE_OTHER;
	CHECK_EQ(bench_call(bench, &caller, 0, 0), -EPERM);
}

TEST_ON(sizes_and_denied_escapes, sliced("580.142", &caller))
{
	static const u32 known[] = { NV_ESC_RM_ALLOC, NV_ESC_RM_ALLOC_MEMORY, NV_ESC_RM_ALLOC_OBJECT,
		NV_ESC_RM_VID_HEAP_CONTROL, NV_ESC_RM_CONTROL, NV_ESC_RM_DUP_OBJECT, NV_ESC_RM_SHARE, NV_ESC_RM_FREE };
	static const u32 denied[] = { NV_ESC_RM_CONFIG_GET, NV_ESC_RM_CONFIG_SET, NV_ESC_RM_CONFIG_GET_EX,
		NV_ESC_RM_CONFIG_SET_EX, NV_ESC_RM_I2C_ACCESS, NV_ESC_RM_ACCESS_REGISTRY, NV_ESC_RM_ADD_VBLANK_CALLBACK,
		NV_ESC_RM_LOCKLESS_DIAGNOSTIC, NV_ESC_SET_NUMA_STATUS, NV_ESC_EXPORT_TO_DMABUF_FD,
		NV_ESC_RM_EXPORT_OBJECT_TO_FD, NV_ESC_RM_IMPORT_OBJECT_FROM_FD, NV_ESC_IOCTL_XFER_CMD };
	size_t i;
	u32 size;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		for (size = 0; size < 12; size++)
			CHECK_EQ(bench_call(bench, &caller, known[i], size), -EINVAL);
		CHECK_EQ(bench_call(bench, &caller, known[i], 185), -EINVAL);
	}
	for (i = 0; i < sizeof(denied) / sizeof(denied[0]); i++)
		CHECK_EQ(bench_call(bench, &caller, denied[i], 64), -EINVAL);
	CHECK_EQ(bench_call(bench, &caller, NV_ESC_RM_MAP_MEMORY, 56), CONTINUED);
}

TEST_ON(escapes_that_nobody_knows_are_refused, sliced("580.142", &caller))
{
	struct caller other = neighbour(bench);
	u32 nr, passed = 0, logged = bench->logged;

	CHECK_EQ(bench_call(bench, &caller, 219, 16), -EINVAL);
	CHECK(strcmp(bench->log,
		      "container a: driver escape 219 is none of those that are let through and was refused") == 0);
	CHECK_EQ(bench_call(bench, &caller, 219, 16), -EINVAL);
	CHECK_EQ(bench->logged, logged + 1);
	CHECK_EQ(bench_call(bench, &other, 219, 16), -EINVAL);
	CHECK_EQ(bench->logged, logged + 2);
	CHECK_EQ(bench_call(bench, &caller, NV_ESC_EXPORT_TO_DMABUF_FD, 2096), -EINVAL);
	CHECK(strcmp(bench->log,
		      "container a: driver escape 217 exports a dma-buf, which is not charged here, and was refused") ==
		0);
	CHECK_EQ(bench_call(bench, &caller, NV_ESC_EXPORT_TO_DMABUF_FD, 2096), -EINVAL);
	CHECK_EQ(bench->logged, logged + 3);
	/* The driver takes the low byte; a transport that hands on more gets no further. */
	CHECK_EQ(bench_call(bench, &caller, 0x100002a, 32), -EINVAL);
	CHECK_EQ(bench_call(bench, &caller, 0xffffffff, 32), -EINVAL);
	for (nr = 0; nr < 1024; nr++)
		passed += bench_call(bench, &caller, nr, 3) == CONTINUED;
	CHECK_EQ(passed, 18);
	CHECK_EQ(bench->logged, logged + 17);
}

TEST_ON(classes_by_what_they_hold, sliced("580.142", &caller))
{
	/* Parameters that ask for memory of the card, and of the caller's own pages. */
	CHECK_EQ(bench_class(bench, &caller, NV01_MEMORY_SYSTEM), NV_ERR_INVALID_ARGUMENT);
	CHECK_EQ(bench_class(bench, &caller, NV01_MEMORY_SYSTEM_OS_DESCRIPTOR), CONTINUED);
	CHECK_EQ(bench_class(bench, &caller, NV01_MEMORY_VIRTUAL), NV_ERR_INVALID_OBJECT_PARENT);
	CHECK_EQ(bench_class(bench, &caller, AMPERE_CHANNEL_GPFIFO_A), NV_ERR_INVALID_OBJECT_PARENT);
	CHECK_EQ(bench_class(bench, &caller, NV01_MEMORY_LOCAL_PHYSICAL), NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_EQ(bench_class(bench, &caller, NV_MEMORY_FABRIC), NV_ERR_NOT_SUPPORTED);
	CHECK(strcmp(bench->log,
		      "container a: driver class NV_MEMORY_FABRIC keeps memory in a way that is not charged here and "
		      "was refused") == 0);
}

/* The driver duplicates what a surface is made of, and gives it out again. */
TEST_ON(surfaces_of_host_memory_only, sliced("580.142", &caller))
{
	struct memory_ask ask = { .client = 0xc1, .parent = 0xd0, .object = 3, .size = MIB };
	struct bench *older;

	bench_cuda_start(bench, &caller, 0xc1);
	CHECK_EQ(bench_vidmem(bench, &caller, 1, &ask), NV_OK);
	CHECK_EQ(bench_surface(bench, &caller, 0xc1, 3, 0), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(bench_surface(bench, &caller, 0xc1, 4, 3), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(bench_surface(bench, &caller, 0xc1, 4, 0), NV_OK);
	CHECK_EQ(bench->verdict, CGPU_EXECUTE);
	bench_settings(bench, 0, 0);
	CHECK_EQ(bench_surface(bench, &caller, 0xc1, 3, 0), CONTINUED);
	bench_free(bench);
	/* The older driver has no such class yet. */
	older = sliced("530.41.03", &caller);
	CHECK_EQ(bench_class(older, &caller, NV_SEMAPHORE_SURFACE), NV_ERR_INVALID_CLASS);
	bench_free(older);
}

TEST_ON(heap_functions, sliced("580.142", &caller))
{
	static const struct {
		u32 function;
		long result;
	} rows[] = { { 0, NV_ERR_NOT_SUPPORTED }, { 6, NV_ERR_INVALID_OBJECT_PARENT },
		{ 14, NV_ERR_INVALID_OBJECT_PARENT }, { 15, CONTINUED }, { 16, CONTINUED }, { 18, CONTINUED },
		{ 19, NV_ERR_NOT_SUPPORTED }, { 27, CONTINUED }, { 5, NV_ERR_INVALID_OBJECT_PARENT } };
	const struct nv_layout_NVOS32_PARAMETERS *at;
	struct memory_ask ask = { .client = 0xc1, .parent = 0xd0, .object = 3, .size = MIB };
	size_t i;

	at = &bench->core.abi->NVOS32_PARAMETERS;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		memset(bench->top, 0, sizeof(bench->top));
		put32(bench->top, at->function, rows[i].function);
		CHECK_EQ(bench_call(bench, &caller, NV_ESC_RM_VID_HEAP_CONTROL, at->bytes), rows[i].result);
	}
	ask.flags = NVOS32_ALLOC_FLAGS_VIRTUAL;
	CHECK_EQ(bench_heap(bench, &caller, &ask), NV_ERR_INVALID_OBJECT_PARENT);
	ask.flags = 0;
	ask.attr = NVOS32_ATTR_LOCATION_PCI << NVOS32_ATTR_LOCATION_SHIFT;
	CHECK_EQ(bench_heap(bench, &caller, &ask), CONTINUED);
	bench_cuda_start(bench, &caller, 0xc1);
	CHECK_EQ(bench_vidmem(bench, &caller, 1, &ask), NV_ERR_INVALID_ARGUMENT);
	ask.attr = 0;
	CHECK_EQ(bench_heap(bench, &caller, &ask), NV_OK);
	memset(bench->top, 0, sizeof(bench->top));
	put32(bench->top, at->hRoot, 0xc1);
	put32(bench->top, at->function, NVOS32_FUNCTION_FREE);
	put32(bench->top, at->data_Free_hMemory, 3);
	CHECK_EQ(bench_call(bench, &caller, NV_ESC_RM_VID_HEAP_CONTROL, at->bytes), NV_OK);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 0);
}

TEST_ON(transfer_wrappers_open_once, bench_new("580.142"))
{
	u8 wrapper[16] = { 0 };
	u32 nr, inner;
	u64 address;

	put32(wrapper, 0, NV_ESC_RM_ALLOC);
	put32(wrapper, 4, 48);
	put64(wrapper, 8, OUTSIDE);
	CHECK_EQ(cgpu_call_unwrap(&bench->core, wrapper, 16, &nr, &inner, &address), 0);
	CHECK(nr == NV_ESC_RM_ALLOC && inner == 48 && address == OUTSIDE);
	CHECK_EQ(cgpu_call_unwrap(&bench->core, wrapper, 15, &nr, &inner, &address), -EINVAL);
	put32(wrapper, 4, 16385);
	CHECK_EQ(cgpu_call_unwrap(&bench->core, wrapper, 16, &nr, &inner, &address), -EINVAL);
	put32(wrapper, 4, 16);
	put32(wrapper, 0, NV_ESC_IOCTL_XFER_CMD);
	CHECK_EQ(cgpu_call_unwrap(&bench->core, wrapper, 16, &nr, &inner, &address), -EINVAL);
}

TEST_ON(without_enforcement_all_is_counted_and_nothing_refused, sliced("580.142", &caller))
{
	bench_settings(bench, 0, 0);
	bench_cuda_start(bench, &caller, 0xc1);
	CHECK_EQ(take(bench, &caller, 1, 2 * SLICE), NV_OK);
	CHECK_EQ(bench_used(bench, 0, caller.slot), 2 * SLICE);
	CHECK_EQ(bench_class(bench, &caller, NV01_MEMORY_LOCAL_PHYSICAL), CONTINUED);
	CHECK_EQ(bench_device(bench, &caller, 0xc1, 0xe0, 1), CONTINUED);
	CHECK_EQ(bench_call(bench, &caller, NV_ESC_RM_I2C_ACCESS, 32), CONTINUED);
	CHECK_EQ(bench_call(bench, &caller, NV_ESC_RM_FREE, 1), CONTINUED);
	CHECK(bench_is(bench, "0/a/meminfo", "Free: 0\nPID: 100 Mem: 12673089536\n"));
}

static void damage_the_operation(struct bench *bench)
{
	bench->call.opaque[CORE_NOTE_OP] = CORE_OPS + 1;
}

static void damage_the_form(struct bench *bench)
{
	bench->call.bytes = 1;
}

/* The driver's result is unknown: what such a call reserved stays charged, and the call is not settled later. */
TEST_ON(a_damaged_call_in_flight_is_over_once, started("580.142", &caller))
{
	void (*const damages[])(struct bench * bench) = { damage_the_operation, damage_the_form };
	u32 i;

	for (i = 0; i < 2; i++) {
		bench->at_execute = damages[i];
		take(bench, &caller, i + 1, MIB);
		CHECK_EQ(bench->verdict, CGPU_EXECUTE);
		CHECK_EQ(bench->call.opaque[CORE_NOTE_OP], CORE_OP_NONE);
		CHECK_EQ(cgpu_call_end(&bench->core, &bench->call, 0), 0);
		CHECK_EQ(bench_used(bench, 0, caller.slot), (i + 1) * MIB);
	}
}
