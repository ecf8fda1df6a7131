/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For test_conformance.py, in front of each source of the hook: an engine that refuses a line by the file "refuses"
 * (VERB ERRNO), the lines that it got in "lines", and the system log in "log".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
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

__attribute__((unused)) static void shim_openlog(const char *name, int option, int facility)
{
	FILE *file = fopen("log", "a");

	fprintf(file, "%s %d %d ", name, option, facility);
	fclose(file);
}

__attribute__((unused, format(printf, 2, 3))) static void shim_syslog(int level, const char *format, ...)
{
	FILE *file = fopen("log", "a");
	va_list arguments;

	fprintf(file, "%d ", level);
	va_start(arguments, format);
	vfprintf(file, format, arguments);
	va_end(arguments);
	fputc('\n', file);
	fclose(file);
}

#define write shim_write
#define openlog shim_openlog
#define syslog shim_syslog
