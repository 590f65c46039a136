// Package locktest breaks locks on purpose, in the same way every time.
//
// A [Hook] in a go-redis client pauses commands, fails them, or loses their replies. The code under
// test needs no test hooks, so the same faults can be injected into a stage of this project and
// into a third-party library. A [Witness] detects two holders at once without asking the lock.
// [Start] starts a Redis in memory. In a bubble of testing/synctest, the test moves its clock.
//
// [Run] checks the promises of a lock. The package does not depend on a particular lock and imports
// no other package of this project, so it can be copied into another project (see docs/take-it.md).
package locktest
