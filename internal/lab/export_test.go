package lab

// These are exported for package lab_test, whose tests play all anomalies. This package cannot import
// the anomalies.
var (
	AddsUp        = addsUp
	KeysAfter     = keysAfter
	BriefKeys     = briefKeys
	LeavesNothing = leavesNothing
)
