package runs

import (
	"cmp"

	"oversell/internal/catalog"
)

// Preset is a run that the page offers on a card.
type Preset struct {
	Name string `json:"name"`
	Settings
}

// presets returns the presets that can be started. Each shows one way to fail beside a lock
// that does not fail in that way. What they leave open is a default.
func (m *Manager) presets() []Preset {
	var can []Preset
	for _, p := range []Preset{
		{"first", Settings{Strategies: []string{"none", "v9_cohort"}, Conditions: []catalog.Condition{catalog.Calm}, Requests: 1000, Stock: 250, Work: 10_000}},
		{"slow", Settings{Strategies: []string{"v2_ttl", "v9_cohort"}, Conditions: []catalog.Condition{catalog.Slow}}},
		{"crash", Settings{Strategies: []string{"v1_setnx", "v9_cohort"}, Conditions: []catalog.Condition{catalog.Crash}}},
		{"pause", Settings{Strategies: []string{"v6_watchdog", "v8_fenced"}, Conditions: []catalog.Condition{catalog.Pause}}},
		{"cut", Settings{Strategies: []string{"v6_watchdog", "v9_cohort"}, Conditions: []catalog.Condition{catalog.Partition}}},
		{"unfenced", Settings{Strategies: []string{"v8_fenced"}, Conditions: []catalog.Condition{catalog.Pause}, Unfenced: true}},
		{"big", Settings{Strategies: []string{"none", "v9_cohort", "lua_atomic"}, Conditions: []catalog.Condition{catalog.Calm}, Requests: 5000, Stock: 1000, Work: 400}},
	} {
		d := m.Defaults()
		p.Requests, p.Stock, p.Work = cmp.Or(p.Requests, 400), cmp.Or(p.Stock, 100), cmp.Or(p.Work, 5000)
		p.Instances, p.TTL, p.Backend = max(2, d.Instances), d.TTL, d.Backend
		if _, err := m.check(p.Settings); err == nil {
			can = append(can, p)
		}
	}
	return can
}
