/* Runs a client on recorded input, for tests and measurements: replay INPUT OUTPUT.
 *
 * A record is a kind, the bytes of its content (4, little-endian), its content: t task, w welcome, m model, s sample and
 * label as float32, k skip, p sample to predict, c time (double), f farewell. An answer is what the call returned (1 byte), bytes, content:
 * what is to be said, or the prediction. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ofediq.h"

static ofediq_client client;

static int answer(FILE *out, int result, const void *content, uint32_t bytes) {
  uint8_t head[5] = {(uint8_t)result, (uint8_t)bytes, (uint8_t)(bytes >> 8), (uint8_t)(bytes >> 16),
                     (uint8_t)(bytes >> 24)};
  return fwrite(head, 1, 5, out) == 5 && fwrite(content, 1, bytes, out) == bytes;
}

static int run(FILE *in, FILE *out) {
  uint8_t head[5];
  while (fread(head, 1, 5, in) == 5) {
    uint32_t bytes = head[1] | (uint32_t)head[2] << 8 | (uint32_t)head[3] << 16 | (uint32_t)head[4] << 24;
    uint8_t *content = malloc(bytes ? bytes : 1); /* of its very size: a sanitizer sees the first byte beyond */
    float x[OFEDIQ_READINGS + 1], prediction = 0;
    int result = 0, written;
    if (!content || fread(content, 1, bytes, in) != bytes) return 0;
    if (bytes <= sizeof x) memcpy(x, content, bytes);
    if (head[0] == 't') result = ofediq_task(&client, content, bytes);
    else if (head[0] == 'w') result = ofediq_welcome(&client, content, bytes);
    else if (head[0] == 'm') result = ofediq_model(&client, content, bytes);
    else if (head[0] == 's' && bytes == sizeof x) result = ofediq_learn(&client, x, x[OFEDIQ_READINGS]);
    else if (head[0] == 'p' && bytes == sizeof x - 4) result = ofediq_predict(&client, x, &prediction);
#if OFEDIQ_PIPELINE && OFEDIQ_CALENDAR
    else if (head[0] == 'c' && bytes == 8) {
      double seconds;
      memcpy(&seconds, content, 8);
      ofediq_time(&client, seconds);
    }
#endif
    else if (head[0] == 'k') result = ofediq_skip(&client);
    else if (head[0] == 'f') result = ofediq_farewell(&client);
    free(content);
    if (head[0] == 'p') written = answer(out, result, &prediction, 4);
    else written = answer(out, result, client.said, result > 0 && result & OFEDIQ_SAY ? client.said_bytes : 0);
    if (!written) return 0;
  }
  return 1;
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  FILE *in = fopen(arguments[1], "rb"), *out = fopen(arguments[2], "wb");
  if (!in || !out) return 2;
  ofediq_start(&client);
  int whole = run(in, out);
  return fclose(out) == 0 && whole ? 0 : 1;
}
