// What the server says: first everything, then increments; and whether it is still there.

const SILENCE = 15000; // milliseconds after which a connection is taken for dead; the server speaks every 5000
const LONGEST_WAIT = 10000;

// Calls `onNews(state)` after every message and `onConnection("live" or "reconnecting")` when that changes.
export function follow(address, { onNews, onConnection }) {
  let source = null;
  let state = null;
  let heard = Date.now();
  let wait = 1000;
  let connection = "connecting";

  function say(what) {
    if (what !== connection) onConnection((connection = what));
  }

  function hear(apply) {
    return (event) => {
      heard = Date.now();
      wait = 1000;
      apply(JSON.parse(event.data));
      say("live");
      if (state) onNews(state);
    };
  }

  function open() {
    heard = Date.now();
    source = new EventSource(address);
    source.addEventListener("snapshot", hear((message) => (state = begin(message))));
    source.addEventListener("update", hear((message) => state && merge(state, message)));
    source.addEventListener("alive", hear((message) => state && (state.offset = clockOffset(message))));
    source.onerror = () => {
      say("reconnecting");
      if (source.readyState === EventSource.CLOSED) again();
    };
  }

  function again() {
    source.close();
    setTimeout(async () => {
      // A server that came back with another token would be asked for ever; the page's own form asks for it.
      const answer = await fetch("snapshot.json", { method: "HEAD" }).catch(() => null);
      if (answer === null) again();
      else if (answer.status === 401) location.reload();
      else open();
    }, wait);
    wait = Math.min(2 * wait, LONGEST_WAIT);
  }

  setInterval(() => {
    if (source.readyState !== EventSource.CLOSED && Date.now() - heard > SILENCE) {
      say("reconnecting");
      source.close();
      open();
    }
  }, 2000);
  open();
}

function begin(message) {
  const clients = new Map(message.clients.map((client) => [client.name, client]));
  return { ...message, clients, offset: clockOffset(message) };
}

function merge(state, message) {
  for (const client of message.clients) state.clients.set(client.name, client);
  const history = {};
  for (const name of new Set([...Object.keys(state.history), ...Object.keys(message.history)])) {
    history[name] = (state.history[name] ?? []).slice(0, message.since).concat(message.history[name] ?? []);
  }
  Object.assign(state, message, { clients: state.clients, history, offset: clockOffset(message) });
}

// Seconds that the server's clock is ahead of this one.
function clockOffset(message) {
  return message.now - Date.now() / 1000;
}
