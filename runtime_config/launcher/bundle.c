// SPDX-License-Identifier: Apache-2.0
/*
 * A quick scan of a bundle's config.json. Every request for a slice has one of the strings of launcher_asks_nothing()
 * in it (a GPU that is only named may be sliced by the node's default), or gives device nodes of the driver or files of
 * simulated cards, so a file with none has no request and needs no Python. The scan never grants: in doubt its answer is
 * "may ask".
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher.h"

/* Python refuses larger files; an ordinary one has 10 to 40 KiB. */
#define CONFIG_LIMIT (16u << 20)
/* Linux, Documentation/admin-guide/devices.txt */
#define MAJOR_NVIDIA 195
#define MAJOR_DRM 226
#define MAJORS_MAX 32
#define DRIVER "nvidia"

struct majors {
	long number[MAJORS_MAX];
	size_t count;
	bool whole; /* false: there may be more */
};

/*
 * JSON can spell any letter as \uXXXX. Go's encoder writes "<", ">" and "&" that way, and control characters and
 * the two line separators, none of which is part of a request.
 */
static bool has_hidden_letters(const char *text, size_t size)
{
	const char *end = text + size;
	const char *at = text;

	while ((at = memmem(at, (size_t)(end - at), "\\u", 2))) {
		static const char *const harmless[] = { "003c", "003e", "0026", "2028", "2029", NULL };
		bool hidden = true;

		at += 2;
		for (int i = 0; harmless[i] && hidden; i++)
			hidden = end - at < 4 || memcmp(at, harmless[i], 4) != 0;
		if (hidden && (end - at < 4 || (memcmp(at, "000", 3) != 0 && memcmp(at, "001", 3) != 0)))
			return true;
	}
	return false;
}

static void read_majors(struct majors *majors)
{
	FILE *file = fopen(CGPU_DEVICES_PATH, "re");
	char line[128];
	char name[64];
	long number;

	majors->number[0] = MAJOR_NVIDIA;
	majors->number[1] = MAJOR_DRM;
	majors->count = 2;
	majors->whole = file != NULL;
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, "Block", 5) == 0)
			break;
		if (sscanf(line, "%ld %63s", &number, name) != 2 || strncmp(name, DRIVER, strlen(DRIVER)) != 0)
			continue;
		if (majors->count == MAJORS_MAX) {
			majors->whole = false;
			break;
		}
		majors->number[majors->count++] = number;
	}
	if (file)
		fclose(file);
}

static const char *skip_space(const char *at, const char *end)
{
	while (at < end && memchr(" \t\r\n", *at, 4))
		at++;
	return at;
}

/* The value of the next member of that name, which has to be quoted; NULL: there is none. */
static const char *value_of(const char *at, const char *end, const char *quoted)
{
	while ((at = memmem(at, (size_t)(end - at), quoted, strlen(quoted)))) {
		at = skip_space(at + strlen(quoted), end);
		if (at < end && *at == ':')
			return skip_space(at + 1, end);
	}
	return NULL;
}

/* Whether a major is none of the driver's for sure: a plain number, and another one. */
static bool is_foreign(const char *at, const char *end, const struct majors *majors)
{
	long number = 0;
	int digits = 0;

	for (; at < end && *at >= '0' && *at <= '9' && digits < 9; at++, digits++)
		number = number * 10 + (*at - '0');
	at = skip_space(at, end);
	if (!digits || at == end || !memchr(",}", *at, 2))
		return false;
	for (size_t i = 0; i < majors->count; i++)
		if (majors->number[i] == number)
			return false;
	return true;
}

/*
 * Device nodes of the driver, found without a parser: a "major" of the driver's or of the DRM, and a rule of the device
 * cgroup that allows every major (as for a privileged container). Keys, numbers and words have to be as every engine
 * writes them; anything else "may" give a device node.
 */
