// SPDX-License-Identifier: Apache-2.0
/*
 * controls [--dev DIR]: asks for each control that the table of verdicts refuses, and for thousands that it has not.
 * Each with parameters that the driver itself finds wrong before it looks for the control: whatever comes but the
 * engine's own answer has reached the driver. Prints "tried" with how many were refused, not known, and reached it.
 */
#include "client.h"

#define UNKNOWN 4096u

static uint32_t judged(uint32_t number)
{
	unsigned int i;

	for (i = 0; i < nv_controls_count; i++) {
		if (nv_controls[i].number == number)
			return nv_controls[i].verdict;
	}
	for (i = 0; i < nv_control_families_count; i++) {
		if (nv_control_families[i].number == (number & ~(NV_CONTROL_FAMILY - 1)))
			return nv_control_families[i].verdict;
	}
	return NV_CONTROL_UNKNOWN;
}

static void try_one(struct session *session, uint32_t number, struct tally *tally)
{
	uint32_t verdict = judged(number), status;

	if (verdict == NV_CONTROL_JUDGE)
		return;
	/* A size, and nothing that is so long. */
	status = session_control(session, session->subdevice, number, NULL, 8);
	if (verdict == NV_CONTROL_PASS)
		tally->passed += status != NV_ERR_INSUFFICIENT_PERMISSIONS && status != NV_ERR_NOT_SUPPORTED;
	else if (verdict == NV_CONTROL_REFUSE && status == NV_ERR_INSUFFICIENT_PERMISSIONS)
		tally->refused++;
	else if (verdict == NV_CONTROL_UNKNOWN && status == NV_ERR_NOT_SUPPORTED)
		tally->unknown++;
	else
		tally->reached++;
}

int main(int argc, char **argv)
{
	struct settings settings;
	struct session session;
	struct tally tally = { 0 };
	uint32_t i;

	client_begin(&settings, &argc, &argv);
	client_open(&session, &settings);
	for (i = 0; i < nv_controls_count; i++)
		try_one(&session, nv_controls[i].number, &tally);
	client_try_unknown(&session, UNKNOWN, &tally, try_one);
	return 0;
}
