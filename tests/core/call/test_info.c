// SPDX-License-Identifier: Apache-2.0
/* Memory figures that a container reads. */
#include "slices.h"

#define USED (1024 * MIB)
#define LEFT (SLICE - USED)

static struct caller self;

static struct bench *with_memory(const char *driver)
{
	struct bench *bench = started(driver, &self);

	CHECK_EQ(take(bench, &self, 1, USED), NV_OK);
	return bench;
}

static long control(struct bench *bench, u32 object, u32 cmd, u32 bytes)
{
	return bench_control(bench, &self, 0xc1, object, cmd, bytes);
}

static u32 list_put(struct bench *bench, u8 *list)
{
	static const u32 wanted[][2] = { { 0x07, 15000000 }, { 0x08, 15000000 }, { 0x09, 15000000 }, { 0x0a, 262144 },
		{ 0x10, 4096 }, { 0x12, 15000000 }, { 0x16, 14000000 }, { 0x20, 15000000 }, { 0x27, 512 },
		{ 0x05, 262144 }, { 0x33, 0 }, { 0x34, 15000000 }, { 0x44, 14000000 } };
	const struct nv_layout_NV2080_CTRL_FB_INFO *at = &bench->core.abi->NV2080_CTRL_FB_INFO;
	u32 i;

	for (i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		put32(list + i * at->bytes, at->index, wanted[i][0]);
		put32(list + i * at->bytes, at->data, wanted[i][1]);
	}
	return i;
}

static void list_check(struct bench *bench, const u8 *list)
{
	static const u32 wanted[] = { SLICE >> 10, SLICE >> 10, SLICE >> 10, 262144, 0, LEFT >> 10, LEFT >> 10,
		SLICE >> 10, 0, 262144, 0, LEFT >> 10, 0 };
	const struct nv_layout_NV2080_CTRL_FB_INFO *at = &bench->core.abi->NV2080_CTRL_FB_INFO;
	u32 i;

	for (i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		CHECK_EQ(get32(list + i * at->bytes, at->data), wanted[i]);
}

TEST_ON_EACH(
	both_forms_tell_the_slice, with_memory(version), "515.43.04", "545.23.06", "560.28.03", "580.142", "615.71.09")
{
	const struct nv_abi *abi = bench->core.abi;
	u8 *params = bench->segment[0];
	u32 count;

	memset(params, 0, 2048);
	count = list_put(bench, params + abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS.fbInfoList);
	put32(params, 0, count);
	CHECK_EQ(control(bench, 0xd1, NV2080_CTRL_CMD_FB_GET_INFO_V2, abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS.bytes),
		NV_OK);
	CHECK_EQ(bench->verdict, CGPU_EXECUTE);
	list_check(bench, params + abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS.fbInfoList);

	memset(params, 0, 64);
	put32(params, abi->NV2080_CTRL_FB_GET_INFO_PARAMS.fbInfoListSize, count);
	put64(params, abi->NV2080_CTRL_FB_GET_INFO_PARAMS.fbInfoList, OUTSIDE + 64);
	list_put(bench, bench->segment[1]);
	CHECK_EQ(control(bench, 0xd1, NV2080_CTRL_CMD_FB_GET_INFO, abi->NV2080_CTRL_FB_GET_INFO_PARAMS.bytes), NV_OK);
	CHECK_EQ(bench->call.segments, 2);
	CHECK_EQ(bench->call.segment[1].address, OUTSIDE + 64);
	CHECK_EQ(bench->call.segment[1].parent, 1);
	CHECK_EQ(bench->call.segment[1].bytes, count * 8);
	list_check(bench, bench->segment[1]);
}

TEST_ON(long_lists_are_refused, with_memory("580.142"))
{
	static const u32 counts[] = { 0, 129, 0x80000000u, 0xffffffffu };
	u32 size = bench->core.abi->NV2080_CTRL_FB_GET_INFO_PARAMS.bytes;
	size_t i;

	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		put32(bench->segment[0], 0, counts[i]);
		put64(bench->segment[0], 8, OUTSIDE);
		CHECK_EQ(control(bench, 0xd1, NV2080_CTRL_CMD_FB_GET_INFO, size), NV_ERR_INVALID_ARGUMENT);
	}
	put32(bench->segment[0], 0, 1);
	put64(bench->segment[0], 8, 0);
	CHECK_EQ(control(bench, 0xd1, NV2080_CTRL_CMD_FB_GET_INFO, size), NV_ERR_INVALID_ARGUMENT);
}

TEST_ON(a_lying_count_hides_nothing, with_memory("580.142"))
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_V2_PARAMS *at =
		&bench->core.abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS;

	memset(bench->segment[0], 0, 2048);
	list_put(bench, bench->segment[0] + at->fbInfoList);
	put32(bench->segment[0], 0, 0xffffffffu);
	CHECK_EQ(control(bench, 0xd1, NV2080_CTRL_CMD_FB_GET_INFO_V2, at->bytes), NV_OK);
	list_check(bench, bench->segment[0] + at->fbInfoList);
	bench->driver_status = NV_ERR_INVALID_ARGUMENT;
	list_put(bench, bench->segment[0] + at->fbInfoList);
	CHECK_EQ(control(bench, 0xd1, NV2080_CTRL_CMD_FB_GET_INFO_V2, at->bytes), NV_ERR_INVALID_ARGUMENT);
	list_check(bench, bench->segment[0] + at->fbInfoList);
}

