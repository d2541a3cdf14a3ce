// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Static programs of a few hundred bytes, made here: they end at once, with success.

/// Where the file is mapped, and its end is there, too.
const BASE: u64 = 0x40_0000;
/// `Elf64_Ehdr` and one `Elf64_Phdr` (`man 5 elf`).
const HEADERS: u64 = 64 + 56;
/// `mov eax, 60; xor edi, edi; syscall`: `exit(0)`.
const CODE: [u8; 9] = [0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05];

/// A program that `seed` tells from the others.
pub(crate) fn program(seed: u64) -> Vec<u8> {
    let size = HEADERS + CODE.len() as u64 + 8;
    let mut file = Vec::new();
    // ELFCLASS64, ELFDATA2LSB, EV_CURRENT; ET_EXEC, EM_X86_64.
    file.extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0");
    for word in [BASE + HEADERS, 64, 0] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    // e_flags, e_ehsize, e_phentsize, e_phnum, and no sections.
    file.extend_from_slice(&[0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0]);
    // PT_LOAD, readable and executable.
    file.extend_from_slice(&[1, 0, 0, 0, 5, 0, 0, 0]);
    for word in [0, BASE, BASE, size, size, 0x1000] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    file.extend_from_slice(&CODE);
    file.extend_from_slice(&seed.to_le_bytes());
    file
}
