package anomalies

import "oversell/internal/lab"

// mixedScenarios returns none in a browser: they need a database, and SQLite does not build
// there.
func mixedScenarios() []lab.Scenario { return nil }
