// Package locktest breaks locks on purpose, the same way every time.
//
// A [Hook] in a go-redis client pauses or fails given commands, or loses their replies.
// The code under test needs no test hooks of its own, so the same faults can be injected
// into a stage of this project and into a third-party library. A [Witness] detects two
// holders at once without asking the lock. [Start] and
// [StartTicking] serve a Redis whose clock the test moves.
//
// The package knows no lock. Package promises says what a lock may promise, and package
// stages which stage keeps which promise.
package locktest
