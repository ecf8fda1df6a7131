/* SPDX-License-Identifier: Apache-2.0 */
/* One look, as it is asked of a helper. For looks.c, which has a function for each. */
#ifndef CGPUD_ASKING_H
#define CGPUD_ASKING_H

#include "looks.h"
#include "messages.h"

/* A look under way: request and answer. */
struct look_under_way {
	const struct asker *asker;
	u64 until;
	struct looks_place *place;
	struct look_request request;
	const void *data; /* that goes with the request */
	int given; /* a descriptor that does; -1 */
	const struct look_memory *memory; /* that is read or written; NULL */
	u32 opens_memory; /* 1: it may open one */
	struct look_answer answer;
	int opened; /* that came with the answer; -1 */
	int copy; /* of a descriptor that the helper holds; -1 */
	struct look_memory opened_memory;
	void *in; /* buffer for data behind the answer; NULL: the asker does not want it */
	size_t room;
};

/* Called with each answer of a look that has several. */
typedef void (*answer_fn)(void *ctx, const struct look_under_way *look);

/* Returns the look's result, or a negative errno when it was not made. each: may be NULL. */
int make_look(struct look_under_way *look, answer_fn each, void *ctx);

#endif