TEST_ON(controls_need_a_known_subdevice, with_memory("580.142"))
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &bench->core.abi->NVOS54_PARAMETERS;
	u32 bytes = bench->core.abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS.bytes;

	CHECK_EQ(control(bench, 0xd0, NV2080_CTRL_CMD_FB_GET_INFO_V2, bytes), NV_ERR_INVALID_OBJECT_HANDLE);
	CHECK_EQ(control(bench, 0x99, NV2080_CTRL_CMD_FB_GET_INFO_V2, bytes), NV_ERR_INVALID_OBJECT_HANDLE);
	CHECK_EQ(control(bench, 0xd1, NV2080_CTRL_CMD_FB_GET_INFO_V2, bytes - 4), NV_ERR_INVALID_PARAM_STRUCT);
	CHECK_EQ(control(bench, 0xd1, NV2080_CTRL_CMD_GPU_GET_NAME_STRING, 8), CONTINUED);
	put64(bench->top, at->params, 0);
	put32(bench->top, at->cmd, NV2080_CTRL_CMD_FB_GET_INFO_V2);
	put32(bench->top, at->paramsSize, bytes);
	CHECK_EQ(bench_call(bench, &self, NV_ESC_RM_CONTROL, at->bytes), NV_ERR_INVALID_ARGUMENT);
	put32(bench->top, at->flags, 4);
	CHECK_EQ(bench_call(bench, &self, NV_ESC_RM_CONTROL, at->bytes), NV_ERR_NOT_SUPPORTED);
}

TEST_ON(heap_info_tells_the_slice, with_memory("580.142"))
{
	const struct nv_layout_NVOS32_PARAMETERS *at = &bench->core.abi->NVOS32_PARAMETERS;

	memset(bench->top, 0, sizeof(bench->top));
	put32(bench->top, at->hRoot, 0xc1);
	put32(bench->top, at->hObjectParent, 0xd0);
	put32(bench->top, at->function, NVOS32_FUNCTION_INFO);
	put64(bench->top, at->total, CARD_BYTES);
	put64(bench->top, at->free, CARD_BYTES - MIB);
	put64(bench->top, at->data_Info_size, CARD_BYTES - MIB);
	put64(bench->top, at->data_Info_base, 4096);
	CHECK_EQ(bench_call(bench, &self, NV_ESC_RM_VID_HEAP_CONTROL, at->bytes), NV_OK);
	CHECK_EQ(get64(bench->top, at->total), SLICE);
	CHECK_EQ(get64(bench->top, at->free), LEFT);
	CHECK_EQ(get64(bench->top, at->data_Info_size), LEFT);
	CHECK_EQ(get64(bench->top, at->data_Info_base), 4096);
}

static void region_put(struct bench *bench, u32 index, u64 base, u64 bytes)
{
	const struct nv_abi *abi = bench->core.abi;
	u8 *region = bench->segment[0] + abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS.fbRegion +
		index * abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO.bytes;

	put64(region, abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO.base, base);
	put64(region, abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO.limit, base + bytes - 1);
	put64(region, abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO.reserved, bytes);
}

static u64 region_get(struct bench *bench, u32 index, u32 field)
{
	const struct nv_abi *abi = bench->core.abi;

	return get64(bench->segment[0],
		abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS.fbRegion +
			index * abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO.bytes + field);
}

TEST_ON_EACH(regions_end_at_the_limit, with_memory(version), "515.43.04", "580.142")
{
	const struct nv_layout_NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO *one =
		&bench->core.abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_FB_REGION_INFO;
	u32 bytes = bench->core.abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS.bytes;

	memset(bench->segment[0], 0, 1024);
	put32(bench->segment[0], 0, 3);
	region_put(bench, 0, 0, 1000 * MIB);
	region_put(bench, 1, 1000 * MIB, 14000 * MIB);
	region_put(bench, 2, 15000 * MIB, 109 * MIB);
	CHECK_EQ(control(bench, 0xd1, NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO, bytes), NV_OK);
	CHECK_EQ(get32(bench->segment[0], 0), 2);
	CHECK_EQ(region_get(bench, 0, one->limit), 1000 * MIB - 1);
	CHECK_EQ(region_get(bench, 1, one->base), 1000 * MIB);
	CHECK_EQ(region_get(bench, 1, one->limit), SLICE - 1);
	CHECK_EQ(region_get(bench, 1, one->reserved), SLICE - 1000 * MIB);
	CHECK_EQ(region_get(bench, 2, one->limit), 0);
}

TEST_ON(hostile_regions_do_not_wrap, with_memory("580.142"))
{
	u32 bytes = bench->core.abi->NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO_PARAMS.bytes;

	memset(bench->segment[0], 0xff, 1024);
	region_put(bench, 0, 10, 0); /* its end lies before its start */
	region_put(bench, 1, 0, 0); /* all there is */
	CHECK_EQ(control(bench, 0xd1, NV2080_CTRL_CMD_FB_GET_FB_REGION_INFO, bytes), NV_OK);
	CHECK_EQ(get32(bench->segment[0], 0), 2);
	CHECK_EQ(region_get(bench, 1, 8), SLICE - 1);
}

TEST_ON(without_enforcement_nothing_is_rewritten, with_memory("580.142"))
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_V2_PARAMS *at =
		&bench->core.abi->NV2080_CTRL_FB_GET_INFO_V2_PARAMS;

	bench_settings(bench, 0, 0);
	memset(bench->segment[0], 0, 2048);
	list_put(bench, bench->segment[0] + at->fbInfoList);
	CHECK_EQ(control(bench, 0xd1, NV2080_CTRL_CMD_FB_GET_INFO_V2, at->bytes), NV_OK);
	CHECK_EQ(get32(bench->segment[0], at->fbInfoList + 4), 15000000);
}
