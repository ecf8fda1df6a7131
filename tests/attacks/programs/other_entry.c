// SPDX-License-Identifier: Apache-2.0
/*
 * other_entry [--dev DIR] WORD...: cgpu-probe as a 64-bit process that makes its driver calls through int 0x80, the entry for
 * 32-bit calls. A preloaded library does not see such a call, nor does a seccomp filter that only knows the 64-bit entry. The
 * program is linked with --wrap=syscall, which sends each syscall() to __wrap_syscall(). An address passed through int 0x80 has
 * 32 bits, so the stack, where the probe has its arguments, lies below 4 GiB.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define STACK_BYTES (1ul << 20)
#define I386_NR_IOCTL 54 /* arch/x86/entry/syscalls/syscall_32.tbl */

int probe_main(int argc, char **argv);
long __real_syscall(long number, long a, long b, long c, long d, long e);
long __wrap_syscall(long number, long a, long b, long c, long d, long e);

static struct {
	int argc, result;
	char **argv;
} probe;

long __wrap_syscall(long number, long a, long b, long c, long d, long e)
{
	long result;

	if (number != SYS_ioctl)
		return __real_syscall(number, a, b, c, d, e);
	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(I386_NR_IOCTL), "b"(a), "c"(b), "d"(c)
			 : "memory", "r8", "r9", "r10", "r11");
	result = (int)result;
	if (result >= 0)
		return result;
	errno = (int)-result;
	return -1;
}

static void *run_probe(void *unused)
{
	(void)unused;
	probe.result = probe_main(probe.argc, probe.argv);
	return NULL;
}

int main(int argc, char **argv)
{
	void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	pthread_attr_t attributes;
	pthread_t thread;

	probe.argc = argc;
	probe.argv = argv;
	pthread_attr_init(&attributes);
	if (stack == MAP_FAILED || pthread_attr_setstack(&attributes, stack, STACK_BYTES) ||
		pthread_create(&thread, &attributes, run_probe, NULL))
		return perror("a stack below 4 GiB"), 1;
	pthread_join(thread, NULL);
	return probe.result;
}
