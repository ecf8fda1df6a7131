// SPDX-License-Identifier: Apache-2.0
/* Part of the linker's -z relro at run time: glibc does it for a static program, musl does not. */
#include <elf.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "launcher.h"

/* The linker's: where the program lies, which is linked to address 0. */
extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));

void launcher_protect(void)
{
	uintptr_t base = (uintptr_t)&__ehdr_start;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const Elf64_Phdr *header = (const Elf64_Phdr *)(base + __ehdr_start.e_phoff);

	for (int i = 0; i < __ehdr_start.e_phnum; i++) {
		uintptr_t start = (base + header[i].p_vaddr) & -page;
		uintptr_t end = (base + header[i].p_vaddr + header[i].p_memsz) & -page;

		if (header[i].p_type == PT_GNU_RELRO && end > start)
			mprotect((void *)start, end - start, PROT_READ);
	}
}