static bool has_driver_major(const char *text, const char *end)
{
	const char *at = text;
	struct majors majors;

	majors.count = 0;
	while ((at = value_of(at, end, "\"major\""))) {
		if (!majors.count)
			read_majors(&majors);
		if (!majors.whole || !is_foreign(at, end, &majors))
			return true;
	}
	return false;
}

static bool is_word(const char *at, const char *end, const char *word)
{
	return (size_t)(end - at) >= strlen(word) && memcmp(at, word, strlen(word)) == 0;
}

/* Whether one rule, an object without objects in it, allows every major to be opened, or may. */
static bool is_wide(const char *rule, const char *end)
{
	const char *allow = value_of(rule, end, "\"allow\"");
	const char *access = value_of(rule, end, "\"access\"");
	const char *type = value_of(rule, end, "\"type\"");

	if (!allow)
		return true;
	if (is_word(allow, end, "false") || value_of(rule, end, "\"major\""))
		return false;
	return !(access && is_word(access, end, "\"m\"")) && !(type && is_word(type, end, "\"b\""));
}

static bool has_wide_rule(const char *text, const char *end)
{
	const char *at = text;

	while ((at = value_of(at, end, "\"allow\""))) {
		const char *first = memrchr(text, '{', (size_t)(at - text));
		const char *last = memchr(at, '}', (size_t)(end - at));

		if (!first || !last || is_wide(first, last))
			return true;
	}
	return false;
}

/* Whether a path, which ends with a quote, leads into a folder, or may. */
static bool is_below(const char *at, const char *end, const char *folder)
{
	const char *quote = memchr(at, '"', (size_t)(end - at));
	size_t length = quote ? (size_t)(quote - at) : PATH_MAX;
	char path[PATH_MAX], found[PATH_MAX];

	if (length >= PATH_MAX || memchr(at, '\\', length))
		return true;
	memcpy(path, at, length);
	path[length] = '\0';
	/* A path that does not exist cannot be mounted. */
	if (path[0] != '/' || !realpath(path, found))
		return false;
	length = strlen(folder);
	return strncmp(found, folder, length) == 0 && (found[length] == '/' || !found[length]);
}

/* A mount of simulated cards' files, which are no device nodes. Where there is no such card that costs one call. */
static bool has_simulated_card(const char *text, const char *end)
{
	char folder[PATH_MAX];
	const char *at = text;

	if (!realpath(CGPU_SIM_PATH, folder))
		return false;
	while ((at = value_of(at, end, "\"source\"")))
		if (at == end || *at != '"' || is_below(at + 1, end, folder))
			return true;
	return false;
}

bool launcher_asks_nothing(const char *bundle)
{
	/* Misspelt names too, which Python refuses: MISSPELT and NEAR_PREFIX of cgpu/request/names.py. */
	static const char *const traces[] = { "OPENCGPU_", "ALIYUN_COM_GPU_", "NVIDIA_VISIBLE_DEVICES", "CGPU_DISABLE",
		"opencgpu.io", "nvidia", "CUDA_VERSION", "CUDA_DEVICE_", "opencgpu_", "aliyun_com_gpu_", "OPENCGPU-",
		"ALIYUN-COM-GPU-", "\"opencgpu/", "\"opencgpu\\/", "\"opencgpu.com", NULL };
	char path[PATH_MAX];
	char *text = NULL;
	bool nothing = true;
	int length = snprintf(path, sizeof(path), "%s/config.json", bundle);
	long size = -1;

	if (length > 0 && (size_t)length < sizeof(path))
		size = launcher_read_file(path, CONFIG_LIMIT, &text);
	if (size < 0)
		return false;
	for (int i = 0; traces[i] && nothing; i++)
		nothing = !memmem(text, (size_t)size, traces[i], strlen(traces[i]));
	nothing = nothing && !has_hidden_letters(text, (size_t)size) && !has_driver_major(text, text + size) &&
		!has_wide_rule(text, text + size) && !has_simulated_card(text, text + size);
	free(text);
	return nothing;
}
