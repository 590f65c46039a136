package anomalies

import "oversell/internal/lab"

// mixedScenarios returns no scenarios in a browser: they need SQLite, which does not build for it.
func mixedScenarios() []lab.Scenario { return nil }
