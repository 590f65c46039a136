// Package redlock is the lock of one Redis made for several: a majority decides.
//
// The algorithm is Redlock, as in "Distributed Locks with Redis",
// https://redis.io/docs/latest/develop/use/patterns/distributed-locks/. The nodes
// are independent of each other: no replicas, no cluster. Its steps, and where
// they are:
//
//  1. Note the time (Mutex.TryLock).
//  2. Set the same key to the same random token on all nodes, if it is not there
//     (claim.set), with a time limit a node far below the ttl (NodeLimit). There
//     it is done one after another, here at once (claim.ask).
//  3. The lock is held if a majority, N/2+1, did so and validity is left: the ttl
//     less the time it took, less the drift of the clocks (keep, drift).
//  4. It is held for as long as that (Mutex.Validity).
//  5. If it is not, release it on all nodes, also on those that did not answer
//     (claim.release, unlock.lua), and try again after a random delay. The delay
//     is a matter of locks.Policy; TryLock says why it must be random.
//
// New: the lock is kept by a majority, not by one server, so that it is to be had,
// and stays, while fewer than half of the servers are away. Stage 6's renewal asks
// a majority as well (renewal.go). Unlike there, an owner does not re-enter.
//
// Delayed restarts: a node that restarts without its data, or without the last
// second of it, must stay away for longer than the longest ttl in use. By then
// what it forgot has run out, or was renewed by a majority that it is no part of.
// Nobody here sees to that: it is for whoever runs the nodes. A node that writes
// down all before it answers (appendfsync always) may come back at once.
//
// Holds:
//   - one holder at a time: TestExclusive, TestMinorityOfProcessesFails
//   - also in 200 random schedules, where two or three nodes of five at a time
//     are down, deaf, mute or slow, crash and restart delayed, and clocks drift
//     by up to 1 %; and whoever lost the lock was told: TestSchedules
//   - with two nodes of five away, however they are, the lock is had and given
//     back without delay: TestMinorityFails
//   - with three away it is not had; that is told within NodeLimit, and nothing
//     is left behind: TestNoQuorum, TestMajorityOfProcessesHangs
//   - "held by another" and "no majority answered" are told apart: TestRefused,
//     TestNoQuorum, TestFalseIsCertain
//   - a lock whose reply was lost is undone, and no more than that:
//     TestLostReplyIsUndone, TestReleaseAwaitsSet, TestLateReleaseSparesNextAttempt
//   - answers that come too late give no lock: TestTooLateIsNotHeld, TestValidity
//   - a cancelled caller still gives the lock back: TestUnlockAfterCancel,
//     TestCancelledTryLock
//   - an Unlock that does not get through ends in time, as does the lock:
//     TestUnlockWithoutQuorum, TestUnlockEndsRenewal
//   - a holder that comes late leaves the next one's lock alone:
//     TestLateUnlockSparesForeignLock
//   - a dead holder's lock is free after ttl: TestDeadHolderExpires
//   - a majority renews: TestLongWorkKeepsLock, TestRenewalByMajority,
//     TestRenewalOutlivesErrors, TestForgetfulMinority
//   - a lost lock is told, at the latest as its validity ends: TestLossIsTold
//   - a node that comes back with its data does no harm: TestRestartWithData
//   - nor does one that comes back without, after the ttl: TestDelayedRestart
//
// Breaks:
//   - a majority's clocks that jump let a second holder in:
//     TestClockJumpLetsSecondIn
//   - so does a node that comes back empty within the ttl:
//     TestEmptyRestartLetsSecondIn, TestSchedulesWithoutDelayedRestart
//   - a process that is stopped for longer than ttl learns of its loss only as it
//     goes on, maybe one write too late. There is no fencing token by which the
//     resource could refuse it, and the tokens here are random, not in order:
//     TestPausedHolderWritesTooLate
//   - those who try at the same moment may get it none of them: TestSplitVote
//   - a SET that is carried out after its release locks a node for nobody, until
//     the ttl: TestLateSetStaysUntilTTL
//   - what nobody unlocks, its process renews for ever: TestForgottenUnlock
package redlock
