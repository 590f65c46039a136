// Package locktest breaks locks on purpose, the same way every time.
//
// A [Hook] sits in a go-redis client and parks, fails or un-answers the
// commands it is told to. The code under test needs no test hooks of its own,
// so the same fault meets a stage of this project and a library from outside.
// A [Witness] sees two holders at once without asking the lock. [Start] and
// [StartTicking] serve a Redis whose clock the test moves.
//
// The package knows no lock. What each stage promises, and which of it holds,
// is the table in the folder promises.
package locktest
