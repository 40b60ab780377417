/* A client of a live federation on a machine with libmosquitto: the same few calls that a microcontroller makes.
 *
 *     mqtt HOST PORT FEDERATION NAME SAMPLES.csv [AUTHORITY.pem CERTIFICATE.pem KEY.pem]
 *
 * A line of SAMPLES.csv is a sample and its label, separated by commas, "nan" for a missing reading where the task makes
 * features; an empty line is a step without a sample. With the files of `ofediq certs client` it speaks TLS. It ends with the federation, or with the samples. */
#include <mosquitto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ofediq.h"

static ofediq_client client;
static const char *federation, *name;
static FILE *samples;

static void topic(char *text, size_t room, const char *kind, const char *who) {
  snprintf(text, room, "%s/%s%s%s", federation, kind, who ? "/" : "", who ? who : "");
}

static void publish(struct mosquitto *link, const char *kind, const void *data, size_t bytes, bool retain) {
  char to[256];
  topic(to, sizeof to, kind, name);
  mosquitto_publish(link, NULL, to, (int)bytes, data, 1, retain);
}

static void act(struct mosquitto *link, int result) {
  if (result < 0) fprintf(stderr, "%s: refused with %d\n", name, result);
  if (result > 0 && result & OFEDIQ_SAY) publish(link, "u", client.said, client.said_bytes, false);
  if (result > 0 && result & OFEDIQ_GREET) publish(link, "here", OFEDIQ_HERE, strlen(OFEDIQ_HERE), true);
}

/* Gives the round a sample for each of its steps; 0 when there are no more. */
static int feed(struct mosquitto *link) {
  static char line[64 * (OFEDIQ_READINGS + 1)];
  while (ofediq_hungry(&client)) {
    float x[OFEDIQ_READINGS + 1];
    if (!fgets(line, sizeof line, samples)) return 0;
    char *at = line, *end;
    int count = 0;
    while (count <= OFEDIQ_READINGS && (x[count] = strtof(at, &end), end != at)) {
      count++;
      at = end + (*end == ',');
    }
    if (count == OFEDIQ_READINGS + 1) act(link, ofediq_learn(&client, x, x[OFEDIQ_READINGS]));
    else act(link, ofediq_skip(&client));
  }
  return 1;
}

static void on_connect(struct mosquitto *link, void *none, int code) {
  char to[256];
  (void)none;
  if (code) return;
  topic(to, sizeof to, "task", NULL); /* the rest follows when the task is known */
  mosquitto_subscribe(link, NULL, to, 1);
}

static void on_task(struct mosquitto *link) {
  static const char *const kinds[] = {"welcome", "whole", "model", "d"};
  char to[256];
  for (int i = 0; i < 4; i++) {
    topic(to, sizeof to, kinds[i], i < 2 ? name : NULL);
    mosquitto_subscribe(link, NULL, to, 1);
  }
  publish(link, "here", OFEDIQ_HERE, strlen(OFEDIQ_HERE), true);
}

static void on_message(struct mosquitto *link, void *none, const struct mosquitto_message *message) {
  const char *kind = message->topic + strlen(federation) + 1;
  const uint8_t *data = message->payload;
  size_t bytes = (size_t)message->payloadlen;
  (void)none;
  if (strcmp(kind, "task") == 0) {
    int result = ofediq_task(&client, data, bytes);
    act(link, result);
    if (result == OFEDIQ_NOTHING) on_task(link);
  } else if (strncmp(kind, "welcome", 7) == 0) {
    act(link, ofediq_welcome(&client, data, bytes));
  } else {
    act(link, ofediq_model(&client, data, bytes));
  }
  if (!feed(link) || (client.opened && client.final && client.samples)) {
    act(link, ofediq_farewell(&client));
    publish(link, "here", OFEDIQ_GONE, strlen(OFEDIQ_GONE), true);
    mosquitto_disconnect(link);
  }
}

int main(int count, char **arguments) {
  char id[256], will[256];
  if (count != 6 && count != 9) return fprintf(stderr, "mqtt HOST PORT FEDERATION NAME SAMPLES [CA CERT KEY]\n"), 2;
  federation = arguments[3];
  name = arguments[4];
  samples = fopen(arguments[5], "r");
  if (!samples) return perror(arguments[5]), 2;
  ofediq_start(&client);
  mosquitto_lib_init();
  snprintf(id, sizeof id, "%s.%s", federation, name);
  struct mosquitto *link = mosquitto_new(id, true, NULL);
  if (!link) return 1;
  topic(will, sizeof will, "here", name);
  mosquitto_will_set(link, will, (int)strlen(OFEDIQ_GONE), OFEDIQ_GONE, 1, true);
  if (count == 9) mosquitto_tls_set(link, arguments[6], NULL, arguments[7], arguments[8], NULL);
  mosquitto_int_option(link, MOSQ_OPT_TCP_NODELAY, 1);
  mosquitto_connect_callback_set(link, on_connect);
  mosquitto_message_callback_set(link, on_message);
  int failed = mosquitto_connect(link, arguments[1], atoi(arguments[2]), 60);
  if (!failed) failed = mosquitto_loop_forever(link, -1, 1);
  if (failed) fprintf(stderr, "%s: %s\n", name, mosquitto_strerror(failed));
  printf("samples %u, updates %u\n", (unsigned)client.samples, (unsigned)client.sent);
  mosquitto_destroy(link);
  mosquitto_lib_cleanup();
  return failed ? 1 : 0;
}
