// SPDX-License-Identifier: Apache-2.0
/* The system calls that open, pass on, use and close files, and a filter that stops at nothing else. */
#define _GNU_SOURCE
#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "recorder.h"

#define X32_BIT 0x40000000u
#define X32_IOCTL 514u

struct entry {
	uint32_t number;
	enum op op;
};

static const struct entry native[] = { { __NR_open, OP_OPEN }, { __NR_creat, OP_OPEN }, { __NR_openat, OP_OPENAT },
	{ __NR_openat2, OP_OPENAT }, { __NR_close, OP_CLOSE }, { __NR_close_range, OP_CLOSE_RANGE },
	{ __NR_dup, OP_DUP }, { __NR_dup2, OP_DUP2 }, { __NR_dup3, OP_DUP2 }, { __NR_fcntl, OP_FCNTL },
	{ __NR_mmap, OP_MMAP }, { __NR_munmap, OP_MUNMAP }, { __NR_ioctl, OP_IOCTL }, { X32_IOCTL, OP_IOCTL },
	{ __NR_unshare, OP_UNSHARE } };

/* arch/x86/entry/syscalls/syscall_32.tbl */
static const struct entry compat[] = { { 5, OP_OPEN }, { 8, OP_OPEN }, { 295, OP_OPENAT }, { 437, OP_OPENAT },
	{ 6, OP_CLOSE }, { 436, OP_CLOSE_RANGE }, { 41, OP_DUP }, { 63, OP_DUP2 }, { 330, OP_DUP2 }, { 55, OP_FCNTL },
	{ 221, OP_FCNTL }, { 192, OP_MMAP }, { 91, OP_MUNMAP }, { 54, OP_IOCTL }, { 310, OP_UNSHARE } };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum op op_of(uint32_t arch, uint64_t number)
{
	const struct entry *entries = arch == AUDIT_ARCH_X86_64 ? native : compat;
	size_t count = arch == AUDIT_ARCH_X86_64 ? COUNT(native) : COUNT(compat), i;

	if (arch != AUDIT_ARCH_X86_64 && arch != AUDIT_ARCH_I386)
		return OP_NONE;
	if (arch == AUDIT_ARCH_X86_64)
		number &= ~(uint64_t)X32_BIT;
	for (i = 0; i < count; i++) {
		if (entries[i].number == number)
			return entries[i].op;
	}
	return OP_NONE;
}

const char *abi_name(uint32_t arch, uint64_t number)
{
	if (arch == AUDIT_ARCH_I386)
		return "i386";
	return number & X32_BIT ? "x32" : NULL;
}

#define MOST_STEPS 160u
#define LOW_WORD(index) (uint32_t)(offsetof(struct seccomp_data, args) + 8 * (index))

struct program {
	struct sock_filter step[MOST_STEPS];
	unsigned short count;
};

static void add(struct program *program, unsigned short code, uint32_t value, uint8_t yes, uint8_t no)
{
	if (program->count < MOST_STEPS)
		program->step[program->count++] = (struct sock_filter){ code, yes, no, value };
}

static void add_return(struct program *program, uint32_t action)
{
	add(program, BPF_RET | BPF_K, action, 0, 0);
}

/* fcntl and mmap are frequent: calls that make no descriptor, or map no file, go on without a stop. */
static void add_entry(struct program *program, const struct entry *entry)
{
	bool fcntl_call = entry->op == OP_FCNTL, mmap_call = entry->op == OP_MMAP;

	add(program, BPF_JMP | BPF_JEQ | BPF_K, entry->number, 0, fcntl_call ? 5 : mmap_call ? 4 : 1);
	if (fcntl_call) {
		add(program, BPF_LD | BPF_W | BPF_ABS, LOW_WORD(1), 0, 0);
		add(program, BPF_JMP | BPF_JEQ | BPF_K, F_DUPFD, 2, 0);
		add(program, BPF_JMP | BPF_JEQ | BPF_K, F_DUPFD_CLOEXEC, 1, 0);
		add_return(program, SECCOMP_RET_ALLOW);
	} else if (mmap_call) {
		add(program, BPF_LD | BPF_W | BPF_ABS, LOW_WORD(4), 0, 0);
		add(program, BPF_JMP | BPF_JEQ | BPF_K, UINT32_MAX, 0, 1);
		add_return(program, SECCOMP_RET_ALLOW);
	}
	add_return(program, SECCOMP_RET_TRACE);
}

static uint8_t steps_of(const struct entry *entries, size_t count)
{
	struct program program = { .count = 0 };
	size_t i;

	for (i = 0; i < count; i++)
		add_entry(&program, &entries[i]);
	return (uint8_t)program.count;
}

static void add_calls(struct program *program, uint32_t arch, uint32_t mask, const struct entry *entries, size_t count)
{
	size_t i;

	add(program, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
	/* Another machine: jump over the two steps below, the entries and the return. */
	add(program, BPF_JMP | BPF_JEQ | BPF_K, arch, 0, (uint8_t)(steps_of(entries, count) + 3));
	add(program, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
	add(program, BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
	for (i = 0; i < count; i++)
		add_entry(program, &entries[i]);
	add_return(program, SECCOMP_RET_ALLOW);
}

int filter_install(void)
{
	struct program program = { .count = 0 };
	struct sock_fprog given = { .filter = program.step };

	add_calls(&program, AUDIT_ARCH_X86_64, ~X32_BIT, native, COUNT(native));
	add_calls(&program, AUDIT_ARCH_I386, UINT32_MAX, compat, COUNT(compat));
	add_return(&program, SECCOMP_RET_ALLOW);
	given.len = program.count;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &given) == 0)
		return 0;
	/* Only root may install a filter without this bit: programs gain no rights then, which traced ones never do. */
	if (errno != EACCES || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &given);
}
