/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For test_conformance.py, in front of each source of the hook: an engine that refuses a line by the file "refuses"
 * (VERB ERRNO), the lines that it got in "lines", and the system log in "log".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>
#include <unistd.h>

__attribute__((unused)) static ssize_t shim_write(int fd, const void *text, size_t size)
{
	FILE *file;
	char verb[16] = "";
	int number = 0;

	if (strncmp(text, "create ", 7) != 0 && strncmp(text, "destroy ", 8) != 0)
		return write(fd, text, size);
	file = fopen("lines", "a");
	fprintf(file, "%.*s\n", (int)size, (const char *)text);
	fclose(file);
	file = fopen("refuses", "r");
	if (fscanf(file, "%15s %d", verb, &number) != 2)
		verb[0] = '\0';
	fclose(file);
	if (!verb[0] || strncmp(text, verb, strlen(verb)) != 0)
		return write(fd, text, size);
	errno = number;
	return number == EMSGSIZE ? (ssize_t)size - 1 : -1;
}

__attribute__((unused)) static int shim_connect(int fd, const void *address, size_t size)
{
	(void)fd;
	(void)address;
	return size ? 0 : -1;
}

/* As the words of Python's openlog() and syslog(). */
__attribute__((unused)) static ssize_t shim_send(int fd, const char *text, size_t size, int flags)
{
	FILE *file = fopen("log", "a");
	char name[32] = "";
	unsigned int priority = 0;
	long pid = 0;
	int at = 0;

	(void)fd;
	(void)flags;
	sscanf(text, "<%u>%*s %*s %*s %31[^[][%ld]: %n", &priority, name, &pid, &at);
	fprintf(file, "%s %d %u %u %.*s\n", name, pid == getpid() ? LOG_PID : 0, priority & ~7u, priority & 7u,
		(int)size - at, text + at);
	fclose(file);
	return (ssize_t)size;
}

#define write shim_write
#define connect shim_connect
#define send shim_send
