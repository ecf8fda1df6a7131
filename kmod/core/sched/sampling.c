// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0
/* How often the driver's samples of utilisation are read, and what a reading is worth. */
#include "cgpu_round.h"

/* Twenty-five busy processes fill the driver's 72 places in less than half a second. */
#define SOON_NS (CGPU_SAMPLES_NS / 8)
/* Who was busy goes on for a while. */
#define HURRY_NS (10 * CGPU_SAMPLES_NS)

enum cgpu_samples_kind cgpu_sampling_add(struct cgpu_sampling *sampling, enum cgpu_samples_kind look, u64 now)
{
	if (look == CGPU_SAMPLES_LOST)
		sampling->hurry = now + HURRY_NS;
	if (look != CGPU_SAMPLES_WHOLE)
		sampling->missed = look;
	sampling->after = now < sampling->hurry ? SOON_NS : CGPU_SAMPLES_NS;
	if (now < sampling->whole)
		return CGPU_SAMPLES_PART;
	sampling->whole = now + CGPU_SAMPLES_NS - SOON_NS / 2;
	look = sampling->missed;
	sampling->missed = CGPU_SAMPLES_WHOLE;
	return look;
}
