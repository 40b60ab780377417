#!/bin/sh
# Once, before `docker compose up`: certificates, the broker's settings, and what each part reads, in deploy/run.
# Needs `ofediq[federation]` here. CLIENTS: names of the clients; HOSTS: what the broker is reached under; AT, DATA: where
# its settings and what it keeps are in its container. The authority's key stays in deploy/run/certs/authority;
# no container sees it.
set -eu
cd "$(dirname "$0")"
CLIENTS=${CLIENTS:-"client-1 client-2 client-3"}
HOSTS=${HOSTS:-broker}
AT=${AT:-/mosquitto/config}
DATA=${DATA:-/mosquitto/data}
umask 077
mkdir -p run/server/state run/secrets
ofediq certs authority --name greenhouse --folder run/certs
# shellcheck disable=SC2086 # names are words
ofediq certs broker $HOSTS --folder run/certs
ofediq certs server --folder run/certs
# shellcheck disable=SC2086 # names are words
ofediq certs client $CLIENTS --folder run/certs
ofediq certs broker-config --federation greenhouse --folder run/certs --at "$AT" --storage "$DATA"
TOKEN=${TOKEN:-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')}
printf '%s' "$TOKEN" > run/secrets/token
PASSWORD=${PASSWORD:-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')}
printf '%s' "$PASSWORD" > run/secrets/grafana
cp run/certs/server/*.pem run/server/
sed "s/@TOKEN@/$TOKEN/" federation.toml > run/server/federation.toml
for name in $CLIENTS; do
  mkdir -p "run/$name"
  cp "run/certs/$name"/*.pem "run/$name/"
  sed "s/@NAME@/$name/" client.toml > "run/$name/client.toml"
  [ -e "run/$name/samples.csv" ] || cp samples.csv "run/$name/samples.csv"
done
# Containers run as users of their own: ours as 10001, mosquitto as 1883, Prometheus as 65534, Grafana as 472.
if [ "$(id -u)" = 0 ]; then
  for name in server $CLIENTS; do chown -R 10001:10001 "run/$name"; done
  chown -R 1883:1883 run/certs/broker
  chown 65534 run/secrets/token
  chown 472 run/secrets/grafana
else
  echo "Run it as root, or give the folders in deploy/run to the users of the containers (see prepare.sh)." >&2
fi
