// SPDX-License-Identifier: Apache-2.0
/*
 * Looks for words in a bundle's config.json. Whatever asks for a slice has one of them, or gives a device of the driver, so
 * a file with none is not for us. The scan never grants: in doubt its answer is "may ask", and Python reads the file.
 *
 * An image's words stand in strings. The rest is the container engine's, in the order in which Go writes the members; one
 * that writes other orders has each start looked at by Python.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher.h"

/* MAX_BYTES of oci_runtime/bundle.py; an ordinary file has 10 to 40 KiB. */
#define CONFIG_LIMIT (16u << 20)
/* The driver's own number, DRM's, and those that the kernel chooses at run time, are this one or above. */
#define MAJOR_NVIDIA 195
#define ALLOW "\"allow\":"
#define MAJOR "\"major\":"

/*
 * As in MISSPELT, NEAR_PREFIX and READ of cgpu/request, in small letters and with underscores: so each spelling that Python
 * knows, or refuses as misspelt.
 */
static const char *const words[] = { "opencgpu", "aliyun_com_gpu_", "cgpu_disable", "nvidia", "cuda_version",
	"cuda_device_" };

/* Rules of the device cgroup that give no device of the driver; of a major the number decides. */
static const char *const narrow_rules[] = { ALLOW "false", ALLOW "true,\"type\":\"c\"," MAJOR,
	ALLOW "true,\"type\":\"b\"," MAJOR, ALLOW "true,\"type\":\"c\",\"access\":\"m\"}",
	ALLOW "true,\"type\":\"b\",\"access\":\"m\"}" };

/* Characters that Go escapes and that no word has: < > &, the line separators, and control characters. */
static const char *const plain_escapes[] = { "\\u003c", "\\u003e", "\\u0026", "\\u2028", "\\u2029", "\\u000",
	"\\u001" };

/* Mounts of the host. Files of simulated cards are no devices, and a mount gives them by any path. */
static const char *const host_mounts[] = { "\"source\":\"/", "\"source\":\"\\/" };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool begins_with_any(const char *at, const char *end, const char *const *texts, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		size_t length = strlen(texts[i]);

		if ((size_t)(end - at) >= length && memcmp(at, texts[i], length) == 0)
			return true;
	}
	return false;
}

/* Leave out blanks between strings, and write each letter and dash as the words have them. Returns the new size. */
static size_t fold(char *text, size_t size)
{
	bool in_string = false;
	size_t out = 0;

	for (size_t at = 0; at < size; at++) {
		char letter = text[at];

		if (!in_string && memchr(" \t\r\n", letter, 4))
			continue;
		if (letter == '"')
			in_string = !in_string;
		text[out++] = letter == '-' ? '_' : (char)tolower((unsigned char)letter);
		if (in_string && letter == '\\' && at + 1 < size)
			text[out++] = (char)tolower((unsigned char)text[++at]);
	}
	return out;
}

/* Whether each place of a word begins with one of some texts. */
static bool are_all(const char *text, const char *end, const char *word, const char *const *texts, size_t count)
{
	for (const char *at = text; (at = memmem(at, (size_t)(end - at), word, strlen(word))); at++)
		if (!begins_with_any(at, end, texts, count))
			return false;
	return true;
}

/* Whether each major is a plain number below those of the driver. */
static bool are_low(const char *text, const char *end)
{
	const char *at = text;

	while ((at = memmem(at, (size_t)(end - at), MAJOR, strlen(MAJOR)))) {
		int number = 0;

		for (at += strlen(MAJOR); at < end && isdigit((unsigned char)*at) && number < MAJOR_NVIDIA; at++)
			number = number * 10 + (*at - '0');
		if (at == end || (*at != ',' && *at != '}') || number >= MAJOR_NVIDIA || at[-1] == ':')
			return false;
	}
	return true;
}

static bool has_any(const char *text, const char *end, const char *const *texts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (memmem(text, (size_t)(end - text), texts[i], strlen(texts[i])))
			return true;
	return false;
}

/* Whether a text, which is changed, certainly says nothing of a GPU. */
static bool says_nothing(char *text, size_t size)
{
	const char *end = text + fold(text, size);

	if (access(CGPU_SIM_PATH, F_OK) == 0 && has_any(text, end, host_mounts, COUNT(host_mounts)))
		return false;
	return !has_any(text, end, words, COUNT(words)) &&
		are_all(text, end, "\\u", plain_escapes, COUNT(plain_escapes)) &&
		are_all(text, end, ALLOW, narrow_rules, COUNT(narrow_rules)) && are_low(text, end);
}

bool launcher_asks_nothing(const char *bundle)
{
	char path[PATH_MAX];
	char *text = NULL;
	bool nothing;
	int length = snprintf(path, sizeof(path), "%s/config.json", bundle);
	long size = -1;

	if (length > 0 && (size_t)length < sizeof(path))
		size = launcher_read_file(path, CONFIG_LIMIT, &text);
	if (size < 0)
		return false;
	nothing = says_nothing(text, (size_t)size);
	free(text);
	return nothing;
}
