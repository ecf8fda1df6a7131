// SPDX-License-Identifier: Apache-2.0
/* Controls by the table of what was judged of them, and those whose parameters name a client. */
#include "slices.h"

#define UNKNOWN 0x20801fffu
#define CLIENT FIRST /* the next one is the neighbour's */

static struct caller other;

static struct bench *two(const char *driver, struct caller *caller)
{
	struct bench *bench = started(driver, caller);

	other = neighbour(bench);
	return bench;
}

TEST_ON(controls_have_the_verdict_of_the_table, two("580.142", &caller))
{
	u32 i, logged = bench->logged;

	for (i = 0; i < nv_controls_count; i++) {
		u32 number = nv_controls[i].number;
		long came = bench_control(bench, &caller, CLIENT, 0xd1, number, 8);

		CHECK(i == 0 || nv_controls[i - 1].number < number);
		CHECK(nv_controls[i].verdict != NV_CONTROL_PASS || came == CONTINUED);
		CHECK(nv_controls[i].verdict != NV_CONTROL_REFUSE || came == NV_ERR_INSUFFICIENT_PERMISSIONS);
	}
	CHECK(nv_controls_count > 1800);
	CHECK_EQ(bench->logged, logged);
}

TEST_ON(controls_that_nobody_judged_are_refused_and_said_once, two("580.142", &caller))
{
	u32 i, logged = bench->logged;

	CHECK_EQ(bench_control(bench, &caller, CLIENT, 0xd1, UNKNOWN, 8), NV_ERR_NOT_SUPPORTED);
	CHECK(strcmp(bench->log, "container a: driver control 0x20801fff is not known here and was refused") == 0);
	CHECK_EQ(bench_control(bench, &caller, CLIENT, 0xd1, UNKNOWN, 8), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(bench->logged, logged + 1);
	CHECK_EQ(bench_control(bench, &other, CLIENT + 1, 0xd1, UNKNOWN, 8), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(bench->logged, logged + 2);
	for (i = 1; i < 1000; i++)
		CHECK_EQ(bench_control(bench, &caller, CLIENT, 0xd1, 0xdead0000 + i, 8), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(bench->logged, logged + 17);
	CHECK_EQ(bench_control(bench, &caller, CLIENT, 0xd1, 0xffffffff, 8), NV_ERR_NOT_SUPPORTED);
}

TEST_ON(controls_of_the_firmware_go_by_their_family, two("580.142", &caller))
{
	/* Asked by NVIDIA's libraries, and in no header. */
	CHECK_EQ(bench_control(bench, &caller, CLIENT, 0xd1, 0x20808159, 8), CONTINUED);
	CHECK_EQ(bench_control(bench, &caller, CLIENT, 0xd1, 0x2080a618, 8), CONTINUED);
	CHECK_EQ(bench_control(bench, &caller, CLIENT, 0xd0, 0x00809909, 8), CONTINUED);
	CHECK_EQ(bench_control(bench, &caller, CLIENT, 0xd1, 0x20810108, 8), CONTINUED);
	/* For root alone; none of a family; in one, and judged by itself. */
	CHECK_EQ(bench_control(bench, &caller, CLIENT, 0xd1, 0x2080c501, 8), NV_ERR_INSUFFICIENT_PERMISSIONS);
	CHECK_EQ(bench_control(bench, &caller, CLIENT, 0xd1, 0x20820107, 8), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(bench_control(bench, &caller, CLIENT, 0xd1, 0x20810207, 8), NV_ERR_NOT_SUPPORTED);
	CHECK_EQ(bench_control(bench, &caller, CLIENT, 0xd1, 0x2080a7d6, 8), CONTINUED);
	CHECK_EQ(bench_control(bench, &caller, CLIENT, 0xd1, 0x2080a7d7, 8), NV_ERR_INSUFFICIENT_PERMISSIONS);
}

/* Refused whatever rights the container has: the driver asks for those of the machine's administrator only. */
TEST_ON(the_drivers_limits_of_a_cgroup_are_not_the_containers_to_set, two("615.71.09", &caller))
{
	u32 set_limits = 0x3d0d; /* NV0000_CTRL_OS_UNIX_CMD_MEMACCT_SET_LIMITS */

	CHECK_EQ(bench_control(bench, &caller, CLIENT, CLIENT, set_limits, 24), NV_ERR_INSUFFICIENT_PERMISSIONS);
}

TEST_ON(calls_of_uvm_are_those_that_it_serves, two("580.142", &caller))
{
	u32 nr, passed = 0, logged;

	caller.device = CGPU_DEVICE_UVM;
	CHECK_EQ(bench_call(bench, &caller, UVM_INITIALIZE, 16), CONTINUED);
	CHECK_EQ(bench_call(bench, &caller, UVM_MIGRATE, 0), CONTINUED);
	logged = bench->logged;
	/* A test of its driver's. */
	CHECK_EQ(bench_call(bench, &caller, 200, 0), -EINVAL);
	CHECK(strcmp(bench->log,
		      "container a: call 0xc8 of nvidia-uvm is none of those that are let through and was refused") ==
		0);
	CHECK_EQ(bench_call(bench, &caller, 200, 0), -EINVAL);
	CHECK_EQ(bench_call(bench, &caller, 0xffffffff, 0), -EINVAL);
	CHECK_EQ(bench->logged, logged + 1);
	for (nr = 0; nr < 4096; nr++) {
		int came = bench_call(bench, &caller, nr, 0) == CONTINUED;

		CHECK_EQ(cgpu_uvm_is_served(nr), came);
		passed += came;
	}
	CHECK_EQ(passed, nv_judged_uvm_count - 3);
}

TEST_ON(enforcement_that_is_off_lets_all_go_on, two("580.142", &caller))
{
	bench_settings(bench, 0, 0);
	CHECK_EQ(bench_control(bench, &caller, CLIENT, 0xd1, UNKNOWN, 8), CONTINUED);
	CHECK_EQ(bench_control(bench, &caller, CLIENT, 0xd1, 0x2080c501, 8), CONTINUED);
}

/* The same function in the driver, under the number of each class of channels, up to 550. */
TEST_ON(older_numbers_of_scheduling_are_judged_as_the_newest, two("550.163.01", &caller))
{
	static const u32 schedule[] = { NVA06F_CTRL_CMD_GPFIFO_SCHEDULE, NVA16F_CTRL_CMD_GPFIFO_SCHEDULE,
		NVA26F_CTRL_CMD_GPFIFO_SCHEDULE, NVB06F_CTRL_CMD_GPFIFO_SCHEDULE, NVC06F_CTRL_CMD_GPFIFO_SCHEDULE,
		NVC36F_CTRL_CMD_GPFIFO_SCHEDULE };
	static const u32 bind[] = { NVA06F_CTRL_CMD_BIND, NVA16F_CTRL_CMD_BIND, NVA26F_CTRL_CMD_BIND,
		NVB06F_CTRL_CMD_BIND, NVC06F_CTRL_CMD_BIND, NVC36F_CTRL_CMD_BIND };
	struct channel_ask ask = { .client = CLIENT, .parent = 0xd0, .object = 0xe0, .class = TURING_CHANNEL_GPFIFO_A };
	u32 wrong = 64, i;

	CHECK_EQ(bench_channel(bench, &caller, &ask), NV_OK);
	for (i = 0; i < sizeof(schedule) / sizeof(schedule[0]); i++) {
		CHECK_EQ(bench_control(bench, &caller, CLIENT, 0xe0, schedule[i],
				 bench->core.abi->NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS.bytes),
			NV_OK);
		CHECK_EQ(bench_control(bench, &caller, CLIENT, 0xe0, schedule[i], wrong), NV_ERR_INVALID_PARAM_STRUCT);
		CHECK_EQ(bench_control(bench, &caller, CLIENT, 0xe0, bind[i], wrong), NV_ERR_INVALID_PARAM_STRUCT);
	}
}

static long naming(struct bench *bench, const struct caller *caller, u32 command, u32 bytes, u32 at, u32 client)
{
	memset(bench->segment[0], 0, 128);
	put32(bench->segment[0], at, client);
	return bench_control(bench, caller, CLIENT, 0xd1, command, bytes);
}

TEST_ON(clients_in_parameters_are_ones_own, two("550.163.01", &caller))
{
	const struct nv_layout_NV2080_CTRL_GR_CTXSW_ZCULL_BIND_PARAMS *zcull =
		&bench->core.abi->NV2080_CTRL_GR_CTXSW_ZCULL_BIND_PARAMS;
	const struct nv_layout_NV2080_CTRL_GR_CTXSW_PREEMPTION_BIND_PARAMS *preempt =
		&bench->core.abi->NV2080_CTRL_GR_CTXSW_PREEMPTION_BIND_PARAMS;
	u32 client;

	for (client = CLIENT; client < CLIENT + 3; client++) {
		long wanted = client == CLIENT ? NV_OK : NV_ERR_INSUFFICIENT_PERMISSIONS;

		CHECK_EQ(naming(bench, &caller, NV2080_CTRL_CMD_GR_CTXSW_ZCULL_BIND, zcull->bytes, zcull->hClient,
				 client),
			wanted);
		CHECK_EQ(naming(bench, &caller, NV2080_CTRL_CMD_GR_CTXSW_PREEMPTION_BIND, preempt->bytes,
				 preempt->hClient, client),
			wanted);
	}
	CHECK_EQ(
		naming(bench, &caller, NV2080_CTRL_CMD_GR_CTXSW_ZCULL_BIND, 8, 0, CLIENT), NV_ERR_INVALID_PARAM_STRUCT);
	bench_free(bench);
	/* This driver has no such structure. */
	bench = two("535.261.03", &caller);
	CHECK_EQ(naming(bench, &caller, NV2080_CTRL_CMD_GR_CTXSW_SETUP_BIND, 16, 0, CLIENT), NV_ERR_NOT_SUPPORTED);
}

TEST_ON(leave_is_given_to_ones_own_clients, two("580.142", &caller))
{
	const struct nv_layout_NV0000_CTRL_CLIENT_SET_INHERITED_SHARE_POLICY_PARAMS *at =
		&bench->core.abi->NV0000_CTRL_CLIENT_SET_INHERITED_SHARE_POLICY_PARAMS;
	u32 command = NV0000_CTRL_CMD_CLIENT_SET_INHERITED_SHARE_POLICY;

	/* Not to a client: to any process that may share with this one. */
	CHECK_EQ(naming(bench, &caller, command, at->bytes, at->sharePolicy_target, CLIENT + 1), NV_OK);
	memset(bench->segment[0], 0, 128);
	bench->segment[0][at->sharePolicy_type] = RS_SHARE_TYPE_CLIENT;
	put32(bench->segment[0], at->sharePolicy_target, CLIENT + 1);
	CHECK_EQ(bench_control(bench, &caller, CLIENT, CLIENT, command, at->bytes), NV_ERR_INSUFFICIENT_PERMISSIONS);
	put32(bench->segment[0], at->sharePolicy_target, CLIENT);
	CHECK_EQ(bench_control(bench, &caller, CLIENT, CLIENT, command, at->bytes), NV_OK);
	/* A client that has nothing yet passes, as libcuda's; another container's does not. */
	CHECK_EQ(bench_control(bench, &caller, 0x77, 0x77, command, at->bytes), NV_OK);
	CHECK_EQ(bench_control(bench, &caller, CLIENT + 1, CLIENT + 1, command, at->bytes),
		NV_ERR_INSUFFICIENT_PERMISSIONS);
	/* The older form of the same. */
	CHECK_EQ(bench_control(bench, &caller, CLIENT, CLIENT, 0xd06, 16), NV_ERR_INSUFFICIENT_PERMISSIONS);
}

static long made(struct bench *bench, const struct caller *caller, u32 class, u32 at, u32 client)
{
	memset(bench->segment[0], 0, 256);
	put32(bench->segment[0], at, client);
	return bench_class(bench, caller, class);
}

/* An event tells of an object of the client that it names. */
TEST_ON(events_are_of_ones_own_clients, two("550.163.01", &caller))
{
	static const u32 classes[] = { NV01_EVENT, NV01_EVENT_OS_EVENT, NV01_EVENT_KERNEL_CALLBACK,
		NV01_EVENT_KERNEL_CALLBACK_EX };
	u32 at = bench->core.abi->NV0005_ALLOC_PARAMETERS.hParentClient, i;

	for (i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		CHECK_EQ(made(bench, &caller, classes[i], at, CLIENT + 1), NV_ERR_INSUFFICIENT_PERMISSIONS);
		CHECK_EQ(made(bench, &caller, classes[i], at, CLIENT + 2), NV_ERR_INSUFFICIENT_PERMISSIONS);
		CHECK_EQ(made(bench, &caller, classes[i], at, CLIENT), NV_OK);
		CHECK_EQ(made(bench, &caller, classes[i], at, 0), NV_OK);
		CHECK_EQ(bench->verdict, CGPU_EXECUTE);
	}
}

/* A device has the address space of the client that it names, a debugger its context. */
TEST_ON(objects_are_made_of_ones_own_clients, two("550.163.01", &caller))
{
	const struct nv_layout_NV0080_ALLOC_PARAMETERS *device = &bench->core.abi->NV0080_ALLOC_PARAMETERS;
	u32 app = bench->core.abi->NV83DE_ALLOC_PARAMETERS.hAppClient, client;

	for (client = CLIENT + 1; client < CLIENT + 3; client++) {
		CHECK_EQ(made(bench, &caller, NV01_DEVICE_0, device->hClientShare, client),
			NV_ERR_INSUFFICIENT_PERMISSIONS);
		CHECK_EQ(made(bench, &caller, NV01_DEVICE_0, device->hTargetClient, client),
			NV_ERR_INSUFFICIENT_PERMISSIONS);
		CHECK_EQ(made(bench, &caller, GT200_DEBUGGER, app, client), NV_ERR_INSUFFICIENT_PERMISSIONS);
	}
	CHECK_EQ(made(bench, &caller, NV01_DEVICE_0, device->hClientShare, CLIENT), NV_OK);
	CHECK_EQ(made(bench, &caller, GT200_DEBUGGER, app, CLIENT), NV_OK);
	CHECK_EQ(made(bench, &caller, GT200_DEBUGGER, app, 0), NV_OK);
}
