// Package mutants lists small faults: a check that is dropped, an expiry that is
// forgotten, two steps that are swapped. Each fault is put into one stage of the lock,
// and the tests of that stage must fail. If a user could see the fault, the lab must
// show it too. Faults in a sale (h3_claim, the consumer of accepted orders, the repair,
// a restock) each name the test that must fail.
//
//	go test -tags mutants -v ./internal/mutants
//
// builds each of them and prints what noticed it. It takes half an hour; -run
// TestMutantsOfSalesAreNoticed builds only the faults in sales, in eight minutes.
// Without the tag, the tests only check that each fault still applies to its file.
package mutants
