// SPDX-License-Identifier: Apache-2.0
/* Runs classic BPF on calls of the driver, with every argument unknown that does not say which call it is. */
#define _GNU_SOURCE
#include <linux/bpf_common.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>

#include "filter.h"
#include "system_calls.h"

#define BRANCHES_MAX 64 /* that wait to be followed */
#define STEPS_MAX 65536 /* of one call through one filter */
#define SIZE_SHIFT 16
#define SIZE_COUNT 14
#define SAMPLES 32 /* call numbers for each size */

struct value {
	u32 known;
	u32 is;
};

struct machine {
	u32 at;
	struct value a, x, memory[BPF_MEMWORDS];
};

struct run {
	const struct filter *filter;
	struct value data[sizeof(struct seccomp_data) / sizeof(u32)];
	struct machine waiting[BRANCHES_MAX];
	u32 count;
};

static struct value known(u32 is)
{
	return (struct value){ 1, is };
}

static struct value load(const struct run *run, const struct machine *m, const struct sock_filter *in)
{
	u32 word = in->k / sizeof(u32);

	switch (BPF_MODE(in->code)) {
	case BPF_IMM:
		return known(in->k);
	case BPF_LEN:
		return known(sizeof(struct seccomp_data));
	case BPF_MEM:
		return in->k < BPF_MEMWORDS ? m->memory[in->k] : (struct value){ 0, 0 };
	case BPF_ABS:
		return in->k % sizeof(u32) == 0 && word < sizeof(run->data) / sizeof(run->data[0]) ?
			run->data[word] :
			(struct value){ 0, 0 };
	default:
		return (struct value){ 0, 0 };
	}
}

static struct value computed(struct value a, u16 code, struct value b)
{
	u32 op = BPF_OP(code);

	if (op == BPF_NEG)
		return (struct value){ a.known, -a.is };
	/* A mask of 0 makes any value 0. */
	if (op == BPF_AND && b.known && b.is == 0)
		return known(0);
	if (!a.known || !b.known || ((op == BPF_DIV || op == BPF_MOD) && b.is == 0))
		return (struct value){ 0, 0 };
	switch (op) {
	case BPF_ADD:
		return known(a.is + b.is);
	case BPF_SUB:
		return known(a.is - b.is);
	case BPF_MUL:
		return known(a.is * b.is);
	case BPF_DIV:
		return known(a.is / b.is);
	case BPF_MOD:
		return known(a.is % b.is);
	case BPF_OR:
		return known(a.is | b.is);
	case BPF_AND:
		return known(a.is & b.is);
	case BPF_XOR:
		return known(a.is ^ b.is);
	case BPF_LSH:
		return known(b.is < 32 ? a.is << b.is : 0);
	case BPF_RSH:
		return known(b.is < 32 ? a.is >> b.is : 0);
	default:
		return (struct value){ 0, 0 };
	}
}

static int compared(u16 code, u32 a, u32 b)
{
	switch (BPF_OP(code)) {
	case BPF_JEQ:
		return a == b;
	case BPF_JGT:
		return a > b;
	case BPF_JGE:
		return a >= b;
	default:
		return (a & b) != 0;
	}
}

/* Go on after a jump; an undecidable jump queues its other branch. 0 when too many branches wait. */
static int jump(struct run *run, struct machine *m, const struct sock_filter *in)
{
	struct value b = BPF_SRC(in->code) == BPF_X ? m->x : known(in->k);

	if (BPF_OP(in->code) == BPF_JA) {
		m->at += in->k;
		return 1;
	}
	if (m->a.known && b.known) {
		m->at += compared(in->code, m->a.is, b.is) ? in->jt : in->jf;
		return 1;
	}
	if (run->count == BRANCHES_MAX)
		return 0;
	run->waiting[run->count] = *m;
	run->waiting[run->count++].at += in->jf;
	m->at += in->jt;
	return 1;
}

