// Package search explores all schedules in which a few buyers compete for the last unit, with a
// limited number of faults and with the real code of a strategy. It finds the shortest schedule
// that breaks the strategy, or shows that there is none.
//
// # How it works
//
// Running code cannot be copied, so a buyer cannot be put back into an earlier state. But what a
// buyer does next depends only on its inputs and their times: replies of Redis, broken connections,
// freezes of its process, and the time in between. So each buyer runs alone, in virtual time, once
// for each different sequence of inputs (type history). A run records which commands the buyer
// sends, and what it would do without further inputs (type snapshot). Redis is treated as a
// function, too: from the data and a command it computes a reply and the new data (type redis,
// which uses the embedded Redis). A state of the search (type state) consists of the data in Redis,
// the history of each buyer, and the faults that may still happen.
//
// A buyer has several goroutines. Commands that they send at the same moment are put in order
// before they get a connection (see lab.Shopper), so that every run behaves in the same way.
//
// The scheduler in package lab runs all buyers with one server. The tests compare the search with
// the scheduler after random moves, and the scheduler must be able to replay each break that the
// search finds.
//
// # Which states are merged
//
// Two states are merged if the following are the same in both (see state.id): the data in Redis,
// with the remaining ttl of each key; for each buyer, its commands without a reply, what it would
// do without further inputs and when, and its past inputs; the faults that may still happen; and
// the number of units sold. Two states are also merged if they differ only in that buyers have
// changed places.
//
// Times are relative: the clock of Redis shows the same moment in every state, and times that are
// stored in Redis are shifted instead. Random values are replaced by numbers. Fencing tokens are
// renumbered in their order, so that all are below the next token (see names.go).
//
// Buyers are merged in the same way (see histories.add). If two buyers had different inputs but
// will behave in the same way from here on, one of them continues with the history of the other.
// Its random values and its tokens have other names in that history, so they are renamed (see
// names.go). So each strategy is run a few thousand times, and not once for each state. The history
// to keep is chosen after each level of the search, in a fixed order (see histories.settle), so the
// result does not depend on which worker was faster. The tests keep a different history, and get
// the same result.
//
// Past inputs are ignored where the program no longer depends on them. This relies on six
// assumptions about the programs:
//
//   - A program that sends the same command twice in one part of its work (before, in or after the
//     section), with or without a sleep in between, is in a loop, and at the same point both times.
//     So a lock that counts its attempts cannot be searched.
//   - After its section, a program needs only the arguments of its own commands to release the
//     lock. Earlier inputs no longer matter.
//   - The command with which a program waits in Redis contains, in its arguments, everything that
//     the program still needs from its inputs.
//   - The reply to a renewal matters only through the timers that the program sets after it. The
//     search records whether the last reply was lost, but not how many were lost.
//   - A program that has ended and waits for no reply does nothing further.
//   - A program that depends on time has a timer, or measures the age of its lease from the command
//     that acquired or renewed it. It does not distinguish between ages that are longer than a
//     lease. A program that cannot tell its holder that the lock is lost does not depend on time.
//     If a program asks once more when it is woken (lab.Subject.AsksAgain), its lease counts from
//     that request.
//
// Where it is feasible, the tests also search the stages without merging and with all moves, and
// compare the lengths of the shortest breaks.
//
// # Which schedules are not tried
//
// A buyer that has bought or failed is not frozen or killed, although its lock may still be
// released in the background, because the scheduler does not allow that either. Time passes up to
// the next event: a key expires, a buyer continues by itself, or a command that waits in Redis gets
// its reply. Events in a frozen process, or of a buyer that would only be refused again, count only
// if there are no other events. Renewals are sent when they are due; a renewal that a frozen
// process has given up is never executed. Moves that commute are tried in one order only (see
// state.moves). A state from which only some moves would be tried is skipped if the search already
// knows the same state with all moves.
package search
