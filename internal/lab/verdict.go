package lab

import "fmt"

// verdict is what came out of a cell, and what decided it.
type verdict struct {
	outcome Outcome
	note    string
}

func holds(format string, args ...any) verdict {
	return verdict{Holds, fmt.Sprintf(format, args...)}
}

func breaks(format string, args ...any) verdict {
	return verdict{Breaks, fmt.Sprintf(format, args...)}
}

func na(format string, args ...any) verdict {
	return verdict{NA, fmt.Sprintf(format, args...)}
}

func unknown(format string, args ...any) verdict {
	return verdict{Unknown, fmt.Sprintf(format, args...)}
}

// stuck ends a scenario that cannot go on: what it needs did not come about,
// so that nothing is decided. It is panicked with, and caught by play.
type stuck struct{ why string }

// need ends the scenario unless ok.
func need(ok bool, format string, args ...any) {
	if !ok {
		panic(stuck{fmt.Sprintf(format, args...)})
	}
}
