// SPDX-License-Identifier: Apache-2.0
/*
 * Linked into a program with --wrap=syscall,--wrap=ioctl: writes each ioctl that the driver has executed as a line into the
 * file that TAP names. The line has type and number of the command (UVM's have no type), and the bytes that lie at its
 * argument afterwards, both in hexadecimal.
 */
#include <fcntl.h>
#include <linux/ioctl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DRIVER_TYPE ((unsigned long)'F')
#define MOST_BYTES 16384u /* UVM's commands do not say the size of their structure */
#define XFER_COMMAND 211u /* NV_ESC_IOCTL_XFER_CMD */

struct transfer {
	uint32_t command, size;
	uint64_t pointer;
};

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
int __wrap_ioctl(int fd, unsigned long command, void *argument);

static void write_line(unsigned long command, uint64_t address, size_t size)
{
	static uint8_t data[MOST_BYTES];
	static char line[2 * MOST_BYTES + 32];
	/* Reading through the file ends where the memory does, without a fault. */
	int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	int file = open(getenv("TAP"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
	ssize_t i, got = pread(memory, data, size < MOST_BYTES ? size : MOST_BYTES, (off_t)address);
	int used = snprintf(line, sizeof(line), "%lx ", command);

	for (i = 0; i < got; i++) {
		line[used++] = "0123456789abcdef"[data[i] >> 4];
		line[used++] = "0123456789abcdef"[data[i] & 15];
	}
	line[used++] = '\n';
	if (write(file, line, (size_t)used) != used)
		abort();
	close(memory);
	close(file);
}

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	long result = __real_syscall(number, a, b, c, d, e, f);
	unsigned long command = (unsigned long)b;
	struct transfer inner;

	if (number != SYS_ioctl || result != 0)
		return result;
	if (_IOC_TYPE(command) != DRIVER_TYPE) {
		write_line(command, (uint64_t)c, MOST_BYTES);
		return result;
	}
	write_line(command & 0xffff, (uint64_t)c, _IOC_SIZE(command));
	if (_IOC_NR(command) == XFER_COMMAND) {
		memcpy(&inner, (const void *)c, sizeof(inner));
		write_line(DRIVER_TYPE << _IOC_TYPESHIFT | inner.command, inner.pointer, inner.size);
	}
	return result;
}

int __wrap_ioctl(int fd, unsigned long command, void *argument)
{
	return (int)__wrap_syscall(SYS_ioctl, fd, (long)command, (long)argument, 0, 0, 0);
}
