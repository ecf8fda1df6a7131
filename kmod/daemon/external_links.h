/* SPDX-License-Identifier: Apache-2.0 */
/* Chains of mappings, by place and by file. With the lock held. */
#ifndef CGPUD_EXTERNAL_LINKS_H
#define CGPUD_EXTERNAL_LINKS_H

#include "external.h"

/* Head of the chain (by next) that has the mappings at a place among others. */
u32 external_bucket(const struct external *x, u32 file, u64 start);
/* Write a mapping into the place of its hold; it counts from then on. */
void external_link(struct external *x, const struct cgpu_hold *hold, const struct external_map *map);
void external_unlink(struct external *x, u32 at);
/* Make all chains anew from what is written. Mappings of files that do not count are forgotten. */
void external_relink(struct external *x);

#endif
