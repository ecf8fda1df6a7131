/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers: expendable processes that look at containers' processes. They are made by a spawner, a process that is forked when
 * the engine opens, has nothing of it but a socket, and looks at nothing: so no container can keep it waiting, and a helper
 * never has a copy of what the engine has open. A helper that does not answer is killed; one that no signal ends is left.
 */
#ifndef CGPUD_HELPER_H
#define CGPUD_HELPER_H

#include <pthread.h>

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
	int results, files; /* sockets; -1: there is none */
	int pidfd;
};

/* 0 or a negative errno. */
int spawner_open(struct spawner *spawner);
void spawner_close(struct spawner *spawner);
/* Make a helper. 0 or a negative errno. Waits for the spawner, which waits for nobody. */
int helper_start(struct spawner *spawner, enum helper_kind kind, struct helper *helper);
/* It ends by itself, as soon as it can. */
void helper_end(struct helper *helper);
/* The same by force. Returns its pidfd while it has not ended, else -1. */
int helper_kill(struct helper *helper);

#endif
