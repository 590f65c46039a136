package stock

import "errors"

// The steps of a purchase, see Request.Steps.
const (
	StepLook    = "look"    // reading the item, and any earlier order with the same key
	StepJoin    = "join"    // waiting until strategies of other families have left
	StepWait    = "wait"    // waiting for the guard, or for the batch to begin
	StepAcquire = "acquire" // the attempt that took the lock, with the wait in the lock's queue if it has one
	StepRead    = "read"    // reading the stock
	StepWork    = "work"    // what Config.Work does
	StepWrite   = "write"   // writing the stock, in one transaction with the order where both are in the database
	StepTake    = "take"    // the script that checks and takes
	StepOrder   = "order"   // writing the order, with others in a batch
	StepRelease = "release" // releasing the lock, or committing
)

// IsFailure reports whether a step has failed with err, which may be nil. It is no failure if the
// step has found that the item is sold out, or that another buyer was faster.
func IsFailure(err error) bool {
	for _, answer := range []error{ErrSoldOut, ErrLimit, ErrKeyReused, errConflict, errDuplicate, errOtherSale} {
		if errors.Is(err, answer) {
			return false
		}
	}
	return err != nil
}
