// The shop's API: JSON there and back, and errors that are told in words.

import { t, knows, told } from "./text.js";

/** Problem is an error reply of the shop. */
export class Problem extends Error {
  constructor({ status, code, detail }) {
    const said = told(detail);
    super([`problem.${code}.${status}`, `problem.${code}`].filter(knows).map((key) => t(key, { detail: said }))[0] ?? said);
    this.status = status;
    this.code = code;
    this.detail = said;
  }
}

const tokenName = "token";

/** token is what the visitor gave, kept as long as the tab is open. */
export function token(value) {
  try {
    if (value !== undefined) sessionStorage.setItem(tokenName, value);
    return sessionStorage.getItem(tokenName) ?? "";
  } catch {
    return "";
  }
}

/** wantsToken tells whether an error is that the token is not given, or is another. */
export const wantsToken = ({ code }) => ["no_token", "wrong_token", "bad_token"].includes(code);

const printable = (given) => /^[\x21-\x7e]*$/.test(given); // others a header cannot carry

/** authorization is the header that shows the token, if one was given. */
export function authorization() {
  const given = token();
  return given && printable(given) ? { Authorization: `Bearer ${given}` } : {};
}

/** call sends a request and returns the JSON of the reply. It throws a Problem, and the signal's reason once that is aborted, so that nothing comes of a reply that is too late. */
export async function call(path, { method = "GET", body, headers = {}, signal } = {}) {
  const given = token();
  headers = { ...headers, ...authorization() };
  let reply;
  try {
    reply = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ status: 0, code: "unreachable", detail: error.message });
  }
  const json = await reply.json().catch(() => null);
  signal?.throwIfAborted();
  if (!reply.ok) {
    const problem = json ?? { status: reply.status, code: "", detail: `${reply.status} ${reply.statusText}` };
    if (problem.code === "no_token" && given) problem.code = printable(given) ? "wrong_token" : "bad_token";
    throw new Problem(problem);
  }
  return json;
}
