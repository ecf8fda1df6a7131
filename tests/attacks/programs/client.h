/* SPDX-License-Identifier: Apache-2.0 */
/* What the programs of the attacks share: cgpu-probe's way to speak to the driver, and how they rest. */
#ifndef ATTACK_CLIENT_H
#define ATTACK_CLIENT_H

#include "probe.h"

/* Takes "--dev DIR" from the front of the arguments, and what else the driver must be asked first. Ends the program
 * when there is no driver. */
void client_begin(struct settings *settings, int *argc, char ***argv);
/* A client with one card. Ends the program when it is refused. */
void client_open(struct session *session, const struct settings *settings);
/* As often as it goes; how much that was. */
uint64_t client_fill(struct session *session, uint64_t piece);
/* Whoever started the program sends a line for the next step. Ends the program, whose descriptors go with it, at the
 * end of standard input. */
void client_next(void);
/* Signals in the midst of calls, so often; 0: no more. flags: of sigaction(2), whether the kernel starts a call anew. */
void client_rain(int flags, int microseconds);
/* How many there were. */
long client_alarms(void);

#endif
