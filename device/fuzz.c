/* Coverage-guided fuzzing of the client: whatever arrives, nothing may be read or written beyond its bounds.
 *
 *     clang -std=c99 -g -O1 -fsanitize=fuzzer,address,undefined -I FOLDER -I device device/fuzz.c -lm -o fuzz && ./fuzz
 *
 * An input is a list of calls: a kind, the bytes of its content (2, little-endian), its content. Checksums and places in the
 * order of rounds are put right for most of them: else hardly any would be read further. */
#include "ofediq.c"

#include <stdlib.h>

static ofediq_client client;

/* A broadcast as the server would head it: of this protocol, right after the open round, with its checksum. */
static void mend(uint8_t *data, size_t bytes) {
  const uint8_t head[3] = {'O', 'M', OFEDIQ_PROTOCOL};
  uint64_t now = client.step + OFEDIQ_PERIOD;
#if OFEDIQ_DELTA
  if (bytes >= SHORT_HEAD && data[0] & 0x80) {
    uint8_t known[21];
    data[0] &= 0x81;
    write_bytes(data + 1, now, 2);
    write_bytes(data + 3, client.clients, 2);
    write_bytes(known, client.epoch, 8);
    write_bytes(known + 8, now, 8);
    write_bytes(known + 16, client.clients, 4);
    known[20] = data[0];
    write_bytes(data + 5, crc(crc(0, known, 21), data + SHORT_HEAD, bytes - SHORT_HEAD), 4);
    return;
  }
#endif
  if (bytes < MODEL_HEAD) return;
  memcpy(data, head, 3);
  write_bytes(data + 4, client.epoch, 8);
  write_bytes(data + 12, now, 8);
}

static void call(uint8_t kind, uint8_t *data, size_t bytes) {
  float x[OFEDIQ_READINGS + 1] = {0}, prediction;
  memcpy(x, data, bytes < sizeof x ? bytes : sizeof x);
  switch (kind % 9) {
  case 0: ofediq_task(&client, data, bytes); break;
  case 1: ofediq_welcome(&client, data, bytes); break;
  case 2: ofediq_model(&client, data, bytes); break;
  case 3:
  case 4:
    client.known = client.welcome = 1;
    mend(data, bytes);
    ofediq_model(&client, data, bytes);
    break;
  case 5: ofediq_predict(&client, x, &prediction); break;
  case 6: ofediq_learn(&client, x, OFEDIQ_CLASSES ? (float)(kind / 9 % (OFEDIQ_CLASSES + 1)) : x[OFEDIQ_READINGS]); break;
  case 7: ofediq_skip(&client); break;
  default: ofediq_farewell(&client);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ofediq_start(&client);
  while (size >= 3) {
    size_t bytes = data[1] | (size_t)data[2] << 8;
    if (bytes > size - 3) bytes = size - 3;
    uint8_t *content = malloc(bytes ? bytes : 1); /* of its very size: the first byte beyond is seen */
    if (!content) return 0;
    memcpy(content, data + 3, bytes);
    call(data[0], content, bytes);
    free(content);
    data += 3 + bytes;
    size -= 3 + bytes;
  }
  return 0;
}
