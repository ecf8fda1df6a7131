// SPDX-License-Identifier: Apache-2.0
/* The config.json of a bundle, as any bytes: how the launcher looks for what may be a request, and for device nodes. */
/* The numbers of the driver that are the same everywhere. */
#define CGPU_DEVICES_PATH "/dev/null"
#include "bundle.c"
#include "../must.h"

static const uint8_t *config;
static size_t config_size;

/* In place of the file. Its copy ends where the text does, so that the sanitizer sees a read beyond it. */
long launcher_read_file(const char *path, size_t limit, char **text)
{
	MUST(strcmp(path, "/bundle/config.json") == 0 && config_size <= limit);
	*text = malloc(config_size);
	MUST(*text);
	memcpy(*text, config, config_size);
	return (long)config_size;
}

static bool asks_nothing(const uint8_t *data, size_t bytes)
{
	config = data;
	config_size = bytes;
	return launcher_asks_nothing("/bundle");
}

/* Names that no text has that asks nothing, and a letter that is spelt as JSON can. */
static bool has_trace(const char *text, size_t size)
{
	static const char *const traces[] = { "OPENCGPU_", "ALIYUN_COM_GPU_", "opencgpu.io", "nvidia", "\\u006",
		"\\u004" };

	for (size_t i = 0; i < sizeof(traces) / sizeof(traces[0]); i++)
		if (memmem(text, size, traces[i], strlen(traces[i])))
			return true;
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	bool nothing = asks_nothing(data, bytes);
	uint8_t *longer = malloc(bytes + 1);

	MUST(longer);
	MUST(!nothing || !has_trace((const char *)data, bytes));
	/* An object that a line feed follows says the same. */
	memcpy(longer, data, bytes);
	longer[bytes] = '\n';
	if (bytes && data[bytes - 1] == '}')
		MUST(asks_nothing(longer, bytes + 1) == nothing);
	free(longer);
	return 0;
}
