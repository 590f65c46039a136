// Server-sent events, read with fetch: an EventSource cannot send the token.

import { at, authorization, call, hasShop, problemOf } from "./api.js";
import { t } from "./text.js";

// Milliseconds until a lost or refused stream is opened again, plus up to half as many, at random.
const reopen = 2000;

/**
 * listen opens a stream of events and passes the JSON of each event to on[its name]. It calls opened when the stream
 * has begun, and ended when it is over, with the reason unless the shop ended it regularly. close does not call ended.
 */
function listen(path, on, opened, ended) {
  const stop = new AbortController();
  const { signal } = stop;

  async function read() {
    const reply = await fetch(at(path), { headers: authorization(), cache: "no-store", signal });
    if (!reply.ok) throw await problemOf(reply);
    opened();
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || signal.aborted) return;
      const events = (text + value).split("\n\n");
      text = events.pop(); // incomplete
      for (const event of events) if (!signal.aborted) tell(event);
    }
  }

  function tell(event) {
    const field = (name) => event.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
    try {
      on[field("event")]?.(JSON.parse(field("data")));
    } catch (error) {
      reportError(error); // and go on with the next
    }
  }

  const why = ({ status, message }) => (status ? message : t("live.lost")); // only a Problem has a status
  read().then(() => "", why).then((reason) => signal.aborted || ended(reason));
  return { close: () => stop.abort() };
}

/** replay sends, once, the first events of a stream on a site of recordings, where nothing changes. */
function replay(on) {
  let over = false;
  const tell = async () => {
    const { runs } = await call("/api/runs");
    const run = runs.length > 0 ? await call(`/api/runs/${runs[0].id}`) : null;
    if (over) return;
    on.list({ runs });
    run?.rows.forEach((row, i) => on.row({ id: run.id, n: i + 1, row }));
    on.run({ run });
  };
  tell().catch(reportError);
  return () => over = true;
}

/**
 * follow keeps a stream of events open while the page is visible, because a browser has few connections to a host. It
 * calls before each time it opens a stream. It calls lost with the reason when a stream was refused or broke off or the
 * shop is closing, and with "" when a stream has begun or has ended regularly. It returns a function that ends the
 * stream.
 */
export function follow(path, on, before, lost) {
  if (!hasShop) return replay(on);
  let stream = null;
  let again = 0; // a timer

  function open() {
    clearTimeout(again);
    stream?.close();
    stream = null;
    if (document.hidden) return;
    before();
    let over = false; // the shop is closing
    const closing = () => {
      over = true;
      on.closing();
    };
    stream = listen(path, { ...on, closing }, () => lost(""), (reason) => { // a stream has a maximum duration
      const broke = over ? t("live.lost") : reason;
      lost(broke);
      again = setTimeout(open, broke ? reopen * (1 + Math.random() / 2) : 0);
    });
  }

  document.addEventListener("visibilitychange", open);
  open();
  return () => {
    document.removeEventListener("visibilitychange", open);
    clearTimeout(again);
    stream?.close();
  };
}
