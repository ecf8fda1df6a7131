/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers: expendable processes that look at containers' processes. They are made by a spawner, a process that is
 * forked when the engine opens, has nothing of it but a socket, and looks at nothing: so no container can keep it
 * waiting, and a helper never has a copy of the engine's descriptors. A helper ends by SIGKILL: when it is not needed
 * any more, when it does not answer, and with the spawner, which ends with the engine. The engine leaves a helper that
 * no signal ends.
 */
#ifndef CGPUD_HELPER_H
#define CGPUD_HELPER_H

#include <pthread.h>

#include "messages.h"

#define HELPER_NAME "cgpud-looks"

enum helper_kind {
	HELPER_LOOKS,
	HELPER_TRACES, /* it also stops a process to read its filters */
};

struct spawner {
	pthread_mutex_t lock; /* while it makes one */
	int sock; /* -1: there is none */
};

/* Our side of a helper. */
struct helper {
	struct mailbox *box; /* NULL: there is none */
	int files; /* a socket */
	int pidfd;
};

/* 0 or a negative errno. */
int spawner_open(struct spawner *spawner);
void spawner_close(struct spawner *spawner);
/* Make a helper. 0 or a negative errno. Waits for the spawner, which waits for nobody. */
int helper_start(struct spawner *spawner, enum helper_kind kind, struct helper *helper);
/* End a helper that has nothing to do. */
void helper_end(struct helper *helper);
/* Kill any helper. Returns its pidfd, by which its end is seen, or -1 where there is no helper. */
int helper_kill(struct helper *helper);

#endif
