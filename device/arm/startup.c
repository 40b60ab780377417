/* Reset of a Cortex-M4 for tests under qemu: switches the float unit on, copies .data, and goes to newlib's start. */
#include <stdint.h>

extern uint32_t __stack, __data_start__, __data_end__, __data_load__;
void _start(void);

void reset(void) {
  *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* CPACR: full access to the float unit */
  __asm volatile("dsb\n isb");
  for (uint32_t *to = &__data_start__, *from = &__data_load__; to < &__data_end__;) *to++ = *from++;
  _start();
}

static void fault(void) {
  for (;;) __asm volatile("bkpt 0");
}

typedef union {
  uint32_t *stack;
  void (*code)(void);
} vector;

__attribute__((section(".vectors"), used)) static const vector vectors[16] = {
    {.stack = &__stack}, {.code = reset}, {.code = fault}, {.code = fault},
    {.code = fault},     {.code = fault}, {.code = fault}};
