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

// few is the stock of the presets in which a single late write may be all that is too much: one
// unit more than 12 can be seen in the picture, one more than 100 cannot.
const few = 12

// presets returns the presets that can be started. Each shows one way to fail beside a lock
// that does not fail in that way. Only "unfenced" has nothing beside it: Unfenced holds for all
// strategies of a run, so v8_fenced with a check cannot stand beside v8_fenced without one. What
// presets leave open is a default.
func (m *Manager) presets() []Preset {
	var can []Preset
	for _, p := range []Preset{
		{"first", Settings{Strategies: []string{"none", "v9_cohort"}, Conditions: []catalog.Condition{catalog.Calm}, Requests: 1000, Stock: 250, Work: 10_000}},
		{"slow", Settings{Strategies: []string{"v2_ttl", "v9_cohort"}, Conditions: []catalog.Condition{catalog.Slow}}},
		{"crash", Settings{Strategies: []string{"v1_setnx", "v9_cohort"}, Conditions: []catalog.Condition{catalog.Crash}}},
		{"pause", Settings{Strategies: []string{"v6_watchdog", "v8_fenced"}, Conditions: []catalog.Condition{catalog.Pause}, Stock: few}},
		{"cut", Settings{Strategies: []string{"v6_watchdog", "v9_cohort"}, Conditions: []catalog.Condition{catalog.Partition}, Stock: few}},
		{"unfenced", Settings{Strategies: []string{"v8_fenced"}, Conditions: []catalog.Condition{catalog.Pause}, Stock: few, Unfenced: true}},
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
