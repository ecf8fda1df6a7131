// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
/* Reserving and releasing what a share has of a GPU, and registering a container by its shares. */
#include "ledger/ledger.h"
#include "registry/registry.h"
#include "sched/sched.h"
#include "lib/text.h"

/* --- the lines --- */

static int is_the_same(const struct core_reservation *reservation, u32 gpu, const struct core_want *want)
{
	return want->gpu == gpu && core_slice_same(&want->slice, &reservation->slice);
}

static u32 free_number(struct cgpu_state *state, u32 gpu)
{
	u32 i;

	for (i = 0; i < CGPU_MAX_INST; i++) {
		if (core_reservation(state, gpu, i) == NULL)
			return i;
	}
	return CORE_NONE;
}

static int refuse_other_values(const struct core_reservation *there, u32 gpu, struct cgpu_refusal *why)
{
	char words[192];
	struct core_text out;

	core_text_start(&out, words, sizeof(words) - 1);
	core_slice_words(&there->slice, &out);
	words[out.length] = 0;
	return core_refuse_line(why, -EEXIST, "it is reserved already: %llu MiB of GPU %u,%s; release it first",
		there->slice.memsize / CORE_MIB, gpu, words);
}

/* 1: the same reservation is there already. */
static int check_name(struct cgpu_state *state, const struct core_create *create)
{
	const struct core_reservation *there;
	u32 gpu;

	there = core_reservation_find(state, create->id, strlen(create->id), &gpu);
	if (there == NULL)
		return 0;
	return is_the_same(there, gpu, &create->want[0]) ? 1 : refuse_other_values(there, gpu, create->why);
}

/* Give the errors of a container with the same request, in their order; less weight than requested is an error, too. */
static int check_room(struct cgpu_state *state, const struct core_want *want, struct cgpu_refusal *why)
{
	int err = core_want_check_gpu(state, want, why);

	if (err == 0)
		err = core_want_check_weight(state, want, why);
	if (err == 0)
		err = core_want_check_place(state, want, why);
	if (err == 0 && free_number(state, want->gpu) == CORE_NONE)
		err = -ENOSPC;
	if (err == 0)
		err = core_want_check_memory(state, want, why);
	if (err == 0)
		err = core_want_check_free_weight(state, want, why);
	return err;
}

/* The mark comes last: a process that dies in here has reserved all or nothing. */
static void reservation_write(struct cgpu_state *state, const struct core_create *create)
{
	const struct core_want *want = &create->want[0];
	struct core_reservation *reservation = &state->reservation[want->gpu][free_number(state, want->gpu)];

	core_assert_locked();
	reservation->live = 0;
	core_barrier();
	memset(reservation, 0, sizeof(*reservation));
	reservation->slot = CORE_NONE;
	reservation->slice = want->slice;
	memcpy(reservation->id, create->id, sizeof(reservation->id));
	core_barrier();
	reservation->live = CORE_LIVE;
}

static void say(struct cgpu_core *core, const char *id, const char *what, const struct core_want *want)
{
	struct core_text out;
	char line[CGPU_ID_BYTES + 96];

	core_text_start(&out, line, sizeof(line) - 1);
	core_text_format(&out, "share %s%s", id, what);
	if (want)
		core_text_format(&out, "%llu MiB of GPU %u", want->slice.memsize / CORE_MIB, want->gpu);
	line[out.length] = 0;
	core->ops->log(core->ctx, 6, line);
}

/* 1: it was there already. */
static int reserve_try(struct cgpu_core *core, const struct core_create *create)
{
	int err;

	core_lock(core);
	core_pages_look(core, create->want[0].gpu);
	err = check_name(core->state, create);
	if (err == 0)
		err = check_room(core->state, &create->want[0], create->why);
	if (err == 0)
		reservation_write(core->state, create);
	core_unlock(core);
	return err;
}

static int is_there(struct cgpu_core *core, const struct core_create *create)
{
	int err;

	core_lock(core);
	err = check_name(core->state, create);
	if (err == 0 && core_gpu(core->state, create->want[0].gpu) == NULL)
		err = core_refuse_unknown_gpu(core->state, create->why, create->want[0].gpu);
	core_unlock(core);
	return err;
}

int core_share_reserve(struct cgpu_core *core, const struct core_create *create)
{
	int err = is_there(core, create);

	if (err)
		return err == 1 ? 0 : err;
	if (core->ops->cards)
		core->ops->cards(core->ctx, 1u << create->want[0].gpu);
	err = reserve_try(core, create);
	if (core_orphans_settle(core, err))
		err = reserve_try(core, create);
	if (err == 0)
		say(core, create->id, " reserved: ", &create->want[0]);
	return err == 1 ? 0 : err;
}

