/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that no thread has taken. A signal can interrupt a thread while its call is in the driver; the call
 * is then restarted, and must not happen twice. The answer is kept for the restarted call of the thread,
 * and taken back when the thread does something else or ends.
 *
 * An answer that was sent can be lost too: the thread may have left its wait for a signal, and only then
 * see the answer (kernel/seccomp.c, seccomp_do_user_notification). The last answer that changed
 * something is therefore remembered for a moment, for a call that repeats it to the last byte. When the
 * container has undone the call meanwhile, or may have, the call runs again: the driver then says whether
 * it had been done already.
 */
#ifndef CGPUD_REPLY_CACHE_H
#define CGPUD_REPLY_CACHE_H

#include "engine.h"
#include "task.h"

/* Keep the executed call, or take it back at once when its thread has ended. */
void reply_keep(struct cgpud *d, struct in_flight *e);
/* If e, which has only just been received, restarts a call that has an answer, returns the call that
 * holds it; the caller has it then. sure 0: e is to be run, and the answer counts if reply_stands() says so.
 * Anything else kept for the thread is taken back. */
struct in_flight *reply_find(struct cgpud *d, struct in_flight *e, const struct task *task, u32 *sure);
/* 1 when the driver's answer to e, run again, shows that its first run is still in force. */
int reply_stands(const struct cgpud *d, const struct in_flight *e);
/* Release a call whose answer was sent. */
void reply_sent(struct cgpud *d, struct in_flight *e);
/* Take back answers whose threads have ended, or (all) the oldest one to make room. */
void reply_cache_sweep(struct cgpud *d, u32 all);

#endif
