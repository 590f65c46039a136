// Package mutants lists small faults: a check that is dropped, an expiry that is
// forgotten, two steps that are swapped. Each fault is put into one stage of the lock,
// and a test of that stage must fail. Faults in a sale (h3_claim, the consumer of accepted
// orders, the repair, a restock) each name the test that must fail.
//
//	go test -tags mutants -v ./internal/mutants
//
// builds each of them and prints what noticed it. It takes up to half an hour; -run
// TestMutantsOfSalesAreNoticed builds only the faults in sales, in eight minutes.
// Without the tag, the tests only check that each fault still applies to its file, and
// with the tag system, also that it builds.
package mutants
