// The shop's API: JSON in both directions, and errors in the reader's language.

import { recall, store } from "./tab.js";
import { knows, t, told } from "./text.js";

/** Problem is an error reply of the shop. */
class Problem extends Error {
  constructor({ status, code, detail, message }) {
    const said = told(detail, message);
    const key = [`problem.${code}.${status}`, `problem.${code}`].find(knows);
    super(key ? t(key, { detail: said }) : said);
    this.status = status;
    this.code = code;
    this.detail = said;
  }
}

/** hasShop is false on a site of recordings, which cmd/lab -site writes. */
export const hasShop = document.documentElement.dataset.site === undefined;

/** at returns the address of a path of the shop. Unlike a shop, a site need not be at the root of its host. */
export const at = (path) => hasShop ? path : new URL(path.slice(1), document.baseURI).href;

/** send sends a request to the shop, or to its replacement on a site of recordings. */
const send = async (path, request) =>
  hasShop ? fetch(at(path), request) : (await import("./site.js")).send(path, request);

const tokenName = "token";

/** token returns or stores the visitor's token, for as long as the tab is open. */
export function token(value) {
  if (value !== undefined) store(tokenName, value);
  return recall(tokenName) ?? "";
}

/** wantsToken reports whether an error is about a missing or wrong token. */
export const wantsToken = ({ code }) => ["no_token", "wrong_token", "bad_token"].includes(code);

const printable = (given) => /^[\x21-\x7e]*$/.test(given); // a header can contain nothing else

/** authorization returns the header with the token, if one was given. */
export function authorization() {
  const given = token();
  return given && printable(given) ? { Authorization: `Bearer ${given}` } : {};
}

/**
 * call sends a request and returns the JSON of the reply, or null for a 204. It throws a Problem, or the reason of a
 * signal that was aborted, even if the reply has arrived.
 */
export async function call(path, { method = "GET", body, headers = {}, signal } = {}) {
  headers = { ...headers, ...authorization() };
  let reply;
  let result = null;
  try {
    reply = await send(path, { method, headers, signal, body: JSON.stringify(body) });
    if (reply.ok && reply.status !== 204) result = await reply.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ status: 0, code: "unreachable", detail: error.message });
  }
  if (!reply.ok) result = await problemOf(reply);
  signal?.throwIfAborted();
  if (!reply.ok) throw result;
  return result;
}

/** problemOf returns the Problem of a reply that is not ok. */
export async function problemOf(reply) {
  const { status, statusText } = reply;
  const problem = await reply.json().catch(() => null) ?? { status, code: "", detail: `${status} ${statusText}` };
  if (problem.code === "no_token" && token()) problem.code = printable(token()) ? "wrong_token" : "bad_token";
  return new Problem(problem);
}

/** key makes an idempotency key for one click, so that a request that is sent twice takes effect once. */
export function key() {
  return `page-${[...crypto.getRandomValues(new Uint8Array(12))].map((b) => b.toString(16).padStart(2, "0")).join("")}`;
}
