/* SPDX-License-Identifier: Apache-2.0 */
/* Chains of mappings, by place and by file, and what the parts of external.h share. With the lock held. */
#ifndef CGPUD_EXTERNAL_LINKS_H
#define CGPUD_EXTERNAL_LINKS_H

#include "external.h"

/* Head of the chain (by next) that has the mappings at a place among others. */
u32 external_bucket(const struct external *x, u32 file, u64 start);
/* Write a mapping into the place of its hold; it counts from then on. */
void external_link(struct external *x, const struct cgpu_reference *hold, const struct external_map *map);
void external_unlink(struct external *x, u32 at);
/* Make all chains empty, and put in what is written at a place. */
void external_clear(struct external *x);
void external_relink(struct external *x, u32 at);

/* external.c */

/* A mapping goes, with its hold. */
void external_drop(struct cgpud *d, u32 at);
/* The file has mappings, and is not about to be taken apart. */
int external_is_kept(const struct external *x, u32 file);
/* The file has none any more. Returns our copy, for the caller to close without the lock. */
int external_file_end(struct cgpud *d, u32 at);
/* Milliseconds for which a mapping may be under way, seen from when the driver is asked. */
u32 external_underway(const struct external_map *map, const struct external_span *span);

/* external_closed.c; without the lock */

/* Unmap it. 0: the driver could not now. What is no longer mapped there counts as gone. */
int external_unmap(struct cgpud *d, int fd, const struct external_map *map);
/* A file without mappings is none any more. */
void external_forget(struct cgpud *d, u32 at);

#endif
