// SPDX-License-Identifier: Apache-2.0
/*
 * unjudged [--dev DIR] controls|classes|calls: asks for each of them that the table of verdicts refuses, for each that passes, and for
 * thousands that it has not. Prints "tried" with how many were refused, how many not known, how many reached the driver, and how
 * many passed; then waits.
 *   controls  with parameters that the driver itself finds wrong before it looks for the control: whatever comes but the
 *             engine's own answer has reached the driver
 *   classes   by the newer call and by the two older ones; below a parent that is not there, those that pass
 *   calls     those of nvidia-uvm, on each node of it: first prints "ready" and waits, and then how many nodes there are, and how
 *             many unknown numbers have a type and no size. The files are of no address space, so that the driver does nothing
 */
#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client.h"

#define CONTROLS 4096u
#define CLASSES 2048u
#define CALLS 4096u /* the first ones, and as many others */
#define STEP 0x9e3779b1u /* odd: all numbers differ */
#define HANDLE 0x7a000001u
#define NOWHERE 0x7a000002u

static struct session session;
static struct {
	unsigned int refused, unknown, reached, passed, typed;
} tally;

static uint32_t find_verdict(const struct nv_control *table, unsigned int count, uint32_t number)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		if (table[i].number == number)
			return table[i].verdict;
	}
	return NV_CONTROL_UNKNOWN;
}

static uint32_t verdict_of(uint32_t number)
{
	uint32_t verdict = find_verdict(nv_controls, nv_controls_count, number);

	if (verdict != NV_CONTROL_UNKNOWN)
		return verdict;
	return find_verdict(nv_control_families, nv_control_families_count, number & ~(NV_CONTROL_FAMILY - 1));
}

static void try_control(uint32_t number)
{
	uint32_t verdict = verdict_of(number), status;

	if (verdict == NV_CONTROL_JUDGE)
		return;
	/* A size, and nothing that is so long. */
	status = session_control(&session, session.subdevice, number, NULL, 8);
	if (verdict == NV_CONTROL_PASS)
		tally.passed += status != NV_ERR_INSUFFICIENT_PERMISSIONS && status != NV_ERR_NOT_SUPPORTED;
	else if (verdict == NV_CONTROL_REFUSE && status == NV_ERR_INSUFFICIENT_PERMISSIONS)
		tally.refused++;
	else if (verdict == NV_CONTROL_UNKNOWN && status == NV_ERR_NOT_SUPPORTED)
		tally.unknown++;
	else
		tally.reached++;
}

static bool is_judged(uint32_t number)
{
	unsigned int i;

	for (i = 0; i < nv_class_count; i++) {
		if (nv_classes[i].id == number)
			return true;
	}
	return false;
}

static uint32_t by_alloc(uint32_t parent, uint32_t number)
{
	uint32_t handle = HANDLE;

	return session_alloc(&session, parent, number, NULL, 0, &handle);
}

static uint32_t by_alloc_memory(uint32_t number)
{
	const struct nv_layout_nv_ioctl_nvos02_parameters_with_fd *at =
		&session.settings->abi->nv_ioctl_nvos02_parameters_with_fd;
	struct rm_ioctl io = { .nr = NV_ESC_RM_ALLOC_MEMORY, .bytes = at->bytes, .status = at->params_status };

	put32(io.data, at->params_hRoot, session.client);
	put32(io.data, at->params_hObjectParent, session.device);
	put32(io.data, at->params_hObjectNew, HANDLE);
	put32(io.data, at->params_hClass, number);
	return driver_make(session.settings, session.card, &io);
}

static uint32_t by_alloc_object(uint32_t number)
{
	const struct nv_layout_NVOS05_PARAMETERS *at = &session.settings->abi->NVOS05_PARAMETERS;
	struct rm_ioctl io = { .nr = NV_ESC_RM_ALLOC_OBJECT, .bytes = at->bytes, .status = at->status };

	put32(io.data, at->hRoot, session.client);
	put32(io.data, at->hObjectParent, session.device);
	put32(io.data, at->hObjectNew, HANDLE);
	put32(io.data, at->hClass, number);
	return driver_make(session.settings, session.ctl, &io);
}

