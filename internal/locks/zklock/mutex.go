// Package zklock is a lock on ZooKeeper: a queue of ephemeral, sequential nodes.
//
// How it works: each contender puts a numbered node under the lock's name. The node with the lowest
// number holds the lock; every other contender watches the node just before its own, so a release
// wakes one waiter instead of all. When a session ends, ZooKeeper removes its nodes. This is the
// recipe in ZooKeeper's own documentation.
//
// New: all goroutines of a process share one session. They queue up in memory first, and one at a time goes
// to ZooKeeper (package lease). The session is timed by this machine's clock, from before each answered
// request was sent, so a holder learns of a loss before ZooKeeper lets the next one in. The client library
// reports a loss only when it has reached a server again, which may be much later.
//
// Holds:
//   - one holder at a time, in a process and among processes: TestPromises
//   - first come, first served, in a process, and among processes by the order in
//     which ZooKeeper got their nodes: TestPromises
//   - a release wakes one waiter: TestOnlyTheNextIsWoken
//   - a waiter that gives up leaves nothing behind: TestPromises
//   - a node whose creation was not confirmed is found again: TestLostReply
//   - a cancelled caller still releases the lock: the lab's unlock-after-cancel
//   - a dead holder's lock is free after the session's timeout: TestLossIsToldFirst
//   - a late holder leaves the next holder's lock alone: TestLossIsToldFirst
//   - a holder learns of a loss before the next one has the lock: TestLossIsToldFirst
//   - a transient failure of ZooKeeper does no harm: TestPromises
//   - each holder's token is greater than the one before, even when the lock's
//     name was removed in between: TestPromises, TestTokenOutlivesTheName
//   - the names of unused locks are removed: TestTokenOutlivesTheName
//   - no call hangs while ZooKeeper is unavailable: TestPromises
//
// Breaks:
//   - a lock that is never unlocked is held until its process ends
//   - if somebody else deletes a node, its holder learns of it up to a third of the timeout later:
//     the lab's loss-not-told
//   - if ZooKeeper ends the session, a holder learns of it just as late; a caller without a place
//     in the queue continues with a new session: TestEndedSessionIsReplaced
//   - in an ensemble, a server reports an answered request to the leader only at its next tick, at
//     most half a tick later: if the server dies in between, the leader counts from the previous
//     answer, and may end the session up to half a tick earlier
//   - a process paused for longer than the timeout learns of the loss only when it
//     resumes, maybe one write too late: only a resource that checks the token can
//     refuse it
package zklock

import (
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"oversell/internal/locks/lease"
)

// ErrLost is the cancellation cause of the context of a lost hold. Match it with errors.Is. The
// error of Lock wraps it if the session was lost while Lock waited.
var ErrLost = errors.New("zklock: session lost")

// NewSource returns a source of locks that expire when ZooKeeper has not heard from this process
// for the timeout. The timeout must be the one that the server granted, not the one that was
// requested. The caller still owns the connection, and should use its session for nothing else.
// The path of a lock is /oversell/ followed by its key, with %XX for bytes that are not allowed in
// a path.
//
// If locks are still held when the Source is closed, they end with the connection, so close
// the connection next.
func NewSource(conn *zk.Conn, timeout time.Duration) *lease.Source {
	return lease.NewSource((&server{conn: conn, timeout: timeout}).kind())
}

func (s *server) kind() lease.Kind {
	return lease.Kind{Name: "zklock", Lost: ErrLost, Open: s.open}
}
