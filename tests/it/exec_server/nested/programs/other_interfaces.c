// Executes a program through the system call interfaces of x32 and of i386, from a program of x86_64.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv, char **environment) {
    if (syscall(0x40000000 + 520, argv[1], argv + 1, environment) < 0) perror("x32");
    // Addresses of i386 have 32 bits.
    char *memory = mmap((void *)0x10000000, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    uint32_t *pointers = (uint32_t *)(memory + 4096), *none = pointers + 64;
    char *text = memory;
    for (int i = 0; i + 1 < argc; i++) {
        pointers[i] = (uint32_t)(uintptr_t)strcpy(text, argv[i + 1]);
        text += strlen(text) + 1;
    }
    int result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(11), "b"(memory), "c"(pointers), "d"(none)
                     : "memory", "r8", "r9", "r10", "r11");
    printf("i386: %d\n", result);
    return 1;
}