/* Run an instruction that is no return on the machine. 0 when it cannot be followed. */
static int step(struct run *run, struct machine *m, const struct sock_filter *in)
{
	switch (BPF_CLASS(in->code)) {
	case BPF_LD:
		m->a = load(run, m, in);
		return 1;
	case BPF_LDX:
		m->x = load(run, m, in);
		return 1;
	case BPF_ST:
	case BPF_STX:
		if (in->k >= BPF_MEMWORDS)
			return 0;
		m->memory[in->k] = BPF_CLASS(in->code) == BPF_ST ? m->a : m->x;
		return 1;
	case BPF_ALU:
		m->a = computed(m->a, in->code, BPF_SRC(in->code) == BPF_X ? m->x : known(in->k));
		return 1;
	case BPF_JMP:
		return jump(run, m, in);
	case BPF_MISC:
		if (BPF_MISCOP(in->code) == BPF_TAX)
			m->x = m->a;
		else
			m->a = m->x;
		return 1;
	default:
		return 0;
	}
}

static int is_held(struct value result)
{
	if (!result.known)
		return 0;
	switch (result.is & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_USER_NOTIF:
	case SECCOMP_RET_ERRNO:
	case SECCOMP_RET_TRAP:
	case SECCOMP_RET_KILL_THREAD:
	case SECCOMP_RET_KILL_PROCESS:
		return 1;
	default:
		return 0;
	}
}

static int run_all(struct run *run)
{
	struct machine *m;
	struct machine now;
	u32 steps = 0;

	while (run->count) {
		now = run->waiting[--run->count];
		m = &now;
		for (;;) {
			const struct sock_filter *in = &run->filter->code[m->at];

			if (m->at >= run->filter->count || ++steps > STEPS_MAX)
				return 0;
			m->at++;
			if (BPF_CLASS(in->code) == BPF_RET) {
				if (!is_held(BPF_RVAL(in->code) == BPF_A ? m->a : known(in->k)))
					return 0;
				break;
			}
			if (!step(run, m, in))
				return 0;
		}
	}
	return 1;
}

int filter_holds(const struct filter *filter, u32 arch, u32 number, u64 command)
{
	const u32 second = offsetof(struct seccomp_data, args[1]) / sizeof(u32);
	struct run run;

	run.filter = filter;
	run.count = 1;
	memset(run.data, 0, sizeof(run.data));
	run.data[offsetof(struct seccomp_data, nr) / sizeof(u32)] = known(number);
	run.data[offsetof(struct seccomp_data, arch) / sizeof(u32)] = known(arch);
	/* Little endian, as all machines that are supported. */
	run.data[second] = known((u32)command);
	run.data[second + 1] = known((u32)(command >> 32));
	run.waiting[0] = (struct machine){ .a = known(0), .x = known(0) };
	return run_all(&run);
}

static int one_holds(const struct filter *const *filters, u32 count, u32 table, u64 command)
{
	u32 i;

	for (i = 0; i < count; i++)
		if (filter_holds(filters[i], system_calls[table].arch, system_calls[table].ioctl, command))
			return 1;
	return 0;
}

static u64 mixed(u64 *state)
{
	u64 z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

int filters_hold(const struct filter *const *filters, u32 count, u64 salt)
{
	u32 table, shift, i;

	for (table = 0; table < SYSTEM_CALL_TABLES; table++) {
		/* UVM's numbers, which have neither size nor type. */
		for (i = 0; i < SAMPLES; i++)
			if (!one_holds(filters, count, table, mixed(&salt) & 0xff))
				return 0;
		for (shift = SIZE_SHIFT; shift < SIZE_SHIFT + SIZE_COUNT; shift++)
			for (i = 0; i < SAMPLES; i++)
				if (!one_holds(filters, count, table, mixed(&salt) | 1ull << shift))
					return 0;
	}
	return 1;
}
