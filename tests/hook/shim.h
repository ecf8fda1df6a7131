/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For test_carried_line.py, in front of each source of the hook: an engine that notes each line in "lines", refuses to
 * create with the errno in "refuses", unless that is 0, and then reads what "reason" has.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

__attribute__((unused)) static ssize_t shim_write(int fd, const void *text, size_t size)
{
	FILE *file = fopen("lines", "a");
	int number = 0;

	fprintf(file, "%.*s\n", (int)size, (const char *)text);
	fclose(file);
	file = fopen("refuses", "r");
	if (fscanf(file, "%d", &number) != 1 || number == 0 || memcmp(text, "create ", 7) != 0)
		number = 0;
	fclose(file);
	errno = number;
	return number == EMSGSIZE ? (ssize_t)size - 1 : number ? -1 : write(fd, text, size);
}

__attribute__((unused)) static ssize_t shim_pread(int fd, void *text, size_t size, off_t at)
{
	int reason = open("reason", O_RDONLY);
	ssize_t count = pread(reason, text, size, at);

	(void)fd;
	close(reason);
	return count;
}

#define write shim_write
#define pread shim_pread
