// SPDX-License-Identifier: Apache-2.0
/* Plans: what a call needs before it is judged, and that it is refused without. */
#include "slices.h"
#include "stats.h"

static struct cgpu_call call_of(const struct bench *bench, const struct caller *caller, u32 nr, u32 bytes)
{
	return (struct cgpu_call){ .slot = caller->slot,
		.generation = caller->generation,
		.tgid = caller->tgid,
		.nr = nr,
		.bytes = bytes,
		.top = (u8 *)bench->top,
		.finds_files = 1 };
}

/* Memory of the card, with parameters and rights at two addresses. */
static struct cgpu_call call_for_memory(struct bench *bench, const struct caller *caller)
{
	const struct nv_layout_NVOS64_PARAMETERS *at = &bench->core.abi->NVOS64_PARAMETERS;

	memset(bench->top, 0, sizeof(bench->top));
	memset(bench->segment, 0, sizeof(bench->segment));
	put32(bench->top, at->hRoot, FIRST);
	put32(bench->top, at->hObjectParent, 0xd0);
	put32(bench->top, at->hClass, NV01_MEMORY_LOCAL_USER);
	put64(bench->top, at->pAllocParms, OUTSIDE);
	put64(bench->top, at->pRightsRequested, OUTSIDE + 0x1000);
	put64(bench->segment[0], bench->core.abi->NV_MEMORY_ALLOCATION_PARAMS.size, MIB);
	return call_of(bench, caller, NV_ESC_RM_ALLOC, at->bytes);
}

static struct cgpu_call call_of_control(struct bench *bench, const struct caller *caller, u32 command, u32 bytes)
{
	const struct nv_layout_NVOS54_PARAMETERS *at = &bench->core.abi->NVOS54_PARAMETERS;

	memset(bench->top, 0, sizeof(bench->top));
	memset(bench->segment, 0, sizeof(bench->segment));
	put32(bench->top, at->hClient, FIRST);
	put32(bench->top, at->hObject, 0xd1);
	put32(bench->top, at->cmd, command);
	put32(bench->top, at->paramsSize, bytes);
	put64(bench->top, at->params, OUTSIDE);
	return call_of(bench, caller, NV_ESC_RM_CONTROL, at->bytes);
}

/* Call of the older query, whose parameters point to a list. */
static struct cgpu_call call_for_infos(struct bench *bench, const struct caller *caller, u32 count)
{
	const struct nv_layout_NV2080_CTRL_FB_GET_INFO_PARAMS *at = &bench->core.abi->NV2080_CTRL_FB_GET_INFO_PARAMS;
	struct cgpu_call call = call_of_control(bench, caller, NV2080_CTRL_CMD_FB_GET_INFO, at->bytes);

	put32(bench->segment[0], at->fbInfoListSize, count);
	put64(bench->segment[0], at->fbInfoList, OUTSIDE + 0x2000);
	return call;
}

static struct cgpu_call call_for_export(struct bench *bench, const struct caller *caller)
{
	const struct nv_layout_NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS *at =
		&bench->core.abi->NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS;
	struct cgpu_call call = call_of_control(bench, caller, NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD, at->bytes);

	put32(bench->segment[0], at->fd, 9);
	return call;
}

static void fetch(struct bench *bench, struct cgpu_call *call)
{
	u32 i;

	for (i = 0; i < call->segments; i++)
		call->segment[i].data = bench->segment[i];
}

static void check_refused(struct bench *bench, struct cgpu_call call)
{
	call.error = 0;
	CHECK_EQ(cgpu_call_begin(&bench->core, &call), CGPU_REFUSE);
	CHECK_EQ(call.error, EINVAL);
	CHECK_EQ(cgpu_call_end(&bench->core, &call, 0), 0);
	CHECK_STAT("0/a/stat", "used", 0);
}

TEST_ON(a_plan_names_what_the_pointers_of_a_call_lead_to, started("580.142", &caller))
{
	struct cgpu_call call = call_for_memory(bench, &caller);

	CHECK_EQ(cgpu_call_plan(&bench->core, &call), CGPU_NEEDS_BUFFERS | CGPU_NEEDS_OWN_FILE);
	CHECK_EQ(call.segments, 2);
	CHECK_EQ(call.segment[0].address, OUTSIDE);
	CHECK_EQ(call.segment[0].bytes, bench->core.abi->NV_MEMORY_ALLOCATION_PARAMS.bytes);
	CHECK_EQ(call.segment[1].address, OUTSIDE + 0x1000);
	CHECK_EQ(call.segment[1].bytes, bench->core.abi->RS_ACCESS_MASK.bytes);
	fetch(bench, &call);
	CHECK_EQ(cgpu_call_plan(&bench->core, &call), CGPU_NEEDS_OWN_FILE);
	CHECK_EQ(cgpu_call_begin(&bench->core, &call), CGPU_EXECUTE);
	cgpu_call_end(&bench->core, &call, -EINTR);
}

