// Package etcdlock is a lock on etcd: a queue of keys attached to leases, made of
// plain transactions and watches.
//
// How it works: each contender puts a key, attached to its lease, under the lock's
// name. The oldest key holds the lock; every other contender watches the key just before its own,
// so a release wakes only one waiter. When a lease expires, its keys are deleted.
//
// New, compared with the mutex of etcd's own client: that mutex watches from a past revision, and
// the server serves such a watch only every 100 ms, so two processes hand a lock over 23 times a
// second. Here a watch starts from the current revision, and the preceding key is looked up only
// after the watch was created (queue.go): this allows more than 1000 hand-overs a second on two
// idle cores. All goroutines of a process share one lease (session.go); they queue up in memory
// first, and one at a time goes to etcd (package lease). The lease is timed by this machine's clock, from
// before each renewal was sent, so a holder learns of a loss before etcd lets the next one in.
//
// Holds:
//   - one holder at a time, in a process and among processes: TestPromises
//   - first come, first served, in a process, and among processes by the order in
//     which etcd got their keys: TestPromises
//   - a waiter that gives up leaves nothing behind: TestPromises, TestLatePut
//   - a cancelled caller still releases the lock: the lab's unlock-after-cancel
//   - a dead holder's lock is free after ttl: TestLossIsToldFirst
//   - a late holder leaves the next holder's lock alone: TestLossIsToldFirst
//   - a holder learns of a loss before the next one has the lock: TestLossIsToldFirst
//   - a transient failure of etcd does no harm: TestPromises,
//     TestLostReply, TestLateLease
//   - a waiter is woken when the one before it leaves, even if its watch breaks:
//     TestDepartureIsNotMissed, TestBrokenWatch
//   - each holder's token is greater than the one before: TestPromises
//   - thousands of waiters in a process need one lease and one key: TestOneLeaseForAll
//   - no call hangs while etcd is unavailable: TestPromises
//
// Breaks:
//   - a lock that is never unlocked is renewed forever
//   - if somebody else deletes a key or a lease, the holder learns of it up to a third of the ttl
//     later: TestForeignDeleteIsToldLate; a waiter learns of it before it could get the lock:
//     TestForeignDeleteOfPlace; a caller without a place in the queue continues with a new lease:
//     TestRevokedLeaseIsReplaced
//   - a process paused for longer than ttl learns of the loss only when it resumes,
//     maybe one write too late: only a resource that checks the token can refuse it
package etcdlock

import (
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"oversell/internal/locks/lease"
)

// ErrLost is the cancellation cause of the context of a lost hold. Match it with errors.Is. The error
// of Lock wraps it if the lease or the place in the queue was lost while Lock waited.
var ErrLost = errors.New("etcdlock: lease lost")

// NewSource returns a source of locks that expire ttl after their process stops renewing them.
// The ttl is rounded up, because etcd counts in seconds and has a minimum ttl of usually one or
// two seconds. The caller still owns the client.
//
// Close revokes the lease, which releases all locks that are still held.
func NewSource(client *clientv3.Client, ttl time.Duration) *lease.Source {
	s := &server{client: client, ttl: ttl}
	return lease.NewSource(lease.Kind{Name: "etcdlock", Lost: ErrLost, Open: s.open})
}
