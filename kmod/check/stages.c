// SPDX-License-Identifier: Apache-2.0
/* The steps of a check, and the card's free memory after each. */
#include <time.h>

#include "check.h"

#define LLD(value) ((long long)(value))
/* The driver hears of the last close of a file a moment later. */
#define LOOKS 40u
#define LOOK_NS 5000000

static bool is_near(const struct session *session, s64 fell, u64 wanted)
{
	return fell >= (s64)wanted && fell <= (s64)(wanted + session->slack);
}

/* Waits until free memory has fallen by `wanted` bytes; *fell: by how many it has in the end. */
static u32 settles(struct session *session, u64 before, u64 wanted, s64 *fell)
{
	const struct timespec moment = { .tv_nsec = LOOK_NS };
	u32 status = NV_OK, i;
	u64 unused = 0;

	for (i = 0; i < LOOKS; i++) {
		status = sizes_free(session, &unused);
		*fell = (s64)(before - unused);
		if (status != NV_OK || is_near(session, *fell, wanted))
			return status;
		nanosleep(&moment, NULL);
	}
	return NV_OK;
}

/* PASSED, FAILED, or SKIPPED: free memory did not change as expected, try again. */
static enum verdict attempt(struct session *session, const struct stage *stages, size_t count)
{
	u32 status;
	u64 before, wanted;
	s64 fell = 0;
	size_t i;

	status = sizes_free(session, &before);
	for (i = 0; status == NV_OK && i < count; i++) {
		status = stages[i].run(session);
		if (status != NV_OK)
			return verdict_failed(session, "%s: %s", stages[i].what, call_text(session, status));
		wanted = stages[i].held ? session->memory.charge : 0;
		status = settles(session, before, wanted, &fell);
		if (status == NV_OK && !is_near(session, fell, wanted))
			return verdict_skipped(session,
				"after %s %lld bytes less are free than at first, expected were %lld; where others use "
				"the card, try again when it is quiet",
				stages[i].what, LLD(fell), LLD(wanted));
	}
	if (status != NV_OK)
		return verdict_failed(session, "free memory: %s", call_text(session, status));
	return PASSED;
}

enum verdict stages_run(struct session *session, const struct stage *stages, size_t count)
{
	enum verdict verdict = SKIPPED;
	u32 i;

	for (i = 0; verdict == SKIPPED && i < session->driver->attempts; i++) {
		verdict = attempt(session, stages, count);
		if (verdict != PASSED)
			session_clean(session);
	}
	return verdict == SKIPPED ? FAILED : verdict;
}
