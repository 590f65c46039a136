// Package search explores all schedules in which a few buyers compete for the last unit, with a
// limited number of faults and with the real code of a strategy. It finds the shortest schedule
// that breaks the strategy, or shows that there is none.
//
// # How it works
//
// Running code cannot be copied, so a buyer cannot be put back into an earlier state. But what a
// buyer does next depends only on its inputs and their times: the replies of Redis, the breaks of
// its connections, the freezes of its process, and the time in between. So each buyer is run by
// itself, in virtual time, once for each different sequence of inputs (history). A run records
// which commands the buyer sends, and what it would do without further inputs (snapshot). Redis is
// treated as a function as well: from the data and a command it computes a reply and the new data
// (redis, on the embedded Redis). A state of the search consists of the data in Redis, the history
// of each buyer, and the faults that are left (state).
//
// A buyer has several goroutines. Commands that they send at the same moment are put in order
// before they get a connection (lab.Shopper), so that every run does the same.
//
// The scheduler in package lab runs all buyers with one server. The tests compare the search with
// it after random moves, and it must be able to replay each break that the search finds.
//
// # Which states are merged
//
// Two states are merged if the following are the same in both (state.id): the data in Redis, with
// the remaining ttl of each key; for each buyer, the commands without a reply, what it would do
// without further inputs and when, and its past inputs; the faults that are left; and how many
// units are sold. Two buyers may have changed places.
//
// Times are relative: the clock of Redis shows the same moment in every state, and times that are
// stored in Redis are shifted instead. Random values are replaced by numbers. Fencing tokens are
// renumbered in their order, all below the next one (names.go).
//
// Buyers are merged in the same way (histories.add): a buyer whose inputs were different, but which
// does the same from here on, continues from another history. Its random values and its tokens have
// other names in that history, so they are renamed (names.go). So each strategy is run a few
// thousand times, and not once for each state. Which history is kept is chosen after each level of
// the search, in a fixed order (histories.settle), so the result does not depend on which worker
// was quicker. The tests keep a different history, and get the same result.
//
// Past inputs are ignored where the program no longer depends on them. That assumes six things
// about the programs:
//
//   - A program that sends the same command again, or sleeps before it does so, is in a loop, in
//     the same place as the first time, if both times are in the same part of its work (before, in
//     or after the section). So a lock that counts its tries cannot be searched.
//   - After its section, a program needs only what is in its own commands to release the lock.
//     Earlier inputs no longer matter.
//   - A program that waits in Redis has all that it needs of its inputs in the arguments of that
//     command.
//   - The reply to a renewal matters only through the timers that the program sets after it.
//     Whether the last reply was lost is kept, but not how many were.
//   - A program that has ended and waits for no reply does nothing more.
//   - A program that depends on time has a timer, or measures the age of its lease from the command
//     that acquired or renewed it. Ages above a lease are all the same to it. If it cannot tell its
//     holder that the lock is lost, it does not depend on time. If it asks once more when it is
//     woken (lab.Subject.AsksAgain), its lease counts from that request.
//
// The tests also search the stages without merging and with all moves, as far as that is feasible,
// and compare the lengths of the shortest breaks.
//
// # Which schedules are not tried
//
// A buyer that has bought or failed is not frozen or killed, although its lock may still be
// released in the background, because the scheduler does not allow that either. Time passes up to
// the next event: a key expires, a buyer goes on by itself, or a command that waits in Redis gets
// its reply. Events in a frozen process, or of a buyer that would only be refused again, count only
// if there are no others. Renewals are sent when they are due; a renewal that a frozen process has
// given up is never executed. Moves that commute are tried in one order (state.moves). A state from
// which only some moves would be tried is skipped if it is already known with all moves.
package search
