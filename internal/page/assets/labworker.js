// A worker with the lab: Go, compiled to WebAssembly. It gets { id, question } and posts { kind: "answer", id, status,
// text }, besides "loading" with the progress, "loaded", and "failed" with the reason.

/** counted passes bytes on, and reports the number received so far. */
function counted(of) {
  let done = 0;
  return new TransformStream({
    transform(chunk, passed) {
      done += chunk.byteLength;
      postMessage({ kind: "loading", done, of });
      passed.enqueue(chunk);
    },
  });
}

/**
 * load fetches the lab and compiles it while it arrives. The file is compressed, because not every file server
 * compresses WebAssembly. If a server says so in a header, the browser unpacks the file.
 */
async function load() {
  const { wasm } = await (await fetched("../site.json", { cache: "no-cache" })).json(); // the names in it change
  importScripts(`../${wasm.start}`); // Go's own script, of the same version
  const reply = await fetched(`../${wasm.file}`);
  let bytes = reply.body.pipeThrough(counted(wasm.bytes));
  const unpacked = /gzip/.test(reply.headers.get("Content-Encoding") ?? "");
  if (!unpacked) bytes = bytes.pipeThrough(new DecompressionStream("gzip"));
  const headers = { "Content-Type": "application/wasm" };
  return WebAssembly.compileStreaming(new Response(bytes, { headers }));
}

async function fetched(name, how) {
  const reply = await fetch(name, how);
  if (!reply.ok) throw new Error(`${name}: ${reply.status} ${reply.statusText}`);
  return reply;
}

/** start starts a lab, and returns the function to ask it. Only one may start at a time: each calls labReady. */
async function start(module) {
  const go = new Go();
  const instance = await WebAssembly.instantiate(module, go.importObject);
  const ready = new Promise((done) => globalThis.labReady = done);
  const over = go.run(instance).then(() => {
    throw new Error("the lab ended");
  });
  const ask = await Promise.race([ready, over]);
  return (question) => {
    const replied = new Promise((done) => ask(JSON.stringify(question), (...reply) => done(reply)));
    return Promise.race([replied, over]);
  };
}

const module = load();
let scheduler = null; // a lab that plays schedules, one after the other
let last = module; // the previous answer

/**
 * answer asks a lab. Each cell gets its own lab, which ends with the cell: client libraries keep timers, and those from
 * the virtual time of one cell must not be used in another.
 */
async function answer(question) {
  if (!question.anomaly) {
    scheduler ??= start(await module);
    return (await scheduler)(question);
  }
  const once = await start(await module);
  const reply = await once(question);
  once({ end: true }).catch(() => {}); // it ends without a reply
  return reply;
}

module.then(() => postMessage({ kind: "loaded" }), fail);

function fail(error) {
  postMessage({ kind: "failed", text: String(error?.message ?? error) });
}

addEventListener("message", ({ data: { id, question } }) => {
  last = last.then(async () => {
    const [status, text] = await answer(question);
    postMessage({ kind: "answer", id, status, text });
  }).catch(fail);
});
