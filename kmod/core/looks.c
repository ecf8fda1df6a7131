// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* How often the driver's samples of utilisation are looked at, and what a look is worth. */
#include "cgpu_turn.h"

/* Twenty-five busy processes fill the driver's 72 places in less than half a second. */
#define SOON_NS (CGPU_SAMPLES_NS / 8)
/* Who was busy goes on for a while. */
#define HURRY_NS (10 * CGPU_SAMPLES_NS)

enum cgpu_look cgpu_looks_add(struct cgpu_looks *looks, enum cgpu_look look, u64 now)
{
	if (look == CGPU_LOOK_LOST)
		looks->hurry = now + HURRY_NS;
	if (look != CGPU_LOOK_WHOLE)
		looks->missed = look;
	looks->after = now < looks->hurry ? SOON_NS : CGPU_SAMPLES_NS;
	if (now < looks->whole)
		return CGPU_LOOK_PART;
	looks->whole = now + CGPU_SAMPLES_NS - SOON_NS / 2;
	look = looks->missed;
	looks->missed = CGPU_LOOK_WHOLE;
	return look;
}
