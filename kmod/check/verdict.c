// SPDX-License-Identifier: Apache-2.0
/* A check that does not pass says why. */
#include <stdarg.h>
#include <stdio.h>

#include "check.h"

enum verdict verdict_say(struct session *session, enum verdict verdict, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(session->detail, sizeof(session->detail), format, arguments);
	va_end(arguments);
	return verdict;
}

enum verdict verdict_of(struct session *session, u32 status)
{
	return status == NV_OK ? PASSED : verdict_failed(session, "%s", call_text(session, status));
}