static void try_judged(const struct nv_class *class)
{
	uint32_t object;

	if (class->verdict == NV_CLASS_PASS) {
		tally.passed += by_alloc(NOWHERE, class->id) != NV_ERR_INSUFFICIENT_PERMISSIONS;
		return;
	}
	if (class->verdict != NV_CLASS_REFUSE)
		return;
	object = by_alloc_object(class->id);
	/* No memory comes by the last of them. */
	if (by_alloc(session.device, class->id) == class->status &&
		by_alloc(session.subdevice, class->id) == class->status &&
		by_alloc(session.client, class->id) == class->status && by_alloc_memory(class->id) == class->status &&
		(object == class->status || object == NV_ERR_INVALID_CLASS))
		tally.refused++;
	else
		tally.reached++;
}

/* The driver has no such class either: that it was not asked is told by the older call, to which it answers otherwise. */
static void try_unknown(uint32_t number)
{
	if (is_judged(number))
		return;
	if (by_alloc(session.device, number) == NV_ERR_INVALID_CLASS &&
		by_alloc_object(number) == NV_ERR_INVALID_CLASS &&
		by_alloc_memory(number) == NV_ERR_INSUFFICIENT_PERMISSIONS)
		tally.unknown++;
	else
		tally.reached++;
}

static void try_call(int uvm, uint32_t number)
{
	static uint8_t params[65536]; /* more than any call has */
	uint32_t verdict = find_verdict(nv_judged_uvm, nv_judged_uvm_count, number);
	bool refused;

	/* The kernel answers that number for any file. */
	if (verdict == NV_CONTROL_JUDGE || number == FIGETBSZ)
		return;
	memset(params, 0, sizeof(params));
	/* As the driver refuses a number that it does not have: the engine's own count tells one from the other. */
	refused = ioctl(uvm, number, params) != 0 && errno == EINVAL;
	if (verdict == NV_CONTROL_PASS)
		tally.passed++;
	else if (!refused)
		tally.reached++;
	else if (verdict == NV_CONTROL_REFUSE)
		tally.refused++;
	else
		tally.unknown++;
	tally.typed += verdict == NV_CONTROL_UNKNOWN && _IOC_SIZE(number) == 0 && _IOC_TYPE(number) != 0;
}

static void try_controls(void)
{
	uint32_t i;

	for (i = 0; i < nv_controls_count; i++)
		try_control(nv_controls[i].number);
	for (i = 1; i <= CONTROLS; i++)
		try_control(i * STEP);
}

static void try_classes(void)
{
	uint32_t i;

	for (i = 0; i < nv_class_count; i++)
		try_judged(&nv_classes[i]);
	for (i = 1; i <= CLASSES; i++)
		try_unknown(i * STEP);
}

static void try_calls(const struct settings *settings)
{
	static const char *const names[] = { "nvidia-uvm", "nvidia-uvm-tools" };
	unsigned int node, nodes = 0;
	uint32_t i;

	puts("ready");
	client_next();
	for (node = 0; node < 2; node++) {
		int uvm = driver_open(settings, names[node]);

		if (uvm < 0)
			continue;
		nodes++;
		for (i = 0; i < CALLS; i++)
			try_call(uvm, i);
		for (i = 1; i <= CALLS; i++)
			try_call(uvm, i * STEP);
		close(uvm);
	}
	printf("nodes=%u typed=%u\n", nodes, tally.typed);
}

int main(int argc, char **argv)
{
	struct settings settings;

	client_begin(&settings, &argc, &argv, 1);
	client_open(&session, &settings);
	if (strcmp(argv[0], "controls") == 0)
		try_controls();
	else if (strcmp(argv[0], "classes") == 0)
		try_classes();
	else
		try_calls(&settings);
	printf("tried refused=%u unknown=%u reached=%u passed=%u\n", tally.refused, tally.unknown, tally.reached,
		tally.passed);
	client_next();
	return 0;
}
