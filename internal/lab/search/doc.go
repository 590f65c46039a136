// Package search explores every schedule of a few buyers of the last unit, under a budget
// of faults, with the real code of a strategy: it finds the shortest schedule that breaks
// it, or that there is none.
//
// # How it works
//
// Running code cannot be copied, so a buyer cannot be put back to where it was. But what a
// buyer does next depends only on what it was told and when: the replies of Redis, the
// breaks of its connections, the freezes of its process, and the time in between. So each
// buyer is run by itself, in virtual time, once for each different sequence of such inputs
// (history). A run notes which commands the buyer sends, and what it would do by itself if it
// were told nothing more (snapshot). Redis is a function as well: a command on given data leads
// to a reply and to other data (redis, on the embedded Redis). A state of the search is
// what Redis has, which history each buyer is at, and which faults are left (state).
//
// A buyer has several goroutines. What they send at the same moment is put in order before it
// gets a connection (lab.Shopper), so that a run does the same each time.
//
// The scheduler in package lab runs all buyers beside one server. The tests compare the
// two after random moves, and each break that the search finds must be replayed by it.
//
// # Which states are one
//
// Two states are one if the following are the same in both (state.id): the data in Redis,
// with what is left of each ttl; of each buyer the commands without a reply, what it would
// do if it were told nothing, with the times until then, and what it was told; the faults
// that are left; and how many units are sold. Two buyers may have changed places.
//
// Times are relative: the clock of Redis shows the same moment in every state, and the
// moments that are stored there are moved instead. What is random is numbered. Fencing
// tokens are numbered in their order, and all are below the next one (names.go).
//
// Buyers are merged in the same way (histories.add): a buyer that was told something else, and
// that does the same from here on, goes on from another history. What it has drawn or was told
// has other names there, and is renamed (names.go). So each strategy is run a few thousand
// times, and not once for each state. Which history is kept is chosen after each level of the
// search, in a fixed order (histories.settle): what a search finds does not depend on which
// worker was quicker. The tests keep another one, and find the same.
//
// What a buyer was told is left out where its program no longer depends on it. That is an
// assumption about the programs, in six parts:
//
//   - A program that sends the same command again, or sleeps before it does, is in a loop,
//     and is where it was when it sent it first, if both were sent before, in or after the
//     section. So a lock that counts its tries cannot be searched.
//   - A program whose section has ended releases its lock by what is in the commands that it
//     has sent. What it was told before no longer matters.
//   - A program that waits in Redis has put what it was told into the arguments of its wait.
//   - A renewal has told the program what it needs by the timers that it sets. Only that
//     the last one got lost is kept, and not how many.
//   - A program that has ended, with nobody waiting for a reply, does nothing more.
//   - A program that compares times has a timer for it, or counts a lease from the command
//     that has acquired or renewed it, and does not tell apart what is longer ago than a
//     lease. If it cannot tell its holder that the lock is lost, it compares no times. If it
//     asks once more when it is woken (lab.Subject.AsksAgain), it counts from there.
//
// The tests search the stages with nothing merged and no move left out, as far as that
// comes, and compare the lengths of the shortest breaks.
//
// # Which schedules are not tried
//
// A buyer that has bought or failed is not stopped or killed any more, although its lock may
// still be released in the background, because the scheduler does not allow that either.
// Time passes up to the next moment at which a key expires, a buyer goes on by itself or a
// command that waits in Redis has its reply. The moments of a frozen process, and those at
// which a buyer would ask again what it was refused, count only if there are no others.
// Renewals are sent when they are due; one that a frozen process has given up does not
// arrive any more. Moves that commute are tried in one order (state.moves). A state in
// which only some moves are tried is left out if all are tried from the same one.
package search