TEST_ON(a_second_plan_names_what_the_first_buffers_lead_to, started("580.142", &caller))
{
	struct cgpu_call call = call_for_infos(bench, &caller, 3);

	CHECK_EQ(cgpu_call_plan(&bench->core, &call), CGPU_NEEDS_BUFFERS | CGPU_NEEDS_OWN_FILE);
	CHECK_EQ(call.segments, 1);
	fetch(bench, &call);
	CHECK_EQ(cgpu_call_plan(&bench->core, &call), CGPU_NEEDS_BUFFERS | CGPU_NEEDS_OWN_FILE);
	CHECK_EQ(call.segments, 2);
	CHECK_EQ(call.segment[1].address, OUTSIDE + 0x2000);
	CHECK_EQ(call.segment[1].bytes, 3 * bench->core.abi->NV2080_CTRL_FB_INFO.bytes);
	fetch(bench, &call);
	CHECK_EQ(cgpu_call_plan(&bench->core, &call), CGPU_NEEDS_OWN_FILE);
	CHECK_EQ(cgpu_call_begin(&bench->core, &call), CGPU_EXECUTE);
	call = call_for_export(bench, &caller);
	CHECK_EQ(cgpu_call_plan(&bench->core, &call), CGPU_NEEDS_BUFFERS | CGPU_NEEDS_OWN_FILE);
	fetch(bench, &call);
	CHECK_EQ(cgpu_call_plan(&bench->core, &call), CGPU_NEEDS_FILE | CGPU_NEEDS_OWN_FILE);
	CHECK_EQ(call.descriptor, 9);
}

/* The driver of a daemon would follow a pointer that was not planned in the daemon's own memory. */
TEST_ON(a_call_without_what_its_plan_names_is_refused, started("580.142", &caller))
{
	struct cgpu_call call = call_for_memory(bench, &caller), other;

	check_refused(bench, call);
	cgpu_call_plan(&bench->core, &call);
	check_refused(bench, call);
	fetch(bench, &call);
	other = call;
	other.segments = 1;
	check_refused(bench, other);
	other = call;
	other.segment[0].bytes--;
	check_refused(bench, other);
	other = call;
	other.segment[1].pointer = other.segment[0].pointer;
	check_refused(bench, other);
	other = call;
	other.segment[1].parent = 1;
	check_refused(bench, other);
	other = call;
	other.segments = CGPU_MAX_SEGMENTS;
	check_refused(bench, other);
	/* No buffer is needed for an object that is only freed. */
	call.nr = NV_ESC_RM_FREE;
	call.bytes = bench->core.abi->NVOS00_PARAMETERS.bytes;
	check_refused(bench, call);
}

TEST_ON(a_list_or_file_that_only_a_buffer_names_is_not_left_out, started("580.142", &caller))
{
	struct cgpu_call call = call_for_infos(bench, &caller, 3);

	cgpu_call_plan(&bench->core, &call);
	fetch(bench, &call);
	check_refused(bench, call);
	call = call_for_export(bench, &caller);
	cgpu_call_plan(&bench->core, &call);
	fetch(bench, &call);
	check_refused(bench, call);
	cgpu_call_plan(&bench->core, &call);
	call.found = 1;
	call.target = FILE_OF_EXPORT;
	call.descriptor++;
	check_refused(bench, call);
}

/* So the ledger may change while a plan is carried out. */
TEST_ON(a_plan_depends_on_no_record, started("580.142", &caller))
{
	struct cgpu_call call = call_for_memory(bench, &caller), before = call;

	cgpu_call_plan(&bench->core, &before);
	CHECK_EQ(bench_ctl(bench, "destroy id=a"), 0);
	CHECK_EQ(cgpu_call_plan(&bench->core, &call), CGPU_NEEDS_BUFFERS | CGPU_NEEDS_OWN_FILE);
	CHECK_EQ(memcmp(&call, &before, sizeof(call)), 0);
	fetch(bench, &call);
	CHECK_EQ(cgpu_call_begin(&bench->core, &call), CGPU_REFUSE);
	CHECK_EQ(call.error, ENODEV);
}

TEST_ON(what_is_judged_without_its_buffers_has_none_fetched, started("580.142", &caller))
{
	const struct nv_layout_NVOS64_PARAMETERS *at = &bench->core.abi->NVOS64_PARAMETERS;
	const u32 classes[] = { NV01_ROOT_CLIENT, AMPERE_SMC_PARTITION_REF, 0xdead };
	struct cgpu_call call;
	u32 i;

	for (i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		call = call_for_memory(bench, &caller);
		put32(bench->top, at->hClass, classes[i]);
		CHECK_EQ(cgpu_call_plan(&bench->core, &call), 0);
	}
	call = call_for_memory(bench, &caller);
	put32(bench->top, at->flags, NVOS64_FLAGS_FINN_SERIALIZED);
	CHECK_EQ(cgpu_call_plan(&bench->core, &call), 0);
	/* A size that the driver does not have, and a transport that finds no files. */
	call = call_of_control(bench, &caller, NV2080_CTRL_CMD_FB_GET_INFO_V2, 8);
	CHECK_EQ(cgpu_call_plan(&bench->core, &call), 0);
	call = call_for_export(bench, &caller);
	call.finds_files = 0;
	CHECK_EQ(cgpu_call_plan(&bench->core, &call), 0);
	call = call_for_infos(bench, &caller, 1u << 20);
	cgpu_call_plan(&bench->core, &call);
	fetch(bench, &call);
	CHECK_EQ(cgpu_call_plan(&bench->core, &call), CGPU_NEEDS_OWN_FILE);
	CHECK_EQ(cgpu_call_begin(&bench->core, &call), CGPU_ANSWER);
}
