// SPDX-License-Identifier: Apache-2.0
/* The line that each step prints. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "probe.h"

uint32_t report(uint32_t status, const char *format, ...)
{
	int error = errno;
	va_list arguments;

	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	if (status == RM_ERRNO)
		printf(" errno=%d (%s)\n", error, strerror(error));
	else
		printf(" status=0x%x\n", status);
	fflush(stdout);
	errno = error;
	return status;
}
