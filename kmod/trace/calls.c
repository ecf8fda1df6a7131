// SPDX-License-Identifier: Apache-2.0
/* The system calls that open, duplicate, use and close files, and a seccomp filter that stops a program only there. */
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
#define X32_IOCTL 514u /* arch/x86/entry/syscalls/syscall_64.tbl: x32 has an ioctl number of its own */

struct followed_call {
	uint32_t number; /* of the system call, without X32_BIT */
	enum op op;
};

static const struct followed_call x86_64_calls[] = { { __NR_open, OP_OPEN }, { __NR_creat, OP_OPEN },
	{ __NR_openat, OP_OPENAT }, { __NR_openat2, OP_OPENAT }, { __NR_close, OP_CLOSE },
	{ __NR_close_range, OP_CLOSE_RANGE }, { __NR_dup, OP_DUP }, { __NR_dup2, OP_DUP2 }, { __NR_dup3, OP_DUP2 },
	{ __NR_fcntl, OP_FCNTL }, { __NR_mmap, OP_MMAP }, { __NR_munmap, OP_MUNMAP }, { __NR_ioctl, OP_IOCTL },
	{ X32_IOCTL, OP_IOCTL }, { __NR_unshare, OP_UNSHARE } };

/* Numbers of arch/x86/entry/syscalls/syscall_32.tbl. */
static const struct followed_call i386_calls[] = { { 5, OP_OPEN }, { 8, OP_OPEN }, { 295, OP_OPENAT },
	{ 437, OP_OPENAT }, { 6, OP_CLOSE }, { 436, OP_CLOSE_RANGE }, { 41, OP_DUP }, { 63, OP_DUP2 }, { 330, OP_DUP2 },
	{ 55, OP_FCNTL }, { 221, OP_FCNTL }, { 192, OP_MMAP }, { 91, OP_MUNMAP }, { 54, OP_IOCTL },
	{ 310, OP_UNSHARE } };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum op op_of(uint32_t arch, uint64_t number)
{
	const struct followed_call *calls = arch == AUDIT_ARCH_X86_64 ? x86_64_calls : i386_calls;
	size_t count = arch == AUDIT_ARCH_X86_64 ? COUNT(x86_64_calls) : COUNT(i386_calls), i;

	if (arch != AUDIT_ARCH_X86_64 && arch != AUDIT_ARCH_I386)
		return OP_NONE;
	if (arch == AUDIT_ARCH_X86_64)
		number &= ~(uint64_t)X32_BIT;
	for (i = 0; i < count; i++) {
		if (calls[i].number == number)
			return calls[i].op;
	}
	return OP_NONE;
}

const char *abi_name(uint32_t arch, uint64_t number)
{
	if (arch == AUDIT_ARCH_I386)
		return "i386";
	return number & X32_BIT ? "x32" : NULL;
}

#define MAX_INSTRUCTIONS 160u
/* The offset of the low 32 bits of an argument: a BPF load has 32 bits. */
#define ARGUMENT_LOW_WORD(index) (uint32_t)(offsetof(struct seccomp_data, args) + 8 * (index))

struct program {
	struct sock_filter instruction[MAX_INSTRUCTIONS];
	unsigned short count;
};

/* if_true, if_false: how many instructions a jump skips. */
static void add(struct program *program, unsigned short code, uint32_t value, uint8_t if_true, uint8_t if_false)
{
	if (program->count < MAX_INSTRUCTIONS)
		program->instruction[program->count++] = (struct sock_filter){ code, if_true, if_false, value };
}

static void add_return(struct program *program, uint32_t action)
{
	add(program, BPF_RET | BPF_K, action, 0, 0);
}

/*
 * fcntl and mmap are frequent. The filter stops a process at fcntl only for F_DUPFD and F_DUPFD_CLOEXEC, which make a
 * descriptor, and at mmap only for a descriptor other than -1, with which mmap maps a file.
 */
static void add_call(struct program *program, const struct followed_call *call)
{
	bool is_fcntl = call->op == OP_FCNTL, is_mmap = call->op == OP_MMAP;

	add(program, BPF_JMP | BPF_JEQ | BPF_K, call->number, 0, is_fcntl ? 5 : is_mmap ? 4 : 1);
	if (is_fcntl) {
		add(program, BPF_LD | BPF_W | BPF_ABS, ARGUMENT_LOW_WORD(1), 0, 0);
		add(program, BPF_JMP | BPF_JEQ | BPF_K, F_DUPFD, 2, 0);
		add(program, BPF_JMP | BPF_JEQ | BPF_K, F_DUPFD_CLOEXEC, 1, 0);
		add_return(program, SECCOMP_RET_ALLOW);
	} else if (is_mmap) {
		add(program, BPF_LD | BPF_W | BPF_ABS, ARGUMENT_LOW_WORD(4), 0, 0);
		add(program, BPF_JMP | BPF_JEQ | BPF_K, UINT32_MAX, 0, 1);
		add_return(program, SECCOMP_RET_ALLOW);
	}
	add_return(program, SECCOMP_RET_TRACE);
}

static uint8_t instruction_count(const struct followed_call *calls, size_t count)
{
	struct program program = { .count = 0 };
	size_t i;

	for (i = 0; i < count; i++)
		add_call(&program, &calls[i]);
	return (uint8_t)program.count;
}

/* mask: the bits of a system call's number to compare. */
static void add_architecture(
	struct program *program, uint32_t arch, uint32_t mask, const struct followed_call *calls, size_t count)
{
	size_t i;

	add(program, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
	/* For another architecture, skip the next two instructions, those of the calls, and the return. */
	add(program, BPF_JMP | BPF_JEQ | BPF_K, arch, 0, (uint8_t)(instruction_count(calls, count) + 3));
	add(program, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
	add(program, BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
	for (i = 0; i < count; i++)
		add_call(program, &calls[i]);
	add_return(program, SECCOMP_RET_ALLOW);
}

int filter_install(void)
{
	struct program program = { .count = 0 };
	struct sock_fprog fprog = { .filter = program.instruction };

	add_architecture(&program, AUDIT_ARCH_X86_64, ~X32_BIT, x86_64_calls, COUNT(x86_64_calls));
	add_architecture(&program, AUDIT_ARCH_I386, UINT32_MAX, i386_calls, COUNT(i386_calls));
	add_return(&program, SECCOMP_RET_ALLOW);
	fprog.len = program.count;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &fprog) == 0)
		return 0;
	/*
	 * A process without CAP_SYS_ADMIN needs PR_SET_NO_NEW_PRIVS to install a filter (seccomp(2)). Set-user-ID
	 * programs then gain no rights; under a tracer without CAP_SYS_PTRACE they gain none anyway (execve(2)).
	 */
	if (errno != EACCES || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &fprog);
}
