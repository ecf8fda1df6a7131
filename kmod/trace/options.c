// SPDX-License-Identifier: Apache-2.0
/* The command line. */
#include <getopt.h>

#include "recorder.h"

static const char usage[] =
	"usage: cgpu-recorder [-o FILE] [--note KEY=VALUE]... [--dev DIR] [--driver VERSION]\n"
	"                     [--every-call] -- COMMAND...\n"
	"Runs COMMAND and writes the NVIDIA driver calls of its processes to FILE (cgpu-trace.jsonl).\n"
	"  --note        something to know about the trace, as cuda=12.4; up to 32, written into its first line\n"
	"  --dev         where the driver's nodes are (/dev)\n"
	"  --driver      the driver's version, where it does not tell it\n"
	"  --every-call  stop at every system call: slower, and sees calls that a seccomp filter of COMMAND takes\n"
	"exit status: that of COMMAND; 128 and the number of the signal that ended it; 125 the trace cannot be\n"
	"written or is not complete; 126 COMMAND cannot be run; 127 COMMAND is not found\n";

static bool is_key(const char *text)
{
	size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

	return length > 0 && length <= 64 && text[length] == '=' && strlen(text + length) <= 257;
}

static int wrong(const char *option, const char *value, const char *accepted)
{
	fprintf(stderr, "cgpu-recorder: %s %s: %s; see: cgpu-recorder --help\n", option, value, accepted);
	return EXIT_OWN;
}

static int take_note(struct options *options, const char *value)
{
	/* Length of the key with its sign. */
	size_t key = strcspn(value, "=") + 1;
	unsigned int i;

	if (!is_key(value))
		return wrong(
			"--note", value, "expected KEY=VALUE, KEY of letters, digits, _ . -, at most 64 and 256 bytes");
	if (options->note_count == NOTES_MAX)
		return wrong("--note", value, "expected at most 32 notes");
	for (i = 0; i < options->note_count; i++) {
		if (strncmp(options->notes[i], value, key) == 0)
			return wrong("--note", value, "expected each KEY once");
	}
	options->notes[options->note_count++] = value;
	return -1;
}

int options_parse(int argc, char **argv, struct options *options)
{
	static const struct option names[] = { { "output", required_argument, NULL, 'o' },
		{ "note", required_argument, NULL, 'n' }, { "dev", required_argument, NULL, 'd' },
		{ "driver", required_argument, NULL, 'v' }, { "every-call", no_argument, NULL, 'e' },
		{ "help", no_argument, NULL, 'h' }, { NULL, 0, NULL, 0 } };
	int option, result = -1;

	*options = (struct options){ .output = "cgpu-trace.jsonl", .dev = "/dev" };
	while (result < 0 && (option = getopt_long(argc, argv, "+o:", names, NULL)) != -1) {
		if (option == 'o')
			options->output = optarg;
		else if (option == 'n')
			result = take_note(options, optarg);
		else if (option == 'd')
			options->dev = optarg;
		else if (option == 'v')
			options->driver = optarg;
		else if (option == 'e')
			options->every_call = true;
		else if (option == 'h')
			return fputs(usage, stdout), 0;
		else
			return fputs(usage, stderr), EXIT_OWN;
	}
	if (result >= 0)
		return result;
	if (optind == argc)
		return wrong("COMMAND", "is missing", "expected a command after --");
	options->command = argv + optind;
	return -1;
}
