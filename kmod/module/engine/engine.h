/* SPDX-License-Identifier: GPL-2.0 */
/* Between engine.c, which lets calls into the core in use, and cores.c, which says which one that is. All of it under the
 * control lock. */
#ifndef CGPU_KM_ENGINE_H
#define CGPU_KM_ENGINE_H

#include "km.h"

/* NULL: no core is loaded. */
struct km_engine *engine_current(void);
struct km_engine *engine_make(struct cgpu_km_core *logic, struct cgpu_state *on);
/* Of one that nobody uses. */
void engine_release(struct km_engine *engine);
void engine_use(struct km_engine *engine);
/* Let no more calls in, and wait until those inside have come out. -EBUSY: they did not in time. Then resume. */
int engine_quiesce(struct km_engine *engine);
void engine_resume(void);
/* While nobody is inside: let nobody in who has found it before and is late. */
void engine_end(struct km_engine *engine);
/* It is no longer in use. Calls that began in it end in it, where its module is held for them; else it must be left
 * before the module may go. */
void engine_leave(struct km_engine *engine);
/* Whether the core's module is held for containers. */
bool engine_has_containers(void);

#endif
