// The moves of a schedule in words.

import { seconds } from "./picture.js";
import { t } from "./text.js";

/** inWords describes the moves of a schedule: A · A, reply lost · 3 s pass · B. */
export const inWords = (moves) => moves.split(".").filter(Boolean).map(word).join(" · ");

/** word describes a move. A move that begins with a buyer sends a command: the buyer's second one has a number. */
function word(move) {
  const [, kind, of] = /^([pflkt]?)(.+)$/.exec(move);
  const values = { name: of, time: kind === "p" && seconds(Number(of)) };
  return kind ? t(`move.${kind}`, values) : of;
}
