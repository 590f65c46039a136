// Package redlock is a lock on several independent Redis servers: a majority decides.
//
// The algorithm is Redlock, as in "Distributed Locks with Redis",
// https://redis.io/docs/latest/develop/use/patterns/distributed-locks/. The nodes are independent
// of each other: no replicas, no cluster. These are its steps, and where the code is:
//
//  1. Note the time (Mutex.TryLock).
//  2. Set the same key to the same random token on all nodes, if it does not exist (claim.set),
//     with a time limit for each node far below the ttl (NodeLimit). The description asks one
//     node after another; this package asks all of them concurrently (claim.ask).
//  3. The lock is held if a majority, N/2+1, did so and some validity is left: the
//     ttl minus the time this took, minus the drift of the clocks (keep, drift).
//  4. It is held while that validity lasts (Mutex.Validity).
//  5. If it is not held, release it on all nodes, even those that did not answer (claim.release,
//     unlock.lua), and retry after a random delay. The caller's waiting policy chooses the delay.
//     The comment of TryLock explains why it must be random.
//
// New: the lock is kept by a majority instead of one server, so it can be acquired, and stays held,
// while fewer than half of the servers are down. The renewal of stage 6 also asks a majority
// (renewal.go). Unlike in stage 6, an owner cannot re-enter.
//
// Delayed restarts: a node that restarts without its data, or without the last second of it, must
// stay down for longer than the longest ttl in use. By then the locks that it forgot have expired,
// or were renewed by a majority of the other nodes. This package cannot ensure that: only the
// operator of the nodes can. A node that syncs each write to disk before it answers (appendfsync
// always) may restart immediately.
//
// Holds:
//   - one holder at a time, also on real servers: TestSchedules, TestMinorityOfProcessesFails
//   - the same in 200 random schedules, where two or three of five nodes at a time
//     are down, deaf, mute or slow, crash and restart late, and clocks drift by up to 1 %; and
//     each holder that lost the lock learned of it: TestSchedules
//   - while any two of five nodes fail, in any way, the lock is acquired and
//     released without delay: TestMinorityFails
//   - while three fail it is not acquired; the caller learns that within NodeLimit,
//     and nothing is left behind: TestNoQuorum
//   - "held by another" and "no majority answered" are different results:
//     TestRefused, TestNoQuorum, TestMinorityFails
//   - a lock whose reply was lost is undone, and nothing else is:
//     TestLostReplyIsUndone, TestReleaseAwaitsSet, TestLateReleaseSparesNextAttempt
//   - replies that come too late grant no lock: TestTooLateIsNotHeld
//   - a cancelled caller still releases the lock: TestCancelledTryLock, and the lab's
//     unlock-after-cancel
//   - an Unlock that does not reach a majority returns in time, and the lock expires:
//     TestUnlockWithoutQuorum
//   - a late holder leaves the next holder's lock alone: the lab's foreign-delete
//   - a dead holder's lock is free in the end: the lab's orphan-after-crash
//   - a majority renews: TestForgetfulMinority, and the lab's long-work,
//     renewal-ends-with-an-error and renewal-after-unlock
//   - the holder learns of a loss, at the latest when the validity ends: TestLossIsTold
//   - a node that comes back with its data does no harm, nor does one that comes back
//     without it after the ttl: TestSchedules
//
// Breaks:
//   - if a majority's clocks jump, a second holder gets in: the lab's clock-jump-majority
//   - a second holder also gets in if a node comes back empty within the ttl:
//     TestSchedulesWithoutDelayedRestart, and the lab's restart-forgets-lock
//   - a process paused for longer than ttl learns of the loss only when it resumes, maybe one
//     write too late. The tokens are random and have no order, so the resource cannot use them as
//     fencing tokens to refuse it: the lab's stopped-holder
//   - if several try at the same moment, perhaps none gets the lock: TestSplitVote
//   - a SET that is executed after its release locks a node for ttl, although nobody holds the
//     lock: TestLateSetStaysUntilTTL
//   - a lock that is never unlocked is renewed forever: the lab's forgotten-unlock
package redlock
