// Package mutants has a list of small faults: a check that is dropped, an expiry
// that is forgotten, two steps that are swapped. Each fault is put into one stage of
// the lock, and the tests of that stage must fail. If a user could see the fault,
// the lab must show it too.
//
//	go test -tags mutants -v ./internal/mutants
//
// builds each of them and prints what noticed it. It takes several minutes. Without
// the tag, the tests only check that each fault still applies to its file.
package mutants
