// Which cells of the matrix are shown: the pins and the filter that the address contains.

import { expand } from "./shortname.js";
import { called, named } from "./text.js";

/** everything is the choice without pins or a filter. */
export const everything = { pins: [], words: "", loss: "", rows: "all" };

/** taught lists the anomalies that the matrix begins with: those that the stages of the lock are about. */
const taught = ["lost-update", "local-mutex-across-instances", "orphan-after-crash", "expires-while-held",
  "foreign-delete", "check-then-delete", "nested-acquire", "long-work", "starvation", "missed-wake-up", "paused-writer",
  "failover"];

/** controls lists the anomalies that show the cure of another one: every strategy holds in them, as it should. */
export const controls = ["committed-before-release", "strategies-take-turns"];

export const rowChoices = ["taught", "all", "broken", "differ"];

/** choiceOf reads a choice from the address. A pin may be a short name, such as v6. */
export function choiceOf(lab, query) {
  const { strategies } = lab.manifest;
  const named = (query.get("pin") ?? "").split(",").map((name) => expand(name, strategies));
  const pins = named.filter((name) => strategies.includes(name));
  const one = (name, allowed) => (allowed.includes(query.get(name)) ? query.get(name) : "");
  return {
    pins: [...new Set(pins)],
    words: query.get("q") ?? "",
    loss: one("loss", lab.losses),
    rows: one("rows", rowChoices) || (["q", "loss", "pin"].some((name) => query.get(name)) ? "all" : "taught"),
  };
}

/** addressOf returns the address of the matrix with a choice. */
export function addressOf({ pins, words, loss, rows }) {
  const query = new URLSearchParams();
  if (pins.length > 0) query.set("pin", pins.join(","));
  if (words) query.set("q", words);
  if (loss) query.set("loss", loss);
  if (rows !== (words || loss || pins.length > 0 ? "all" : "taught")) query.set("rows", rows);
  const text = query.toString().replaceAll("%2C", ",");
  return text ? `#/break?${text}` : "#/break";
}

/** columnsOf lists the strategies as columns, those that are pinned first. */
export const columnsOf = ({ manifest }, { pins }) => [...pins, ...manifest.strategies.filter((s) => !pins.includes(s))];

/** groupsOf lists the losses, the worst first, each with its chosen anomalies. */
export function groupsOf(lab, choice, cellAt) {
  const { words, loss, rows, pins } = choice;
  const asked = words.trim().toLowerCase();
  const looked = pins.length > 0 ? pins : lab.manifest.strategies;
  const says = ({ name, sentence }) => `${called(name)} ${named(`anomaly.${name}.sentence`, sentence)}`.toLowerCase();
  const outcomes = ({ name }) => looked.map((strategy) => cellAt(name, strategy)?.outcome);
  const test = {
    taught: ({ name }) => taught.includes(name),
    all: () => true,
    broken: (anomaly) => outcomes(anomaly).includes("breaks"),
    differ: (anomaly) => new Set(outcomes(anomaly)).size > 1,
  }[rows];
  const chosen = lab.anomalies.filter((anomaly) => says(anomaly).includes(asked) && test(anomaly));
  return lab.losses.filter((each) => !loss || each === loss).map((each) => ({
    loss: each,
    anomalies: chosen.filter((anomaly) => anomaly.loss === each),
  })).filter(({ anomalies }) => anomalies.length > 0);
}
