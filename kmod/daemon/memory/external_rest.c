// SPDX-License-Identifier: Apache-2.0
/*
 * Drivers from 590 on free a range by its start alone. What a container has said of the range's length when it made it went
 * on in the container, and is not believed: the driver itself is asked, mapping by mapping upwards, whether there is still a
 * range around it. Ranges do not overlap and are never split, so the first one that is there ends the search.
 */
#define _GNU_SOURCE
#include <unistd.h>

#include "engine.h"
#include "external.h"
#include "external_links.h"
#include "uvm.h"

#define BATCH 16 /* in one walk over a file's mappings */

struct piece {
	u32 at;
	struct external_map map;
};

static int is_lower(const struct external_map *a, const struct external_map *b)
{
	return a->start < b->start || (a->start == b->start && a->serial < b->serial);
}

/* Keep the lowest ones, in order. */
static u32 insert(struct piece *piece, u32 count, u32 at, const struct external_map *map)
{
	u32 i = count < BATCH ? count : BATCH - 1;

	if (count == BATCH && !is_lower(map, &piece[BATCH - 1].map))
		return count;
	for (; i > 0 && is_lower(map, &piece[i - 1].map); i--)
		piece[i] = piece[i - 1];
	piece[i] = (struct piece){ .at = at, .map = *map };
	return count < BATCH ? count + 1 : count;
}

/* The next mappings above one. */
static u32 collect(struct external *x, u32 file, const struct external_span *span, const struct external_map *above,
	struct piece *piece)
{
	u32 at, count = 0;

	pthread_mutex_lock(&x->lock);
	at = external_is_kept(x, file) ? x->first[file] : EXTERNAL_NONE;
	for (; at != EXTERNAL_NONE; at = x->store->map[at].after) {
		const struct external_map *map = &x->store->map[at];

		/* Memory for other devices is a range of its own. */
		if (!map->p2p && map->serial <= span->latest && is_lower(above, map))
			count = insert(piece, count, at, map);
	}
	pthread_mutex_unlock(&x->lock);
	return count;
}

static void drop(struct cgpud *d, u32 file, const struct external_span *span, const struct piece *piece)
{
	struct external *x = &d->external;
	const struct external_map *map = &x->store->map[piece->at];
	int unused = -1;

	pthread_mutex_lock(&x->lock);
	if (external_is_kept(x, file) && map->serial == piece->map.serial && map->file == file &&
		!external_underway(map, span))
		external_drop(d, piece->at);
	if (external_is_kept(x, file) && x->first[file] == EXTERNAL_NONE)
		unused = external_file_end(d, file);
	pthread_mutex_unlock(&x->lock);
	if (unused >= 0)
		close(unused);
}

void external_rest(struct cgpud *d, u32 file, const struct external_span *span, int fd)
{
	struct external_map above = { .start = span->start, .serial = ~0ull };
	struct piece piece[BATCH];
	u32 count, i;

	do {
		count = collect(&d->external, file, span, &above, piece);
		for (i = 0; i < count; i++) {
			if (uvm_has_range(d->core.abi, fd, &piece[i].map))
				return;
			drop(d, file, span, &piece[i]);
			above = piece[i].map;
		}
	} while (count == BATCH);
}
