// Package locktest breaks locks on purpose, the same way every time.
//
// A [Hook] in a go-redis client pauses or fails given commands, or loses their replies. The code
// under test needs no test hooks of its own, so the same faults can be injected into a stage of
// this project and into a third-party library. A [Witness] detects two holders at once without
// asking the lock. [Start] and [StartTicking] start a Redis whose clock the test moves.
//
// [Run] checks the promises of a lock. The package depends on no particular lock and imports
// nothing else of the project, so it can be copied into another project (see docs/take-it.md).
package locktest
