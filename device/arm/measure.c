/* Instructions of a Cortex-M4 for each call of the client, counted under qemu with -icount shift=0.
 *
 * qemu then takes one nanosecond of its clock for each instruction, and SysTick counts 25 MHz: 40 instructions a tick.
 * These are instructions, not cycles: qemu knows nothing of wait states, of the pipeline or of long divisions. */
#include <stdio.h>
#include <string.h>

#include "ofediq.h"

enum { ROUNDS = 40, PER_TICK = 40 };

#define SYST_CSR (*(volatile uint32_t *)0xE000E010)
#define SYST_RVR (*(volatile uint32_t *)0xE000E014)
#define SYST_CVR (*(volatile uint32_t *)0xE000E018)

static ofediq_client client;
static uint8_t message[24 + 4 * (OFEDIQ_SCALARS + OFEDIQ_DIM)];
static uint32_t state = 1;

static uint32_t since(uint32_t start) { return ((start - SYST_CVR) & 0xFFFFFF) * PER_TICK; }

static float noise(void) { /* about normal */
  float sum = -2;
  for (int i = 0; i < 4; i++) {
    state = state * 1664525u + 1013904223u;
    sum += (float)(state >> 8) * 0x1p-24f;
  }
  return sum;
}

static void show(const char *name, uint64_t total, uint32_t count) {
  if (count) printf("%s %lu\n", name, (unsigned long)(total / count));
}

int main(void) {
  uint64_t opening = 0, quiet = 0, loud = 0, bytes = 0;
  uint32_t silent = 0, said = 0, start, used;
  SYST_RVR = 0xFFFFFF;
  SYST_CVR = 0;
  SYST_CSR = 5;
  start = SYST_CVR;
  ofediq_start(&client);
  show("start", since(start), 1);
  client.known = client.welcome = 1;
  for (uint32_t round = 1; round <= ROUNDS; round++) {
    const uint8_t head[24] = {'O', 'M', OFEDIQ_PROTOCOL, 0, 1, 0, 0, 0, 0, 0, 0, 0, (uint8_t)(round * OFEDIQ_PERIOD)};
    memcpy(message, head, 24);
    message[20] = 1; /* clients */
#if OFEDIQ_SCALARS
    const uint8_t signal[4] = {0x80, 0x7F, 0x80, 0x3E}; /* z = 0.25, and nobody is too loud */
    memcpy(message + 24, signal, 4);
#endif
    for (uint32_t i = 0; i < OFEDIQ_DIM; i++) {
      float value = 0.1f * noise();
      memcpy(message + 24 + 4 * (OFEDIQ_SCALARS + i), &value, 4);
    }
    start = SYST_CVR;
    ofediq_model(&client, message, sizeof message);
    opening += since(start);
    while (ofediq_hungry(&client)) {
      float x[OFEDIQ_READINGS];
      for (uint32_t i = 0; i < OFEDIQ_READINGS; i++) x[i] = noise();
      float y = OFEDIQ_CLASSES ? (float)(round % (OFEDIQ_CLASSES + !OFEDIQ_CLASSES)) : OFEDIQ_PIPELINE ? noise() : 1;
      start = SYST_CVR;
      int result = ofediq_learn(&client, x, y);
      used = since(start);
      if (result == OFEDIQ_SAY && client.said_bytes > 6) {
        loud += used;
        bytes += client.said_bytes;
        said++;
      } else {
        quiet += used;
        silent++;
      }
    }
  }
  show("model", opening, ROUNDS);
  show("learn", quiet, silent);
  show("learn_and_send", loud, said);
  show("bytes", bytes, said);
  printf("client %lu\n", (unsigned long)sizeof client);
  return 0;
}
