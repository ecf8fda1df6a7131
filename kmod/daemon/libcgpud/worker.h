/* SPDX-License-Identifier: Apache-2.0 */
/* The threads that answer notified calls. */
#ifndef CGPUD_WORKER_H
#define CGPUD_WORKER_H

#include "engine.h"

/* Start the threads that answer notified calls. 0, or a negative errno with a line in error. */
int workers_start(struct cgpud *d, char *error, size_t bytes);
#define WORKERS_STOP_ROUNDS 3000
/* End the workers: a call in the driver is finished first. Returns how many have not ended after so many rounds of
 * about a millisecond, as containers delay them. They still use all of d. */
u32 workers_stop(struct cgpud *d, u32 rounds);
/* The stop was given up: start the workers again that have ended. */
void workers_resume(struct cgpud *d);
/* Close descriptors of workers that have had no call since the last time. Reaper only. */
void workers_tidy(struct cgpud *d);
/* Let a worker do housekeeping, as the reaper's rights are others. */
void workers_wake(struct cgpud *d);

#endif