static int refuse_used(
	struct cgpu_state *state, const struct core_reservation *reservation, u32 gpu, struct cgpu_refusal *why)
{
	return core_refuse_line(why, -EBUSY, "container %s uses share %s of GPU %u; end it first",
		state->container[reservation->slot].id, reservation->id, gpu);
}

int core_share_release(struct cgpu_core *core, const struct core_create *create)
{
	struct core_reservation *reservation;
	int err = 0;
	u32 gpu;

	core_lock(core);
	reservation = core_reservation_find(core->state, create->id, strlen(create->id), &gpu);
	if (reservation && core_reservation_user(core->state, gpu, reservation)) {
		err = refuse_used(core->state, reservation, gpu, create->why);
	} else if (reservation) {
		reservation->live = 0;
		core_barrier();
		memset(reservation, 0, sizeof(*reservation));
	}
	core_unlock(core);
	if (reservation && err == 0)
		say(core, create->id, " released", NULL);
	return err;
}

/* --- a container by its shares --- */

static struct core_reservation *named(struct cgpu_state *state, const struct core_create *create, u32 which, u32 *gpu)
{
	const struct core_share_name *name = &create->share[which];

	return core_reservation_find(state, create->line + name->at, name->length, gpu);
}

/* Request for a GPU as it is so far, or a new empty one. */
static struct core_want *want_of(struct core_create *create, u32 gpu)
{
	struct core_want *want;
	u32 i;

	for (i = 0; i < create->count; i++) {
		if (create->want[i].gpu == gpu)
			return &create->want[i];
	}
	want = &create->want[create->count++];
	memset(want, 0, sizeof(*want));
	want->gpu = gpu;
	return want;
}

static int refuse_unreserved(const struct core_create *create, u32 which)
{
	const struct core_share_name *name = &create->share[which];
	char id[CGPU_ID_BYTES];

	core_string_copy(id, sizeof(id), create->line + name->at, name->length);
	return core_refuse_line(create->why, -ENOENT,
		"share %s is not reserved on this node; reserve it before the container starts", id);
}

int core_shares_resolve(struct cgpu_state *state, struct core_create *create)
{
	u32 gpu, i;

	core_assert_locked();
	create->count = 0;
	for (i = 0; i < create->shares; i++) {
		const struct core_reservation *reservation = named(state, create, i, &gpu);
		struct core_want *want;

		if (reservation == NULL)
			return refuse_unreserved(create, i);
		want = want_of(create, gpu);
		core_slice_add(&want->slice, &reservation->slice);
		if (want->slice.weight > state->gpu[gpu].max_inst)
			want->slice.weight = state->gpu[gpu].max_inst;
	}
	return 0;
}

/* Whether a GPU has no number left for an instance. Only a state that something has written into can be so. */
static int is_crowded(struct cgpu_state *state, u32 gpu)
{
	return core_totals(state, gpu).instances >= CGPU_MAX_INST;
}

int core_shares_check(struct cgpu_state *state, const struct core_create *create)
{
	u32 gpu, i;

	for (i = 0; i < create->shares; i++) {
		const struct core_reservation *reservation = named(state, create, i, &gpu);

		if (core_reservation_user(state, gpu, reservation))
			return refuse_used(state, reservation, gpu, create->why);
	}
	for (i = 0; i < create->count; i++) {
		const struct core_gpu *card = &state->gpu[create->want[i].gpu];
		struct core_totals totals = core_totals(state, create->want[i].gpu);

		if (is_crowded(state, create->want[i].gpu))
			return core_refuse_line(create->why, -ENOSPC,
				"GPU %u has no record left for a container; stop one (cgpu-smi lists them)",
				create->want[i].gpu);
		/* The promise stands, but the orphans' memory is on the card as well. */
		if (totals.promised + core_gpu_left(card) > card->facts.memtotal)
			return core_refuse_line(create->why, -ENOMEM,
				"what was promised of GPU %u is not there: removed containers have passed their memory on, and "
				"others hold it; the engine's log names them; start it again when they have ended",
				create->want[i].gpu);
		if (!core_tsg_ids_suffice(card, totals.places, totals.promised))
			return core_refuse_ids(card, create->why);
	}
	return 0;
}

void core_shares_use(struct cgpu_state *state, const struct core_create *create, u32 slot, u64 generation)
{
	u32 gpu, i;

	core_assert_locked();
	for (i = 0; i < create->shares; i++) {
		struct core_reservation *reservation = named(state, create, i, &gpu);

		reservation->slot = slot;
		reservation->generation = generation;
	}
}
