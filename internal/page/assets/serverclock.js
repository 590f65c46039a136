// An estimate of the server's clock.

const trusted = 60_000; // milliseconds until a worse measurement replaces a good one

/** newClock makes a clock that shows this browser's time until it has been set. */
export function newClock() {
  let ahead = 0; // milliseconds by which the server's clock is ahead of this one
  let best = { trip: Infinity, at: -Infinity };
  return {
    now: () => Date.now() + ahead,

    /**
     * timed returns the result of ask, and sets the clock by the time that told finds in it. The server read its clock
     * at some moment of the round trip, so the shortest round trip gives the best estimate.
     */
    async timed(ask, told) {
      const begun = Date.now();
      const reply = await ask();
      const ended = Date.now();
      const trip = ended - begun;
      if (trip >= 0 && (trip <= best.trip || ended - best.at > trusted)) {
        best = { trip, at: ended };
        ahead = Date.parse(told(reply)) - (begun + trip / 2);
      }
      return reply;
    },
  };
}
