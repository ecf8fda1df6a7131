// SPDX-License-Identifier: Apache-2.0
/* What a check says of itself when it does not pass. */
#include <stdarg.h>
#include <stdio.h>

#include "check.h"

enum verdict verdict_failed(struct session *session, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(session->detail, sizeof(session->detail), format, arguments);
	va_end(arguments);
	return FAILED;
}

enum verdict verdict_skipped(struct session *session, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(session->detail, sizeof(session->detail), format, arguments);
	va_end(arguments);
	return SKIPPED;
}
