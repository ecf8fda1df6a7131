// SPDX-License-Identifier: Apache-2.0
/*
 * other_entry [--dev DIR] WORD...: cgpu-probe in a 64-bit process that makes its driver calls by the entry of 32-bit
 * ones, int 0x80, where neither a library nor a filter that only knows the 64-bit entry sees them. Linked with
 * --wrap=syscall; what is pointed to must lie below 4 GiB, so that the stack does.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define STACK (1ul << 20)
#define IOCTL_32 54

int probe_main(int argc, char **argv);
long __real_syscall(long number, long a, long b, long c, long d, long e);
long __wrap_syscall(long number, long a, long b, long c, long d, long e);

static struct {
	int argc, result;
	char **argv;
} all;

long __wrap_syscall(long number, long a, long b, long c, long d, long e)
{
	long answer;

	if (number != SYS_ioctl)
		return __real_syscall(number, a, b, c, d, e);
	__asm__ volatile("int $0x80"
			 : "=a"(answer)
			 : "a"(IOCTL_32), "b"(a), "c"(b), "d"(c)
			 : "memory", "r8", "r9", "r10", "r11");
	answer = (int)answer;
	if (answer >= 0)
		return answer;
	errno = (int)-answer;
	return -1;
}

static void *run(void *unused)
{
	(void)unused;
	all.result = probe_main(all.argc, all.argv);
	return NULL;
}

int main(int argc, char **argv)
{
	void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	pthread_attr_t attributes;
	pthread_t thread;

	all.argc = argc;
	all.argv = argv;
	pthread_attr_init(&attributes);
	if (stack == MAP_FAILED || pthread_attr_setstack(&attributes, stack, STACK) ||
		pthread_create(&thread, &attributes, run, NULL))
		return perror("a stack below 4 GiB"), 1;
	pthread_join(thread, NULL);
	return all.result;
}
