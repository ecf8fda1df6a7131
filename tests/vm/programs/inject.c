// SPDX-License-Identifier: Apache-2.0
/*
 * inject MIB: makes another process of the container ask for memory by ptrace, until it is refused, and prints how much
 * that was. The other one has opened the driver, and never asks for anything by itself.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/ioctl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

#define SYSCALL_BYTES 2

static uint8_t call[64], params[160];

static void poke(pid_t victim, uint8_t *at, const void *data, size_t bytes)
{
	size_t i;
	long word;

	for (i = 0; i < bytes; i += sizeof(word)) {
		memcpy(&word, (const uint8_t *)data + i, sizeof(word));
		ptrace(PTRACE_POKEDATA, victim, at + i, word);
	}
}

/* Runs a system call in the victim, which stopped in one: its registers point behind that. */
static long long run(pid_t victim, const struct user_regs_struct *before, const unsigned long arguments[3])
{
	struct user_regs_struct now = *before;
	int turn;

	now.rip -= SYSCALL_BYTES;
	now.rax = SYS_ioctl;
	now.orig_rax = (unsigned long long)-1;
	now.rdi = arguments[0];
	now.rsi = arguments[1];
	now.rdx = arguments[2];
	ptrace(PTRACE_SETREGS, victim, NULL, &now);
	/* Into it, and out of it. */
	for (turn = 0; turn < 2; turn++) {
		ptrace(PTRACE_SYSCALL, victim, NULL, NULL);
		waitpid(victim, NULL, 0);
	}
	ptrace(PTRACE_GETREGS, victim, NULL, &now);
	return (long long)now.rax;
}

static uint32_t ask(pid_t victim, const struct user_regs_struct *registers, const struct session *session,
	uint32_t handle, uint64_t size)
{
	const struct nv_abi *abi = session->settings->abi;
	struct rm_ioctl io = rm_alloc_ioctl(
		abi, VIA_RM64, session->client, session->device, handle, NV01_MEMORY_LOCAL_USER, params, 0);
	unsigned long arguments[3] = { (unsigned long)session->ctl, _IOC(3u, NV_IOCTL_MAGIC, io.nr, io.bytes),
		(unsigned long)(uintptr_t)call };
	uint8_t fresh[sizeof(params)] = { 0 };

	rm_memory_params(fresh, abi, NVOS32_ATTR_PAGE_SIZE_BIG << NVOS32_ATTR_PAGE_SIZE_SHIFT, size);
	poke(victim, params, fresh, sizeof(params));
	poke(victim, call, io.data, sizeof(call));
	if (run(victim, registers, arguments) != 0)
		return RM_ERRNO;
	return (uint32_t)ptrace(PTRACE_PEEKDATA, victim, call + io.status, NULL);
}

int main(int argc, char **argv)
{
	struct user_regs_struct registers;
	struct settings settings;
	struct session session;
	uint32_t status, count = 0;
	uint64_t size;
	pid_t victim;

	client_begin(&settings, &argc, &argv);
	size = argc > 0 ? strtoull(argv[0], NULL, 10) << 20 : 0;
	if (!size)
		return 2;
	/* Opened before the fork: the client is the same for both. */
	client_open(&session, &settings);
	victim = fork();
	if (victim == 0)
		client_rest();
	if (victim < 0 || ptrace(PTRACE_ATTACH, victim, NULL, NULL) || waitpid(victim, NULL, 0) < 0 ||
		ptrace(PTRACE_SYSCALL, victim, NULL, NULL))
		return 1;
	/* It enters pause() again, and is kept from sleeping there. */
	waitpid(victim, NULL, 0);
	ptrace(PTRACE_GETREGS, victim, NULL, &registers);
	registers.orig_rax = (unsigned long long)-1;
	ptrace(PTRACE_SETREGS, victim, NULL, &registers);
	ptrace(PTRACE_SYSCALL, victim, NULL, NULL);
	waitpid(victim, NULL, 0);
	do {
		status = ask(victim, &registers, &session, 0x700 + count, size);
		count += status == NV_OK;
	} while (status == NV_OK);
	printf("injected bytes=%llu status=%#x\n", (unsigned long long)(count * size), status);
	kill(victim, SIGKILL);
	waitpid(victim, NULL, 0);
	return 0;
}
