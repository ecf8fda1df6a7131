// SPDX-License-Identifier: Apache-2.0
/* The command line of an OCI runtime, as runc (Go flags: one or two dashes) and crun (getopt) read it. */
#include <string.h>

#include "launcher.h"

struct option_form {
	const char *name;
	bool has_value;
};

/* Options before the command. --help and --version end there: nothing after them is run. */
static const struct option_form global_options[] = {
	{ "root", true },
	{ "log", true },
	{ "log-format", true },
	{ "log-level", true },
	{ "criu", true },
	{ "rootless", true },
	{ "cgroup-manager", true },
	{ "debug", false },
	{ "systemd-cgroup", false },
	{ NULL, false },
};

/* Options of create, run and restore. */
static const struct option_form start_options[] = {
	{ "bundle", true },
	{ "b", true },
	{ "console-socket", true },
	{ "pid-file", true },
	{ "preserve-fds", true },
	{ "no-pivot", false },
	{ "no-new-keyring", false },
	{ "no-subreaper", false },
	{ "detach", false },
	{ "d", false },
	{ "keep", false },
	{ NULL, false },
};

static const char *const start_commands[] = { "create", "run", "restore", NULL };

enum option_kind { OPTION_UNKNOWN, OPTION_FLAG, OPTION_JOINED, OPTION_VALUE };

static bool is_option(const char *arg)
{
	return arg[0] == '-' && arg[1] != '\0';
}

static const char *option_name(const char *arg)
{
	return arg[1] == '-' ? arg + 2 : arg + 1;
}

static bool names(const char *arg, const char *name)
{
	size_t length = strlen(name);
	const char *given = option_name(arg);

	return strncmp(given, name, length) == 0 && (given[length] == '\0' || given[length] == '=');
}

static enum option_kind classify(const char *arg, const struct option_form *forms)
{
	for (; forms->name; forms++) {
		if (!names(arg, forms->name))
			continue;
		if (strchr(arg, '='))
			return OPTION_JOINED;
		return forms->has_value ? OPTION_VALUE : OPTION_FLAG;
	}
	return OPTION_UNKNOWN;
}

static bool asks_for_text(const char *arg)
{
	static const char *const texts[] = { "help", "h", "version", "v", NULL };

	for (int i = 0; texts[i]; i++) {
		if (names(arg, texts[i]))
			return !strchr(arg, '=');
	}
	return false;
}

static bool is_command(const char *word)
{
	for (int i = 0; start_commands[i]; i++) {
		if (strcmp(word, start_commands[i]) == 0)
			return true;
	}
	return false;
}

/* Keep the value of an option, which is NULL for a flag. */
static void keep_value(const char *arg, const char *value, struct launcher_call *call)
{
	if (names(arg, "bundle") || names(arg, "b"))
		call->bundle = value;
	if (names(arg, "log"))
		call->log = value;
	if (names(arg, "log-format"))
		call->log_format = value;
}

/* Go through options. Returns where they end; -1 where no container is started, or call->unknown is set. */
static int skip_options(
	int argc, char *const *argv, int at, const struct option_form *forms, struct launcher_call *call)
{
	for (; at < argc && is_option(argv[at]); at++) {
		const char *arg = argv[at];
		enum option_kind kind = classify(arg, forms);

		if (strcmp(arg, "--") == 0)
			return at + 1;
		if (asks_for_text(arg))
			return -1;
		if (kind == OPTION_UNKNOWN || (kind == OPTION_VALUE && ++at == argc)) {
			call->unknown = arg;
			return -1;
		}
		if (kind != OPTION_FLAG)
			keep_value(arg, kind == OPTION_JOINED ? strchr(arg, '=') + 1 : argv[at], call);
	}
	return at;
}

static bool has_command(int argc, char *const *argv)
{
	for (int i = 1; i < argc; i++) {
		if (is_command(argv[i]))
			return true;
	}
	return false;
}

void launcher_parse(int argc, char *const *argv, struct launcher_call *call)
{
	int at;

	*call = (struct launcher_call){
		.command = "", .bundle = ".", .container = "", .log = "", .log_format = "text", .unknown = ""
	};
	at = skip_options(argc, argv, 1, global_options, call);
	if (at >= 0 && at < argc && is_command(argv[at])) {
		int end = skip_options(argc, argv, at + 1, start_options, call);

		if (end >= 0)
			call->command = argv[at];
		if (end >= 0 && end < argc)
			call->container = argv[end];
	}
	/* No container can be started by a command line that has none of the commands. */
	if (!has_command(argc, argv))
		call->unknown = "";
}
