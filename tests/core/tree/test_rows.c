// SPDX-License-Identifier: Apache-2.0
/* Layouts of driver versions that are not in the table, by lines that the engine is given. */
#include <stdio.h>
#include <stdlib.h>

#include "slices.h"

#define VERSION "999.50.01"
#define NUMBERS (sizeof(struct nv_abi) / sizeof(u16))
#define LINE_BYTES (NUMBERS * 6 + 64)

static const struct nv_abi *newest(void)
{
	return &nv_abi_layouts[nv_abi_versions[nv_abi_version_count - 1].layout];
}

/* A line with the newest layouts, but for one number. Returns its length. */
static size_t write_line(char *line, const char *version, u64 order, u32 index, u32 value)
{
	const u16 *numbers = (const u16 *)newest();
	size_t length = (size_t)snprintf(line, LINE_BYTES, "%s %llu", version, (unsigned long long)order);
	u32 i;

	for (i = 0; i < NUMBERS; i++)
		length += (size_t)snprintf(line + length, LINE_BYTES - length, " %u", i == index ? value : numbers[i]);
	return length;
}

static int is_row(const char *version, const char *rows)
{
	/* The copy has its exact length, so that the sanitizer sees a read beyond its end. */
	char *exact = strdup(rows);
	enum cgpu_abi_source source;
	struct nv_abi room;
	const struct nv_abi *found = cgpu_abi_choose(version, exact, 0, &room, &source);

	free(exact);
	if (found == NULL)
		CHECK_EQ(source, CGPU_ABI_NEAREST);
	else
		CHECK(found == &room && source == CGPU_ABI_ROW);
	return found != NULL;
}

TEST(a_row_gives_its_layouts)
{
	char line[LINE_BYTES];
	enum cgpu_abi_source source;
	struct nv_abi room;
	const u16 *numbers = (const u16 *)&room;

	write_line(line, VERSION, NV_ABI_ORDER, 7, 65535);
	CHECK(cgpu_abi_choose(VERSION, line, 0, &room, &source) == &room);
	CHECK_EQ(source, CGPU_ABI_ROW);
	CHECK_EQ(numbers[7], 65535);
	CHECK_EQ(memcmp(numbers, newest(), 7 * sizeof(u16)), 0);
	CHECK_EQ(memcmp(numbers + 8, (const u16 *)newest() + 8, (NUMBERS - 8) * sizeof(u16)), 0);
	CHECK(is_row("999.50.1", line));
}

TEST(the_table_comes_first_and_older_layouts_last)
{
	char line[LINE_BYTES];
	enum cgpu_abi_source source;
	struct nv_abi room;

	write_line(line, "580.142", NV_ABI_ORDER, 0, 0);
	CHECK(cgpu_abi_choose("580.142", line, 1, &room, &source) == cgpu_abi_find("580.142"));
	CHECK_EQ(source, CGPU_ABI_TABLE);
	CHECK(cgpu_abi_choose(VERSION, line, 1, &room, &source) == cgpu_abi_nearest(VERSION));
	CHECK_EQ(source, CGPU_ABI_NEAREST);
	CHECK(cgpu_abi_choose(VERSION, line, 0, &room, &source) == NULL);
	CHECK(cgpu_abi_choose(VERSION, NULL, 1, &room, &source) == cgpu_abi_nearest(VERSION));
	CHECK(cgpu_abi_choose("no version", line, 1, &room, &source) == NULL);
	/* A version that was never compared with its headers gets its row. */
	write_line(line, "615.71.09", NV_ABI_ORDER, 0, 0);
	CHECK(is_row("615.71.09", line));
}

TEST(a_row_is_found_among_others)
{
	char text[3 * LINE_BYTES];
	size_t at = write_line(text, "999.50.02", NV_ABI_ORDER, 0, 0);

	at += (size_t)snprintf(text + at, sizeof(text) - at, "\nno row\n\n");
	at += write_line(text + at, VERSION, NV_ABI_ORDER, 0, 0);
	CHECK(is_row(VERSION, text));
	snprintf(text + at, sizeof(text) - at, "\n");
	CHECK(is_row(VERSION, text) && is_row("999.50.02", text) && !is_row("999.50.03", text));
}

TEST(a_line_of_another_build_is_no_row)
{
	char line[LINE_BYTES];

	write_line(line, VERSION, NV_ABI_ORDER ^ 1, 0, 0);
	CHECK(!is_row(VERSION, line));
	write_line(line, VERSION, NV_ABI_ORDER + (1ull << 32), 0, 0);
	CHECK(!is_row(VERSION, line));
	write_line(line, VERSION, NV_ABI_ORDER, 5, 65536);
	CHECK(!is_row(VERSION, line));
}

TEST(a_line_of_another_length_is_no_row)
{
	char line[LINE_BYTES];
	/* The last number has one digit. */
	size_t length = write_line(line, VERSION, NV_ABI_ORDER, NUMBERS - 1, 7), cut;

	CHECK(is_row(VERSION, line));
	for (cut = 0; cut < length; cut++) {
		char end = line[cut];

		line[cut] = 0;
		CHECK(!is_row(VERSION, line));
		line[cut] = end;
	}
	snprintf(line + length, sizeof(line) - length, " 0");
	CHECK(!is_row(VERSION, line));
	snprintf(line + length, sizeof(line) - length, " ");
	CHECK(!is_row(VERSION, line));
}

TEST(a_line_with_another_character_is_no_row)
{
	static const char others[] = " x-+.,\n\t\x80";
	char line[LINE_BYTES];
	size_t length = write_line(line, VERSION, NV_ABI_ORDER, 0, 0), at, i;

	for (at = 0; at < length; at++) {
		char own = line[at];

		for (i = 0; i < sizeof(others) - 1; i++) {
			line[at] = others[i];
			CHECK(others[i] == own || !is_row(VERSION, line));
		}
		line[at] = own;
	}
}
