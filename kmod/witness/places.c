// SPDX-License-Identifier: Apache-2.0
/*
 * Functions of NVIDIA's open driver have their names in the kernel's table; the proprietary flavour hides those of its core.
 * The code is that which runs, not that of a file.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <capstone/capstone.h>

#include "places.h"

#define LINE_BYTES 512
#define OF_DRIVER "\t[nvidia]\n"
#define THUNK " __x86_return_thunk\n" /* in place of each return, where a kernel has it so */

/* The driver's functions: UVM takes its chunks by the third; the first ends in the fourth for memory that is a node of the host,
 * on no x86. */
static const char *const names[] = { "pmaAllocatePages", "pmaFreePages", "nvGpuOpsPmaAllocPages", "pmaNumaAllocate" };

#define NAMES (sizeof(names) / sizeof(names[0]))
#define NAMES_NEEDED 3u

__attribute__((format(printf, 3, 4))) static int refuse(
	struct obstacle *obstacle, const char *word, const char *format, ...)
{
	va_list arguments;

	obstacle->word = word;
	va_start(arguments, format);
	vsnprintf(obstacle->text, sizeof(obstacle->text), format, arguments);
	va_end(arguments);
	return -1;
}

/* --- symbols --- */

struct addresses {
	uint64_t *address;
	size_t count, room;
};

static int addresses_add(struct addresses *all, uint64_t address)
{
	uint64_t *grown;

	if (all->count == all->room) {
		all->room = all->room ? 2 * all->room : 4096;
		grown = realloc(all->address, all->room * sizeof(*grown));
		if (!grown)
			return -1;
		all->address = grown;
	}
	all->address[all->count++] = address;
	return 0;
}

/* A function ends where the next one begins. */
static void span_close(struct span *span, const struct addresses *all)
{
	size_t i;

	span->end = UINT64_MAX;
	for (i = 0; i < all->count; i++) {
		if (all->address[i] > span->begin && all->address[i] < span->end)
			span->end = all->address[i];
	}
	if (span->end == UINT64_MAX)
		span->end = span->begin;
}

/* A line is: address, one letter, name, and a tab with the module. */
static int line_read(char *line, struct span *const *spans, _Bool *found, struct addresses *all)
{
	const char *name = strchr(line, ' ');
	char *end = strstr(line, OF_DRIVER);
	uint64_t address = strtoull(line, NULL, 16);
	size_t i;

	if (!end || !name || name + 3 > end)
		return 0;
	*end = 0;
	for (i = 0; i < NAMES; i++) {
		if (strcmp(name + 3, names[i]))
			continue;
		found[i] = 1;
		spans[i]->begin = address;
	}
	return addresses_add(all, address);
}

int symbols_read(FILE *table, struct symbols *symbols, struct obstacle *obstacle)
{
	struct span *const spans[NAMES] = { &symbols->allocate, &symbols->free, &symbols->chunks, &symbols->numa };
	_Bool found[NAMES] = { 0 };
	struct addresses all = { 0 };
	char line[LINE_BYTES];
	int err = 0;
	size_t i;

	*symbols = (struct symbols){ 0 };
	while (!err && fgets(line, sizeof(line), table)) {
		if (strstr(line, THUNK))
			symbols->thunk = strtoull(line, NULL, 16);
		err = line_read(line, spans, found, &all);
	}
	for (i = 0; i < NAMES; i++)
		span_close(spans[i], &all);
	free(all.address);
	if (err)
		return refuse(obstacle, "kernel", "/proc/kallsyms: no memory for its symbols");
	for (i = 0; i < NAMES_NEEDED; i++) {
		if (!found[i])
			return refuse(
				obstacle, "symbols", "the driver hides %s, as its proprietary flavour does", names[i]);
		if (!spans[i]->begin)
			return refuse(obstacle, "addresses",
				"/proc/kallsyms hides the address of %s; it takes CAP_SYSLOG and kernel.kptr_restrict "
				"below 2",
				names[i]);
	}
	return 0;
}

/* --- returns --- */

/* 0 where an instruction stays inside the function; a jump to the thunk is a return. */
static int instruction_read(
	const cs_insn *insn, const struct symbols *symbols, struct returns *returns, struct obstacle *obstacle)
{
	const struct span *code = &symbols->allocate;
	_Bool jumps = insn->mnemonic[0] == 'j' && !strncmp(insn->op_str, "0x", 2);
	uint64_t target = jumps ? strtoull(insn->op_str, NULL, 16) : code->begin;

	if (insn->id == X86_INS_RET || (jumps && target == symbols->thunk)) {
		if (returns->count < PLACES_RETURNS)
			returns->address[returns->count] = insn->address;
		returns->count++;
		return 0;
	}
	if ((target >= code->begin && target < code->end) || target == symbols->numa.begin)
		return 0;
	return refuse(obstacle, "code", "%s is left by a jump at %#llx, not by a return", names[0],
		(unsigned long long)(insn->address - code->begin));
}

static int code_read(const uint8_t *code, const struct symbols *symbols, csh decoder, struct returns *returns,
	struct obstacle *obstacle)
{
	uint64_t address = symbols->allocate.begin;
	size_t left = symbols->allocate.end - address;
	cs_insn *insn = cs_malloc(decoder);
	int err = 0;

	while (!err && insn && cs_disasm_iter(decoder, &code, &left, &address, insn))
		err = instruction_read(insn, symbols, returns, obstacle);
	cs_free(insn, 1);
	if (!err && left)
		err = refuse(obstacle, "code", "the code of %s is not understood at %#llx", names[0],
			(unsigned long long)(address - symbols->allocate.begin));
	return err;
}

/* A probe of others at the entry stands in place of the first byte of endbr64. */
static void probe_undo(uint8_t *code, const struct span *span)
{
	static const uint8_t probed[] = { 0xcc, 0x0f, 0x1e, 0xfa };

	if (span->end - span->begin >= sizeof(probed) && !memcmp(code, probed, sizeof(probed)))
		code[0] = 0xf3;
}

int returns_find(uint8_t *code, const struct symbols *symbols, struct returns *returns, struct obstacle *obstacle)
{
	csh decoder;
	int err;

	*returns = (struct returns){ 0 };
	probe_undo(code, &symbols->allocate);
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &decoder) != CS_ERR_OK)
		return refuse(obstacle, "code", "the disassembler does not start");
	err = code_read(code, symbols, decoder, returns, obstacle);
	cs_close(&decoder);
	if (!err && (returns->count == 0 || returns->count > PLACES_RETURNS))
		err = refuse(obstacle, "code", "%s has %u returns, expected 1 to %u: there are no more registers",
			names[0], returns->count, PLACES_RETURNS);
	return err;
}
